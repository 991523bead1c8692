"""The SPI of a sink: something outside the job's systems that a task writes to and that commits with it.

A sink keeps the input offsets beside what it holds, in one transaction of its own. It commits in step 3 of the task's
commit, so before the changelog and the checkpoint: after a crash it may be ahead of the checkpoint and never behind.
The inputs between the two are processed again, because the stores (and outputs in an aborted transaction) need them;
what comes out of them a second time is already in the sink, and the sink drops it, knowing from its own offsets which
inputs it has. So every row must come from an input, and once an input always gives the same rows (a deterministic
task), they are in the sink exactly once under every guarantee but at-most-once:

================  ==========================  ================================================================
guarantee         rows of each input          what the rows say, where it comes from a store
================  ==========================  ================================================================
at-most-once      once, or not after a crash  follows the store: may miss what was lost
at-least-once     once                        each input applied once
effectively-once  once                        each input applied once
exactly-once      once                        each input applied once
================  ==========================  ================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition


@dataclass(frozen=True)
class TaskAttempt:
    """Who opens a sink: the task, and the attempt's fencing token.

    `job` is `<job.name>-<job.id>`, `task` the task's name: together the same in every attempt. `epoch` only grows:
    once a sink has been opened under an epoch, it must refuse every smaller one. `ssps` are the task's inputs.
    """

    job: str
    task: str
    epoch: int
    ssps: frozenset[SystemStreamPartition]

    def __str__(self) -> str:
        return f"{self.job}/{self.task}"


class Sink(ABC):
    """Belongs to one task, which makes it and registers it in `init`. One thread.

    What any method raises ends the attempt without a commit: TaskMigrated when a newer attempt has the sink,
    RetriableError when a restart in place may help (a lost connection), anything else as it is.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What the sink is called in messages and metrics; unique within the task."""

    @abstractmethod
    def open(self, attempt: TaskAttempt) -> Mapping[SystemStreamPartition, int]:
        """Take the sink over from earlier attempts, and say from where on it lacks each partition's inputs.

        Called once, after `init` and before the first message. The offsets must be read after earlier attempts have
        been locked out: whatever one of them still commits later would not be in them. A partition that the sink has
        never committed is left out; a sink that keeps no offsets returns an empty mapping (and is at-least-once).
        Where a partition has no checkpoint and `init` sets no offset, the task starts at the sink's.
        """

    @abstractmethod
    def commit(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Make what was written durable, and with it `offsets`, the next input of every partition; both or neither.

        Only what comes from inputs before `offsets` may become durable. While inputs are processed again, `offsets`
        are smaller than what the sink holds: then it keeps its own.
        """

    def forget(self, envelope: IncomingMessageEnvelope) -> None:
        """Take back what was written for a message whose processing has failed and which the job's error policy repeats,
        skips or makes a dead letter. A sink that does not override this keeps it."""

    def full(self) -> bool:
        """Whether so much is waiting for a commit that the task should commit early; asked every 50 ms or so."""
        return False

    def metrics(self) -> Mapping[str, float]:
        """Values to publish at each commit, by name."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Release what the sink holds, without a commit: after a failure that is the roll-back. Twice is allowed."""
