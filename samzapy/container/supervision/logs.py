"""The log of a job's process: the place of each line, its form, its files, and its way to the driver.

    job.log.dir/JOB-ID/driver.log         the driver, with the lines that containers have sent it
    job.log.dir/JOB-ID/container-0.log    a container, on the machine that runs it; .1 is the file before, and so on

1. The place of a line (job, container, task, message at hand) is found when it is logged: the loops over messages keep
   no note of where they are, since that would cost something for each message. A log line and a check for stalls are
   rare, so they walk up the stack instead, to a function that is known here, and read its variables.
2. Only a process that belongs to the job is set up: `samzapy run`, and the workers of executors. A program that calls a
   runner keeps its own logging.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from samzapy.config.supervision import LogConfig
from samzapy.container.commit_protocol import CommitProtocol, StateWriter
from samzapy.container.errors.processing import BatchProcessing, TolerantProcessing
from samzapy.container.outputs.collector import BufferingCollector
from samzapy.container.outputs.producers import TransactionOnDemand
from samzapy.container.tasks.asynchronous import AsynchronousExecutor, AsyncMessages
from samzapy.container.tasks.synchronous import StrictProcessing
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.job.lease import LONGEST_LINE, LONGEST_TRACEBACK, MOST_LINES, LogLine
from samzapy.strict_json import encode, sendable

logger = logging.getLogger(__name__)

Variables = Mapping[str, Any]
#: Attributes of a record that the filter sets.
CONTAINER, TASK, POSITION = "samzapy_container", "samzapy_task", "samzapy_position"
#: Libraries with lines about each of their own steps, and the level from which their lines are of use. The server warns
#: about unauthenticated requests.
_TALKATIVE = {
    **dict.fromkeys(("py4j", "urllib3", "asyncio", "sqlalchemy", "fsspec", "botocore", "numexpr"), logging.WARNING),
    "urllib3.connectionpool": logging.ERROR,
    "uvicorn": logging.ERROR,
}
#: The name of a driver's file, without its ending.
DRIVER = "driver"
#: Bytes of a log that a reader of its newest lines gets.
NEWEST_BYTES = 262_144


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
    TaskInstance.call.__code__: _call,
    BufferingCollector.hand_over.__code__: _own("waits for room in the queue of its outputs"),
    StateWriter.commit.__code__: _own("waits for a transaction to be committed"),
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


def stack_of(thread_id: int) -> FrameType | None:
    """The innermost frame of a thread; None if it has ended."""
    return sys._current_frames().get(thread_id)  # noqa: SLF001  # the documented way to a thread's frame


def stack_as_text(frame: FrameType) -> str:
    """A stack for people, the innermost call last, from the innermost known call on; of a long one the end."""
    depth, above = 1, frame
    while above.f_code not in _KNOWN and above.f_back is not None:
        depth, above = depth + 1, above.f_back
    return sendable("".join(traceback.format_stack(frame, limit=depth))[-LONGEST_TRACEBACK:].rstrip())


class PlaceFilter(logging.Filter):
    """Says in each record which container, task and message it is from. A record from another process already has its
    place, and stays unchanged."""

    def __init__(self, container: str) -> None:
        """`container` is empty in a driver."""
        super().__init__()
        self._container = container

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, TASK):
            activity = activity_of(sys._getframe(1))  # noqa: SLF001  # the documented way to a frame
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
        container, task, position = _place(record)
        parts = [part for part in (container and f"container {container}", task, position) if part]
        place = f" [{', '.join(parts)}]" if parts else ""
        line = f"{_time(record)} {record.levelname} {record.name}{place}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1]:
            line += f"\n{self.formatException(record.exc_info)}"
        return line


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


def log_folder(config: LogConfig, job_name: str) -> Path:
    """The folder of a job's log files. `job_name` is `JobConfig.job_name`."""
    return config.folder / job_name


def about_container(line: str, container: str) -> bool:
    """Whether a line of a driver's log is about that container."""
    marks = f"[container {container},", f"[container {container}]", f'"container":"{container}"'
    return any(mark in line for mark in marks)


def newest_lines(folder: Path, container: str) -> str:
    """The newest lines of a job's logs in `folder`, `NEWEST_BYTES` at most: of the driver, which has lines of all
    containers, or of the containers that run here. With `container`, the lines about it."""
    files = {path.stem: path for path in folder.glob("*.log")}
    own = files.get(f"container-{container}") if container else None
    driver = files.get(DRIVER)
    try:
        lines = _tail(own or driver or max(files.values(), key=lambda path: path.stat().st_mtime))
    except (OSError, ValueError):
        return ""
    if own is not None:
        return "\n".join(lines)
    return "\n".join(line for line in lines if not container or about_container(line, container))


def _tail(path: Path) -> list[str]:
    with path.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - NEWEST_BYTES))
        return log.read().decode("utf-8", "replace").splitlines()


class PrivateFile(RotatingFileHandler):
    """A log file that only its owner reads. Lines that cannot be written are lost after one warning, since a full disk
    below the log decides nothing about the job."""

    _warned = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name in `logging`
        cause = sys.exc_info()[1]
        if not isinstance(cause, OSError):
            super().handleError(record)
        elif not self._warned:
            self._warned = True
            logger.warning("%s: %s (job.log.dir); further lines may be missing", self.baseFilename, cause.strerror)

    def close(self) -> None:
        with suppress(OSError):
            super().close()

    def _open(self) -> TextIOWrapper:
        # Never truncated: several attempts may write to it one after the other.
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding="utf-8", errors="backslashreplace")


@contextmanager
def process_logging(
    config: LogConfig, job_name: str, file: str, container: str = "", handlers: Sequence[logging.Handler] = ()
) -> Iterator[None]:
    """Send lines from `job.log.level` on to a log file and to `handlers`, as long as the context lasts.

    `file`: the name of the file, without its ending. `container` is empty in a driver. Without a file that can be
    written there is a warning, and the handlers alone.
    """
    root, place = logging.getLogger(), PlaceFilter(container)
    kept = _file(config, job_name, file)
    all_handlers = [*handlers, *([kept] if isinstance(kept, logging.Handler) else [])]
    level, loggers = root.level, {logging.getLogger(name): least for name, least in _TALKATIVE.items()}
    quiet = {item: least for item, least in loggers.items() if item.level == logging.NOTSET}
    for handler in all_handlers:
        handler.addFilter(place)
        handler.setLevel(config.level)
        root.addHandler(handler)
    for item, least in quiet.items():
        item.setLevel(least)
    root.setLevel(config.level)
    if isinstance(kept, str):
        logger.warning("No log file is written: %s", kept)
    try:
        yield
    finally:
        root.setLevel(level)
        for item in quiet:
            item.setLevel(logging.NOTSET)
        for handler in all_handlers:
            root.removeHandler(handler)
            handler.removeFilter(place)
        if isinstance(kept, logging.Handler):
            kept.close()


class PageAddress:
    """The address of a running job's status page, in a private file beside its log, for other commands on this
    machine."""

    def __init__(self, folder: Path) -> None:
        """`folder`: the job's `log_folder`."""
        self._path = folder / "page.url"
        self._written: str | None = None

    def write(self, address: str) -> None:
        """Keep the address instead of an earlier run's, empty for no page. Where that cannot be, it is in the log
        alone."""
        try:
            if self._path.exists():  # not below a folder that is none
                self._path.unlink(missing_ok=True)
            if not address:
                return
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(address)
            self._written = address
        except OSError as cause:
            logger.warning("%s: the status page's address is not kept: %s (job.log.dir)", self._path, cause.strerror)

    def read(self) -> str | None:
        """The address, None if no run of the job has one here."""
        try:
            return self._path.read_text(encoding="utf-8")
        except OSError:
            return None

    def remove(self) -> None:
        """The run has ended. The address of a run that has taken over stays."""
        with suppress(OSError):
            if self._written is not None and self.read() == self._written:
                self._path.unlink()


@contextmanager
def container_logging(config: LogConfig, job_name: str, container: str) -> Iterator[CarriedLines]:
    """The logging of an executor's worker while it runs a container; yields the lines for the container's reports."""
    carried = CarriedLines()
    with process_logging(config, job_name, f"container-{container}", container, [carried]):
        yield carried


def _file(config: LogConfig, job_name: str, file: str) -> PrivateFile | str:
    """The file's handler, or the reason why there is none."""
    folder = log_folder(config, job_name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = PrivateFile(folder / f"{file}.log", maxBytes=config.max_bytes, backupCount=config.files, encoding="utf-8")
    except OSError as cause:
        return f"{folder}: {cause.strerror} (job.log.dir)"
    log.setFormatter(formatter(job_name, as_json=config.as_json))
    return log
