"""The lines of a job's log: the place of each, its form, and its way to the driver.

The place of a line (job, container, task, message at hand) is found when it is logged; nothing is stored for it in
between.
"""

from __future__ import annotations

import logging
from collections import deque
from datetime import datetime, timezone
from typing import Any

from samzapy.container.supervision.activity import activity_here
from samzapy.job.facts import LONGEST_LINE, LONGEST_TRACEBACK, MOST_LINES, LogLine
from samzapy.strict_json import encode, sendable

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
        """Set the attributes; every record passes."""
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
        """The line, and the lines of a traceback."""
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
        """The object."""
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
        """Keep the line; the oldest of its kind goes if there are too many."""
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
