"""The lines of a job's log: the place of each, its form, and its way to the driver.

The place of a line (job, container, task, message at hand) is found when it is logged: the loops over messages keep no
note of where they are, since that would cost something for each message. A log line and a check for stalls are rare, so
they walk up the stack instead, to a function that is known here, and read its variables.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from types import CodeType, FrameType
from typing import Any, NamedTuple

from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.commit.state import TransactionalState
from samzapy.container.errors.processing import BatchProcessing, TolerantProcessing
from samzapy.container.errors.user_failures import UserCalls
from samzapy.container.outputs.producers import TransactionOnDemand
from samzapy.container.tasks.asynchronous import AsynchronousExecutor, AsyncMessages
from samzapy.container.tasks.synchronous import StrictProcessing
from samzapy.job.lease import LONGEST_LINE, LONGEST_TRACEBACK, MOST_LINES, LogLine
from samzapy.strict_json import encode, sendable

Variables = Mapping[str, Any]


class Activity(NamedTuple):
    """A call that a thread is in. `doing` is for people, as `in process of kafka.in[3]@17`; `task` and `position` are
    empty where it is of no task, or at no message; `of_user`: it is the user's code."""

    doing: str
    task: str = ""
    position: str = ""
    of_user: bool = True


def _message(name: str) -> Callable[[Variables], Activity]:
    def read(variables: Variables) -> Activity:
        # Before the first message there is none.
        at = variables.get(name)
        task = variables["self"]._task.name  # noqa: SLF001  # the variables of our own function
        return Activity(f"in process of {at.position}", task, at.position) if at else Activity("in process", task)

    return read


def _call(variables: Variables) -> Activity:
    return Activity(f"in {variables['where']}", variables["self"].name)


def _asynchronous(name: str) -> Callable[[Variables], Activity]:
    def read(variables: Variables) -> Activity:
        of: Any = variables[name]
        position = getattr(of, "work", of).envelope.position
        return Activity(f"in process of {position}", variables["self"].task.name, position)

    return read


def _own(doing: str) -> Callable[[Variables], Activity]:
    return lambda _: Activity(doing, of_user=False)


def _in_flight(variables: Variables) -> Activity | None:
    """The message that has been in flight the longest."""
    for messages in variables["self"]._all:  # noqa: SLF001  # the variables of our own function
        position = messages.oldest
        if position is not None:
            return Activity(f"in process of {position}", messages.task.name, position)
    return None


_KNOWN: dict[CodeType, Callable[[Variables], Activity]] = {
    StrictProcessing.process.__code__: _message("envelope"),
    TolerantProcessing._process_run.__code__: _message("envelope"),  # noqa: SLF001
    BatchProcessing._call.__code__: _message("part"),  # noqa: SLF001
    AsyncMessages._begin.__code__: _asynchronous("work"),  # noqa: SLF001
    AsyncMessages._run.__code__: _asynchronous("message"),  # noqa: SLF001
    UserCalls.call.__code__: _call,
    TransactionalState.commit.__code__: _own("waits for a transaction to be committed"),
    TransactionOnDemand._begin.__code__: _own("waits for a transaction to begin"),  # noqa: SLF001
    CommitProtocol._run.__code__: _own("in a commit"),  # noqa: SLF001
}
#: The loops of an asynchronous executor, during which the messages in flight are somewhere else.
_WAITS = {AsynchronousExecutor._advance.__code__, AsynchronousExecutor.settle.__code__}  # noqa: SLF001


def activity_of(frame: FrameType | None) -> Activity | None:
    """The innermost known call of a stack; None if there is none."""
    while frame is not None:
        read = _KNOWN.get(frame.f_code)
        if read is not None:
            return read(frame.f_locals)
        frame = frame.f_back
    return None


def waited_for(frame: FrameType | None) -> Activity | None:
    """The message that an asynchronous task's loop waits for; None if it waits for none."""
    while frame is not None:
        if frame.f_code in _WAITS:
            return _in_flight(frame.f_locals)
        frame = frame.f_back
    return None


def activity_here() -> Activity | None:
    """The activity of the caller's own thread."""
    return activity_of(sys._getframe(1))  # noqa: SLF001  # the documented way to a frame


def stack_of(thread_id: int) -> FrameType | None:
    """The innermost frame of a thread; None if it has ended."""
    return sys._current_frames().get(thread_id)  # noqa: SLF001  # the documented way to a thread's frame


def stack_as_text(frame: FrameType) -> str:
    """A stack for people, the innermost call last, from the innermost known call on; of a long one the end."""
    depth, above = 1, frame
    while above.f_code not in _KNOWN and above.f_back is not None:
        depth, above = depth + 1, above.f_back
    return sendable("".join(traceback.format_stack(frame, limit=depth))[-LONGEST_TRACEBACK:].rstrip())


#: Attributes of a record that the filter sets.
CONTAINER, TASK, POSITION = "samzapy_container", "samzapy_task", "samzapy_position"


class PlaceFilter(logging.Filter):
    """Says in each record which container, task and message it is from. A record from another process already has its
    place, and stays unchanged."""

    def __init__(self, container: str) -> None:
        """`container` is empty in a driver."""
        super().__init__()
        self._container = container

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, TASK):
            activity = activity_here()
            setattr(record, CONTAINER, self._container)
            setattr(record, TASK, activity.task if activity else "")
            setattr(record, POSITION, activity.position if activity else "")
        return True


def _place(record: logging.LogRecord) -> tuple[str, str, str]:
    container, task, position = (getattr(record, name, "") for name in (CONTAINER, TASK, POSITION))
    return container, task, position


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO tasks.counts [container 0, Partition 3, kafka.in[3]@17]: text`; times are UTC."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname} {record.name}{self.place(record)}"
        return f"{head}: {record.getMessage()}{self.trace(record)}"

    @staticmethod
    def place(record: logging.LogRecord) -> str:
        """Container, task and message in brackets; empty for a line of a driver."""
        container, task, position = _place(record)
        parts = [part for part in (container and f"container {container}", task, position) if part]
        return f" [{', '.join(parts)}]" if parts else ""

    def trace(self, record: logging.LogRecord) -> str:
        """The traceback on separate lines, if there is one."""
        return f"\n{self.formatException(record.exc_info)}" if record.exc_info and record.exc_info[1] else ""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, job, container, task, position, message, and traceback if there is
    one."""

    def __init__(self, job: str) -> None:
        super().__init__()
        self._job = job

    def format(self, record: logging.LogRecord) -> str:
        container, task, position = _place(record)
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "job": self._job,
            "container": container,
            "task": task,
            "position": position,
            "message": sendable(record.getMessage()),
        }
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = sendable(self.formatException(record.exc_info))
        return encode(line).decode()


def formatter(job: str, *, as_json: bool) -> logging.Formatter:
    """The formatter that a job file asks for."""
    return JsonLines(job) if as_json else TextLines()


class CarriedLines(logging.Handler):
    """Keeps the newest lines until a report takes them: `MOST_LINES` warnings and worse, and as many others."""

    def __init__(self) -> None:
        super().__init__()
        self._loud: deque[LogLine] = deque()
        self._quiet: deque[LogLine] = deque()
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._line(record)
        except Exception:  # noqa: BLE001  # as every handler of Python's: a line that cannot be formatted ends nothing
            self.handleError(record)
            return
        kept = self._loud if record.levelno >= logging.WARNING else self._quiet
        kept.append(line)
        if len(kept) > MOST_LINES:
            kept.popleft()
            self._left_out += 1

    def take(self) -> tuple[tuple[LogLine, ...], int]:
        """The lines since the last call, `MOST_LINES` at most, and the number of dropped ones."""
        self.acquire()
        try:
            loud, quiet, left_out = self._loud, self._quiet, self._left_out
            self._loud, self._quiet, self._left_out = deque(), deque(), 0
        finally:
            self.release()
        room = MOST_LINES - len(loud)
        left_out += max(0, len(quiet) - room)
        newest = list(quiet)[max(0, len(quiet) - room) :]
        return tuple(sorted([*loud, *newest], key=lambda line: line.time_ms)), left_out

    def _line(self, record: logging.LogRecord) -> LogLine:
        _, task, position = _place(record)
        text = record.getMessage()[:LONGEST_LINE]
        if record.exc_info and record.exc_info[1]:
            trace = logging.Formatter().formatException(record.exc_info)
            text = f"{text}\n{trace[-LONGEST_TRACEBACK:]}"
        return LogLine(round(record.created * 1000), record.levelno, record.name, sendable(text), task, position)


def record_of(line: LogLine, container: str) -> logging.LogRecord:
    """The record of a line that has come from a container."""
    record = logging.LogRecord(line.logger, line.level, "", 0, line.text, None, None)
    record.created = line.time_ms / 1000
    setattr(record, CONTAINER, container)
    setattr(record, TASK, line.task)
    setattr(record, POSITION, line.position)
    return record
