"""Sets the logging of a process up for a job, and puts it back: the terminal, a file that rotates, lines for the
driver.

    job.log.dir/JOB-ID/driver.log         the driver, with the lines that containers have sent it
    job.log.dir/JOB-ID/container-0.log    a container, on the machine that runs it; .1 is the file before, and so on

Only a process that belongs to the job is set up: `samzapy run`, and the workers of executors. A program that calls a
runner keeps its own logging.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from samzapy.config.supervision import LogConfig
from samzapy.container.supervision.log_lines import CarriedLines, PlaceFilter, formatter

logger = logging.getLogger(__name__)

#: Libraries with lines about each of their own steps, and the level from which their lines are of use. The server warns
#: about the requests of strangers.
_TALKATIVE = {
    **dict.fromkeys(("py4j", "urllib3", "asyncio", "sqlalchemy", "fsspec", "botocore", "numexpr"), logging.WARNING),
    "urllib3.connectionpool": logging.ERROR,
    "uvicorn": logging.ERROR,
}
#: The files of a driver and of a container.
DRIVER = "driver"


def container_file(container_id: str) -> str:
    """The name of a container's log file, without its ending."""
    return f"container-{container_id}"


def log_folder(config: LogConfig, job_name: str) -> Path:
    """The folder of a job's log files. `job_name` is `JobConfig.job_name`."""
    return config.folder / job_name


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
            logger.warning(
                "%s: %s (job.log.dir); further lines may be missing there", self.baseFilename, cause.strerror
            )

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
    quiet = {each: least for each, least in loggers.items() if each.level == logging.NOTSET}
    for handler in all_handlers:
        handler.addFilter(place)
        handler.setLevel(config.level)
        root.addHandler(handler)
    for each, least in quiet.items():
        each.setLevel(least)
    root.setLevel(config.level)
    if isinstance(kept, str):
        logger.warning("No log file is written: %s", kept)
    try:
        yield
    finally:
        root.setLevel(level)
        for each in quiet:
            each.setLevel(logging.NOTSET)
        for handler in all_handlers:
            root.removeHandler(handler)
            handler.removeFilter(place)
        if isinstance(kept, logging.Handler):
            kept.close()


class PageAddress:
    """The address of a running job's status page, in a private file beside its log, for other commands on this
    machine."""

    def __init__(self, config: LogConfig, job_name: str) -> None:
        self._path = log_folder(config, job_name) / "page.url"
        self._written: str | None = None

    def write(self, address: str) -> None:
        """Keep the address; where that cannot be, it is in the log alone."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(address)
            self._written = address
        except OSError as cause:
            logger.warning(
                "%s: the address of the status page is not kept: %s (job.log.dir)", self._path, cause.strerror
            )

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
    with process_logging(config, job_name, container_file(container), container, [carried]):
        yield carried


def _file(config: LogConfig, job_name: str, file: str) -> PrivateFile | str:
    """The file's handler, or the reason why there is none."""
    folder = log_folder(config, job_name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = PrivateFile(
            folder / f"{file}.log", maxBytes=config.max_bytes, backupCount=config.files, encoding="utf-8"
        )
    except OSError as cause:
        return f"{folder}: {cause.strerror} (job.log.dir)"
    made.setFormatter(formatter(job_name, as_json=config.as_json))
    return made
