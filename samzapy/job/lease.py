"""What a container and its coordinator tell each other: reports, their facts for operators, and the directives in
answer.

The facts are bounded: `MOST_LINES` lines a report, texts cut at `LONGEST_LINE` and `LONGEST_TRACEBACK` characters. Only
`partitions` grows with the job; it is sent when the ends were asked for, every few seconds, and is None in the reports
between. One decision of the runtime depends on them: the same failure again and again ends the job (`SameFailures`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum

import msgspec

from samzapy.clock import Measured
from samzapy.errors import TaskMigrated

#: Log lines in one report; characters of one line; characters of a traceback, counted from its end.
MOST_LINES, LONGEST_LINE, LONGEST_TRACEBACK = 50, 1_000, 8_000
#: Failures that an error policy has handled, in one report; characters of the traceback of each, from its end.
MOST_HANDLED, LONGEST_STACK = 50, 2_000


class PartitionLag(msgspec.Struct, frozen=True, gc=False):
    """One input partition, when its end was asked for.

    `position` is the next offset to process just before, `end` the offset after its last record, `lag` the number of
    offsets between. `age_ms`: milliseconds that the oldest unprocessed record has waited, 0 without lag, None if that
    is not known.
    """

    position: int
    end: int
    lag: int
    age_ms: int | None = None


class Stall(msgspec.Struct, frozen=True):
    """A container without progress: `reason`, as `in process of kafka.in[3]@17`, for `seconds`; `stack` is the stack of
    the tasks' thread, empty if it says nothing."""

    reason: str
    seconds: float
    stack: str = ""

    def __str__(self) -> str:
        return f"{self.reason} for {self.seconds:.0f} s"


class UserFailure(msgspec.Struct, frozen=True):
    """An exception of the user's code, or of a message that does not decode.

    `exception` is its class; `where` the call, as `process of kafka.in[3]@17`; `at` the line of the user's code, as
    `task.py:42`, empty if there is none; `traceback` the whole text. `partition`, `first` and `last` say which messages
    the call had, the offsets inclusive; empty and -1 for a call without messages. `handled`: what the error policy did,
    `skipped`, `dead-lettered` or `retried`, at `time_ms` since 1970; empty and 0 for one that ended the attempt.
    """

    exception: str
    message: str
    task: str
    where: str
    at: str = ""
    traceback: str = ""
    partition: str = ""
    first: int = -1
    last: int = -1
    handled: str = ""
    time_ms: int = 0

    def handled_as(self, what: str, time_ms: int) -> UserFailure:
        """The same failure, after an error policy has handled it."""
        stack = self.traceback[-LONGEST_STACK:]
        return msgspec.structs.replace(self, traceback=stack, handled=what, time_ms=time_ms)

    def is_again(self, before: UserFailure) -> bool:
        """Whether the same exception came at the same messages before: at some of them, where a batch was cut
        elsewhere."""
        if (self.exception, self.task, self.partition) != (before.exception, before.task, before.partition):
            return False
        if not self.partition:
            return self.where == before.where
        return self.first <= before.last and before.first <= self.last


class LogLine(msgspec.Struct, frozen=True):
    """One line of a log. `time_ms` since 1970; `level` is a number of Python's `logging`; `position` is the message at
    hand, as `kafka.in[3]@17`; `task` and `position` are empty outside of a task."""

    time_ms: int
    level: int
    logger: str
    text: str
    task: str = ""
    position: str = ""


class Facts(msgspec.Struct, frozen=True):
    """The facts of one report. `partitions` by SSP as text, None: as in the report before. `handled`: the failures that
    an error policy has handled since then, `MOST_HANDLED` at most. `lines_left_out` counts the lines that found no room
    since the report before."""

    partitions: Measured[dict[str, PartitionLag]] | None = None
    stalled: Stall | None = None
    handled: tuple[UserFailure, ...] = ()
    lines: tuple[LogLine, ...] = ()
    lines_left_out: int = 0


NO_FACTS = Facts()


class Directive(Enum):
    """The coordinator's answer to a report."""

    CONTINUE = "continue"
    STOP = "stop"
    """Commit and stop, on the operator's request."""
    DRAIN = "drain"
    """Process the messages that are there now, call `on_drain`, commit and stop."""
    ABANDON = "abandon"
    """Stop without a commit: a newer attempt owns the container."""


class TaskProgress(msgspec.Struct, frozen=True, gc=False):
    """The progress of a task in event time.

    `clock`: milliseconds since 1970, None before it has a value. `held_by`: the partition that holds the clock back,
    empty for none. `idle`: all its inputs are idle. `checkpoints`: the times of the checkpoints of its private state,
    ascending, None if it keeps none. `open`: it has processed nothing since the last of them, so that one stands for
    every later time. The garbage collector does not look at it: a driver has twenty thousand.
    """

    clock: int | None = None
    held_by: str = ""
    idle: bool = False
    checkpoints: tuple[int, ...] | None = None
    open: bool = False


@dataclass(frozen=True)
class HttpAddress:
    """A URL, and the SHA-256 fingerprint of its certificate, None without TLS. It contains no secret."""

    url: str
    fingerprint: str | None = None


@dataclass(frozen=True)
class ContainerReport:
    """The state of a container.

    `phase` is one of starting, restoring, running, restarting, waiting (for a broker), stopping, done. `positions` and
    `ends` are offsets by SSP as text. `restored` is (records, seconds, source) by `task/store`. `metrics` is a
    registry's numbers. `clocks` has the progress of the tasks by name, `facts` the details for operators.
    """

    container_id: str
    epoch: int
    phase: str
    _: KW_ONLY
    processed: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    restored: Mapping[str, tuple[int, float, str]] = field(default_factory=dict)
    restoring: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    commits: int = 0
    clocks: Mapping[str, TaskProgress] = field(default_factory=dict)
    facts: Facts = NO_FACTS
    port: HttpAddress | None = None


class ContainerLease(ABC):
    """The right of one attempt to run a container; reports keep it. Used by the heartbeat thread and the run loop."""

    epoch: int
    """The number of this attempt, greater than every earlier one's."""
    duration_s: float
    """The time without an answer after which the container must stop itself. It reports three times as often."""
    resumes: bool = False
    """Whether an earlier attempt of this run has run the container: then its systems were reached."""
    checkpoint_clock: int | None = None
    """The greatest checkpoint time that every task of the job has durably reached; None before the first."""
    pace_s: float = 1.0
    """Seconds between two reports, unless a third of the lease is shorter."""
    port: HttpAddress | None = None
    """The HTTP port of the container, which goes with each report; None without one."""

    def outgrow(self, newest: int) -> None:
        """Take an epoch greater than `newest`, an epoch that a sink outside the job's systems has seen.

        Raises TaskMigrated if another attempt has the container.
        """
        raise TaskMigrated(f"this attempt has epoch {self.epoch}, epoch {newest} was seen")

    @abstractmethod
    def report(self, report: ContainerReport) -> Directive:
        """Renew the lease, and return the directive. Raises RetriableError if the coordinator does not answer."""
