"""The SPI of a sink: a store outside the job's systems that a task writes to, and that commits with the task.

1. A sink keeps the input offsets beside its rows, in one transaction.
2. It commits in step 3 of the task's commit, before the changelog and the checkpoint. So after a crash it may be ahead
   of the checkpoint, and is never behind.
3. The task processes the inputs between the two again, because the stores (and outputs in an aborted transaction) need
   them. Their rows are already in the sink. The sink recognises these inputs by its own offsets, and drops the rows.

So every row must come from an input. If an input always gives the same rows (a deterministic task), they are in the
sink exactly once under every guarantee but at-most-once:

================  ==========================  ================================================================
guarantee         rows of each input          content of rows that comes from a store
================  ==========================  ================================================================
at-most-once      once, or not after a crash  follows the store: may miss lost inputs
at-least-once     once                        each input applied once
effectively-once  once                        each input applied once
exactly-once      once                        each input applied once
================  ==========================  ================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition


@dataclass(frozen=True)
class TaskAttempt:
    """The task that opens a sink, with the attempt's fencing token.

    `job` is `<job.name>-<job.id>`, `task` the task's name: together the same in every attempt. `epoch` only grows: a
    sink that was opened under an epoch must refuse every smaller one. `ssps` are the task's inputs, `input_ids` the ids
    of their streams, where the system gives them: a stream that is deleted and created again gets another id.
    """

    job: str
    task: str
    epoch: int
    ssps: frozenset[SystemStreamPartition]
    input_ids: Mapping[SystemStream, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.job}/{self.task}"


class Sink(ABC):
    """Belongs to one task, which makes it and registers it in `init`. One thread.

    An exception of any method ends the attempt without a commit. Raise TaskMigrated if a newer attempt has the sink,
    RetriableError if a restart in place may help (a lost connection).
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the sink in messages and metrics; unique within the task."""

    @abstractmethod
    def open(self, attempt: TaskAttempt) -> Mapping[SystemStreamPartition, int]:
        """Take the sink over from earlier attempts, and return for each partition the first offset that it lacks.

        1. Called once, after `init` and before the first message.
        2. Read the offsets after earlier attempts are locked out, or a late commit of one of them would be missing.
        3. Leave out partitions that the sink has never committed, or has committed under another stream id: those
           offsets are not offsets of the present stream. A sink without offsets returns an empty mapping, and is
           at-least-once.
        4. A partition without a checkpoint, for which `init` sets no offset, starts at the sink's offset.
        """

    @abstractmethod
    def commit(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Make the written rows and `offsets`, the next input of every partition, durable; both or neither.

        Only rows from inputs before `offsets` may become durable. While inputs are processed again, `offsets` are
        smaller than the sink's, and the sink keeps its own.
        """

    def forget(self, envelope: IncomingMessageEnvelope) -> None:
        """Take back the rows of a failed message, before the job's error policy repeats it, skips it or writes its dead
        letter. A sink that does not override this keeps the rows."""

    def mark(self) -> int | None:
        """The place where the rows of the next batch begin, for `back_to`. With None, the default, the sink keeps no
        such places. Then `forget` takes back the rows of a failed batch message by message, and rows without a message
        stay."""
        return None

    def back_to(self, mark: int) -> None:
        """Take back all rows since `mark`. A sink that overrides `mark` must also override this."""
        raise TypeError(f"{type(self).__name__} overrides mark, so it must override back_to as well")

    def full(self) -> bool:
        """Whether the task should commit early, because many rows wait for a commit; called about every 50 ms."""
        return False

    def metrics(self) -> Mapping[str, float]:
        """Values to publish at each commit, by name. Called on the task's thread, so it should not query the database.
        A failure is logged once, and does not end the job."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Release resources without a commit; after a failure that is the roll-back. Closing twice is allowed."""
