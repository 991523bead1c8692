"""The facts about a container for its operators: lag, stalls, the user's last error, log lines.

They travel in the field `facts` of a container's report, and the driver keeps the newest of each kind.

1. Bounded: `MOST_LINES` lines a report, texts cut at `LONGEST_LINE` and `LONGEST_TRACEBACK` characters. Only
   `partitions` grows with the job; it is sent when the ends were asked for, every few seconds, and is None in the
   reports between.
2. No decision of the runtime depends on them but one: the same failure again and again ends the job (`SameFailures`).
"""

from __future__ import annotations

import msgspec

from samzapy.clock import Measured

#: Log lines in one report; characters of one line; characters of a traceback, counted from its end.
MOST_LINES, LONGEST_LINE, LONGEST_TRACEBACK = 50, 1_000, 8_000


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
    the call had, the offsets inclusive; empty and -1 for a call without messages.
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
    """The facts of one report. `partitions` by SSP as text, None: as in the report before. `lines_left_out` counts the
    lines that found no room since the report before."""

    partitions: Measured[dict[str, PartitionLag]] | None = None
    stalled: Stall | None = None
    failure: UserFailure | None = None
    lines: tuple[LogLine, ...] = ()
    lines_left_out: int = 0


NO_FACTS = Facts()
