"""Keeps checkpoints in files, for jobs with all containers on one file system."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, RecordHistory
from samzapy.api.system import SystemProducer
from samzapy.checkpoint import codec
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import EnvironmentFailure, TaskMigrated

#: The files of two records that are older than the rule for the names of the others.
_NAMES = {JobRecord.PARTITIONS: "changelog-partitions.json", JobRecord.OWNER: "owner.json"}

_TEMPORARY = ".tmp"
#: The age in seconds after which no process still writes a temporary file.
_LEFT_S = 86_400.0


class FileCheckpointManager(CheckpointManager):
    """One file per task and per record of the job, with the value of the checkpoint topic's record.

    Several processes may write one file: a superseded process may be suspended in a write, and go on after its
    successor has written the file. So each write has its own temporary file, which is synced and renamed to the file's
    name; then the folder is synced.
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        """`folder` belongs to one job; it is made when the job starts."""
        self._folder = folder
        self._clock = clock
        self._tidied = False

    def start(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as cause:
            raise EnvironmentFailure(f"task.checkpoint.path: cannot make {self._folder} ({cause.strerror})") from cause

    def read(self, task_names: Iterable[str]) -> dict[str, Checkpoint | None]:
        return {name: self._checkpoint(name) for name in task_names}

    def _checkpoint(self, task_name: str) -> Checkpoint | None:
        path = self._path(task_name)
        data = self._load(path)
        return None if data is None else codec.decode(data, str(path))

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        for task_name, checkpoint in checkpoints.items():
            # Checked last: a process that was suspended in the write must not overwrite its successor's commit.
            check = partial(self._require_owned, task_name, checkpoint.epoch)
            self._store(self._path(task_name), codec.encode(checkpoint), check)

    def _require_owned(self, task_name: str, epoch: int) -> None:
        known = self._checkpoint(task_name)
        if known is not None and known.epoch > epoch:
            raise TaskMigrated(
                f"{task_name}: an attempt of epoch {known.epoch} has written its checkpoint, this one has epoch {epoch}"
            )

    def read_record(self, record: JobRecord, *, wait: bool = True) -> RecordHistory:
        path = self._record_path(record)
        data = self._load(path)
        return RecordHistory(() if data is None else (codec.decode_record(data, str(path), record.value),))

    def write_record(self, record: JobRecord, value: Mapping[str, Any], producer: SystemProducer | None = None) -> None:
        self._store(self._record_path(record), codec.encode_record(value))

    def change_record(
        self, record: JobRecord, change: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
    ) -> None:
        with self._alone(record):
            super().change_record(record, change)

    @contextmanager
    def _alone(self, record: JobRecord) -> Iterator[None]:
        """Keep other processes from changing the record, if the file system has locks."""
        path = self._folder / f"{record.value}.lock"
        try:
            lock = path.open("ab")
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot be locked ({cause.strerror})") from cause
        with lock:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, task_name: str) -> Path:
        return self._folder / f"task-{quote(task_name, safe='')}.json"

    def _record_path(self, record: JobRecord) -> Path:
        return self._folder / _NAMES.get(record, f"{record.value}.json")

    def _load(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot be read ({cause.strerror}): task.checkpoint.path") from cause

    def _store(self, path: Path, data: bytes, check: Callable[[], None] = lambda: None) -> None:
        """Replace the file, durably on return. `check` is called just before the rename; if it raises, the file stays
        as it was."""
        temporary = self._folder / f".{secrets.token_hex(16)}{_TEMPORARY}"
        try:
            try:
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                check()
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot write the checkpoint ({cause.strerror})") from cause
        if not self._tidied:
            self._tidied = True
            self._tidy()

    def _tidy(self) -> None:
        """Remove the temporary files that killed processes have left."""
        now_s = self._clock.wall_ms() / 1000
        with suppress(OSError):
            for path in self._folder.glob(f"*{_TEMPORARY}"):
                if now_s - path.stat().st_mtime > _LEFT_S:
                    path.unlink()
