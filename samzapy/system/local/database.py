"""Opens one connection to a log: its settings and tables, its transactions, SQLite's errors as ours.

A log is a file, shared by the processes of one machine with a connection for each client, or it is in memory, and all
its clients share one connection.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from samzapy.api.system import SystemSettings
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.reading.keys import at_home
from samzapy.errors import ConfigProblem, EnvironmentFailure, RetriableError, raise_if_any

#: Bytes of the file's pages that a connection keeps in memory.
CACHE_BYTES = 16_777_216
#: Seconds that a writer waits for the write of another process.
PATIENCE_S = 30.0
_SYNCHRONOUS = ("normal", "full")
_RETRY_S = 0.005
_FULL = "database or disk is full"
#: A waiting reader polls the file's version after 1 ms, then after growing pauses up to the second value (seconds).
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.032

FORMAT = 1
_APPLICATION_ID = 0x53414D5A

_TABLES = """
CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    stream_id TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    config TEXT NOT NULL
);
CREATE TABLE partitions (
    slot INTEGER PRIMARY KEY AUTOINCREMENT,
    stream INTEGER NOT NULL REFERENCES streams (id),
    number INTEGER NOT NULL,
    oldest INTEGER NOT NULL DEFAULT 0,
    upcoming INTEGER NOT NULL DEFAULT 0,
    clean_records INTEGER NOT NULL DEFAULT 0,
    dirty_records INTEGER NOT NULL DEFAULT 0,
    UNIQUE (stream, number)
);
CREATE TABLE records (
    slot INTEGER NOT NULL,
    position INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    key BLOB,
    value BLOB,
    headers BLOB,
    PRIMARY KEY (slot, position)
) WITHOUT ROWID;
CREATE TABLE producers (
    transactional_id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    deadline_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE open_ranges (
    slot INTEGER NOT NULL,
    first INTEGER NOT NULL,
    end INTEGER NOT NULL,
    transactional_id TEXT NOT NULL,
    PRIMARY KEY (slot, first)
) WITHOUT ROWID;
CREATE TABLE cleanings (
    slot INTEGER NOT NULL,
    until INTEGER NOT NULL,
    time_ms INTEGER NOT NULL
);
"""


def _is_ready(connection: sqlite3.Connection) -> bool:
    """Whether the file has the tables; False if it is empty. Raises ValueError for any other file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) == (_APPLICATION_ID, FORMAT):
        return True
    if application == _APPLICATION_ID:
        raise ValueError(f"written in format {version}, this version reads {FORMAT}")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables or application:
        raise ValueError("a SQLite file of some other program")
    return False


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables."""
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


class OutcomeUnknown(EnvironmentFailure):
    """Raised when SQLite failed in the COMMIT itself: the write may have happened or not."""


class Database:
    """A connection to a log in a file. One thread at a time, and only in the process that opened it.

    Raises RetriableError when another process holds the write lock for longer than `PATIENCE_S`, else
    EnvironmentFailure.
    """

    def __init__(self, log: Log, connection: sqlite3.Connection) -> None:
        self._log = log
        self._connection = connection
        self._pid = os.getpid()
        self._file = _file_at(log.where)
        self.execute: Callable[..., sqlite3.Cursor] = connection.execute
        self.executemany: Callable[..., sqlite3.Cursor] = connection.executemany

    @contextmanager
    def write(self) -> Iterator[None]:
        """One atomic write: takes the lock at the start; COMMIT has returned when the block is left."""
        with self._translating():
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._rollback()
                raise
            try:
                self.execute("COMMIT")
            except sqlite3.Error as cause:
                self._rollback()
                if _FULL in str(cause):
                    # The last page was not written, so nothing is committed.
                    raise
                raise OutcomeUnknown(f"{self._log}: commit failed ({cause})") from cause

    @contextmanager
    def read(self) -> Iterator[None]:
        """Several reads of the same state; does not block writers and is not blocked by them."""
        with self._translating():
            self.execute("BEGIN")
            try:
                yield
            finally:
                self._rollback()

    def alone(self) -> AbstractContextManager[object]:
        """A context in which no other client uses this connection."""
        return nullcontext()

    def version(self) -> int:
        """A number that changes when another client has written. Raises EnvironmentFailure once others would open
        another file: what they write is not in this one."""
        if self._file != _file_at(self._log.where):
            raise EnvironmentFailure(f"{self._log}: the file was removed or replaced while a client had it open")
        with self._translating():
            return int(self.execute("PRAGMA data_version").fetchone()[0])

    def wait(self, version: int, timeout_s: float) -> float:
        """Wait until the version has changed. Returns the seconds spent, `timeout_s` if it has not."""
        waited, pause = 0.0, _FIRST_PAUSE_S
        while waited < timeout_s:
            pause = min(pause, timeout_s - waited)
            time.sleep(pause)
            waited += pause
            if self.version() != version:
                return waited
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        return timeout_s

    def close(self) -> None:
        """Close; not in a forked child, where the connection is the parent's."""
        if os.getpid() == self._pid:
            self._connection.close()

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    @contextmanager
    def _translating(self) -> Iterator[None]:
        if os.getpid() != self._pid:
            raise EnvironmentFailure(f"{self._log}: opened by process {self._pid}, not usable after a fork")
        try:
            yield
        except sqlite3.Error as cause:
            raise self._log.translated(cause) from cause


class MemoryDatabase(Database):
    """The one connection to a log in memory, for the clients of all threads: one of them at a time."""

    def __init__(self, log: Log) -> None:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=256)
        _create_tables(connection)
        super().__init__(log, connection)
        self._changed = threading.Condition(threading.RLock())
        self._version = 0

    @contextmanager
    def write(self) -> Iterator[None]:
        with self._changed:
            with super().write():
                yield
            self._version += 1
            self._changed.notify_all()

    @contextmanager
    def read(self) -> Iterator[None]:
        with self._changed, self._translating():
            yield

    def alone(self) -> AbstractContextManager[object]:
        return self._changed

    def version(self) -> int:
        return self._version

    def wait(self, version: int, timeout_s: float) -> float:
        # Waiting takes real time, even if the log dates its records by another clock.
        start = SYSTEM_CLOCK.monotonic()
        with self._changed:
            changed = self._changed.wait_for(lambda: self._version != version, timeout_s)
        return SYSTEM_CLOCK.monotonic() - start if changed else timeout_s

    def close(self) -> None:
        """Do nothing: other clients may use the connection."""


class Log(ABC):
    """The place of a system's log. `clock` dates its records and times transactions out."""

    system: str

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock now."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The place, for errors about streams."""

    @abstractmethod
    def open(self, *, create: bool) -> Database | None:
        """Connect; None if there is no log and `create` is false. Raises EnvironmentFailure, RetriableError."""

    def translated(self, cause: sqlite3.Error) -> RetriableError | EnvironmentFailure:
        """The error for a failed statement."""
        if "locked" in str(cause):
            return RetriableError(f"{self}: locked by another process for {PATIENCE_S:g} s")
        return EnvironmentFailure(f"{self}: {cause}; see systems.{self.system}.path")


@dataclass(frozen=True)
class LocalLog(Log):
    """A log in a file, by default `.samzapy/local.db` below the current folder. With `synchronous=normal` commits
    survive the death of any process, with `full` also a power cut."""

    system: str
    path: Path
    synchronous: str = "normal"
    clock: Clock = SYSTEM_CLOCK

    def __str__(self) -> str:
        return f"local system '{self.system}' ({self.path})"

    @property
    def where(self) -> str:
        return str(self.path)

    def open(self, *, create: bool) -> Database | None:
        """The file is created 0600, missing folders 0700."""
        try:
            if create:
                _create_file(self.path)
            elif not self.path.exists():
                return None
        except OSError as cause:
            raise EnvironmentFailure(f"{self}: cannot create ({cause.strerror})") from cause
        try:
            connection = sqlite3.connect(self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
            self._prepare(connection)
        except sqlite3.Error as cause:
            raise self.translated(cause) from cause
        except ValueError as cause:
            raise EnvironmentFailure(f"{self}: {cause}") from cause
        return Database(self, connection)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA page_size=8192")
        self._until_not_locked(lambda: connection.execute("PRAGMA journal_mode=WAL"))
        # NORMAL does not wait for the disk at each commit: a commit is in the page cache, so it survives the
        # death of any process, and after a power cut the file is whole but may lack its last commits. `full` waits.
        connection.execute(f"PRAGMA synchronous={self.synchronous}")
        connection.execute("PRAGMA wal_autocheckpoint=2000")
        connection.execute("PRAGMA journal_size_limit=67108864")
        connection.execute(f"PRAGMA cache_size=-{CACHE_BYTES // 1024}")
        if not _is_ready(connection):
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                if not _is_ready(connection):
                    _create_tables(connection)

    def _until_not_locked(self, change: Callable[[], Any]) -> Any:
        # SQLite does not apply the busy time-out to a change of the journal mode if another process makes one as well.
        waited = 0.0
        while True:
            try:
                return change()
            except sqlite3.OperationalError as cause:
                if "locked" not in str(cause) or waited >= PATIENCE_S:
                    raise
            time.sleep(_RETRY_S)
            waited += _RETRY_S


def local_log(settings: SystemSettings, clock: Clock = SYSTEM_CLOCK) -> LocalLog:
    """Read `path` and `synchronous`; ignores other keys. Raises ConfigError."""
    prefix, properties = f"systems.{settings.name}.", settings.properties
    problems = []
    path = properties.get("path", ".samzapy/local.db")
    if not path.strip() or "\0" in path:
        problems.append(ConfigProblem(f"{prefix}path", path, "the path of a file"))
    try:
        file = Path(at_home(path)).absolute()
    except ValueError as cause:
        problems.append(ConfigProblem(f"{prefix}path", path, f"expected {cause}"))
    synchronous = properties.get("synchronous", "normal")
    if synchronous not in _SYNCHRONOUS:
        problems.append(ConfigProblem(f"{prefix}synchronous", synchronous, "normal or full"))
    raise_if_any(problems)
    return LocalLog(settings.name, file, synchronous, clock)


def _file_at(path: str) -> tuple[int, int] | None:
    """What tells the file at the path from any other one; None without a file."""
    with suppress(OSError):
        return Path(path).stat()[1:3]
    return None


def _create_file(path: Path) -> None:
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if path.exists():
        return
    # The file is made under another name and then linked: closing a descriptor of the real file would drop the locks
    # that another connection of this process may hold on it by then.
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
