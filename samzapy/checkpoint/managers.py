"""Keep checkpoints: in a compacted topic with one partition, on any system, or in files, for jobs with all containers
on one file system.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, RecordHistory
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import (
    OutgoingRecord,
    RecordBatch,
    StreamSpec,
    SystemAdmin,
    SystemConsumer,
    SystemProducer,
    read_to,
)
from samzapy.checkpoint import codec
from samzapy.checkpoint.codec import CHECKPOINT, SAMZA_CHECKPOINT, RecordKey, decode_key, encode_key
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import EnvironmentFailure, TaskMigrated


class Clients(Protocol):
    """The clients of the job's systems that a manager may use; each is made when first asked for."""

    def admin(self, system: str) -> SystemAdmin:
        """The admin of a system."""

    def consumer(self, system: str) -> SystemConsumer:
        """A new consumer of a system."""

    def producer(self, system: str) -> SystemProducer:
        """The producer of a system."""


class TopicCheckpointManager(CheckpointManager):
    """Reads the topic once and then only its growth. The first write of checkpoints ends the reading and releases the
    consumer."""

    #: Seconds that a read may wait without progress, as for an open transaction; then it raises RestoreError.
    patience_s = 60.0

    def __init__(
        self,
        system: str,
        spec: StreamSpec,
        clients: Clients,
        *,
        grouper: str = "partition",
        write_samza: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Records name the job's `grouper`. Records of JVM Samza count like samzapy's: of each task the newer one wins;
        with `write_samza` the job writes both."""
        self._ssp = SystemStreamPartition(system, spec.stream, 0)
        self._spec = spec
        self._clients = clients
        self._grouper, self._write_samza = grouper, write_samza
        self._clock = clock
        self._reader: SystemConsumer | None = None
        #: Inside `one_pass`: everything before the beginning of the pass has been read.
        self._complete = False
        self._checkpoints: dict[str, Checkpoint] = {}
        #: By task, what its last record has replaced if that is Samza's.
        self._replaced: dict[str, Checkpoint] = {}
        #: By kind: the newest value; all owners; inside `change_record` what was written since the call began, too.
        self._records: dict[str, list[dict[str, Any]]] = {}
        self._changing = ""

    def _admin(self) -> SystemAdmin:
        return self._clients.admin(self._ssp.system)

    def start(self) -> None:
        admin = self._admin()
        topic = None if admin.create(self._spec) else admin.describe(self._spec.stream)
        if topic is not None and (policy := topic.setting("cleanup.policy") or "compact") != "compact":
            raise EnvironmentFailure(f"checkpoint topic {topic.stream} must be compact (is {policy}): it would be lost")

    def read(self, task_names: Iterable[str]) -> dict[str, Checkpoint | None]:
        self._catch_up()
        return {name: self._checkpoints.get(name) for name in task_names}

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """See the function."""
        self._catch_up()
        self._complete = True
        try:
            yield
        finally:
            self._complete = False

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        records = []
        for task, checkpoint in checkpoints.items():
            if self._write_samza:
                # Samza's record comes first: of the two the later one is read again, and samzapy's holds more.
                records.append(self._record(RecordKey(SAMZA_CHECKPOINT, task), codec.encode_samza(checkpoint)))
            records.append(self._record(RecordKey(CHECKPOINT, task), codec.encode(checkpoint)))
        if producer is None:
            self.close()
        self._send(records, producer)

    def read_record(self, record: JobRecord, *, wait: bool = True) -> RecordHistory:
        complete = True
        if wait:
            self._catch_up()
        else:
            complete = self._read_committed()
        return RecordHistory(tuple(self._records.get(record.value, ())), complete)

    def write_record(self, record: JobRecord, value: Mapping[str, Any], producer: SystemProducer | None = None) -> None:
        self._send([self._record(RecordKey(record.value), codec.encode_record(value))], producer)

    def change_record(
        self, record: JobRecord, change: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
    ) -> None:
        self._changing = record.value
        try:
            values = self.read_record(record).values[-1:]
            merged = change(values)
            while not values or merged != values[-1]:
                self.write_record(record, merged)
                # The log still has the records that others wrote meanwhile, although this one replaces them.
                values = self.read_record(record).values
                merged = change(values)
        finally:
            self._changing = ""

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _record(self, key: RecordKey, value: bytes) -> OutgoingRecord:
        return OutgoingRecord(self._ssp.stream, encode_key(key, self._grouper), value, 0)

    def _send(self, records: list[OutgoingRecord], producer: SystemProducer | None) -> None:
        if producer is not None:
            producer.send(records)
            return
        own = self._clients.producer(self._ssp.system)
        own.send(records)
        own.flush()

    def _catch_up(self) -> None:
        """Read up to the present high watermark. Only committed records count, so an aborted tail moves the
        position."""
        if not self._complete and (bound := self._bound()) is not None:
            self._read_to(bound)

    def _read_committed(self) -> bool:
        """Like `_catch_up`, but stop before the first open transaction; return whether there was none. A slow broker is
        waited for: a record that it has not delivered yet may be of another run."""
        bound = self._bound()
        if bound is None:
            return True
        # Queried after the bound, so that a transaction that ends meanwhile does not count as open.
        decided = self._admin().offsets([self._ssp], committed=True)[self._ssp].upcoming
        self._read_to(min(bound, decided))
        return decided >= bound

    def _bound(self) -> int | None:
        """The present high watermark, None without a topic. Makes the reader if there is none."""
        if self._reader is not None:
            upcoming = self._admin().offsets([self._ssp])[self._ssp].upcoming
            if upcoming >= self._reader.position(self._ssp):
                return upcoming
            self.close()  # another topic has the name by now
        if self._admin().describe(self._spec.stream) is None:
            return None
        bound = self._admin().offsets([self._ssp])[self._ssp]
        self._checkpoints.clear()
        self._replaced.clear()
        self._records.clear()
        self._reader = self._clients.consumer(self._ssp.system)
        self._reader.start({self._ssp: bound.oldest})
        return bound.upcoming

    def _read_to(self, end: int) -> None:
        assert self._reader is not None
        for batch in read_to(self._reader, self._ssp, end, self._clock, self.patience_s):
            self._apply(batch)

    def _apply(self, batch: RecordBatch) -> None:
        for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
            where = f"{self._ssp}@{offset}"
            known = decode_key(key, self._grouper, where)
            if known is None:
                continue
            kind, task = known
            if value is None:
                self._checkpoints.pop(task, None)
                self._replaced.pop(task, None)
            elif kind == CHECKPOINT:
                self._accept(task, codec.decode(value, where))
            elif kind == SAMZA_CHECKPOINT:
                self._accept_samza(task, codec.decode_samza(value, where))
            else:
                values = self._records.setdefault(kind, [])
                if kind not in {JobRecord.OWNER.value, self._changing}:
                    values.clear()
                values.append(codec.decode_record(value, where, kind))

    def _accept(self, task: str, checkpoint: Checkpoint) -> None:
        """The newest record wins, unless a superseded attempt wrote it: then its epoch is lower. Samza's record before
        it is of the same attempt, and does not win either."""
        known = self._checkpoints.get(task)
        replaced = self._replaced.pop(task, None)
        if known is None or checkpoint.epoch >= known.epoch:
            self._checkpoints[task] = checkpoint
        elif replaced is not None:
            self._checkpoints[task] = replaced

    def _accept_samza(self, task: str, checkpoint: Checkpoint) -> None:
        """A record of Samza wins: it has no epoch. Lower epochs than the one before it still do not."""
        known = self._checkpoints.get(task)
        if known is not None:
            self._replaced[task] = known
            checkpoint = replace(checkpoint, epoch=known.epoch)
        self._checkpoints[task] = checkpoint


def wait_at_most(checkpoints: CheckpointManager, seconds: float) -> None:
    """Let the reads of a topic wait for so many seconds without progress, as before an open transaction."""
    if isinstance(checkpoints, TopicCheckpointManager):
        checkpoints.patience_s = seconds


def one_pass(checkpoints: CheckpointManager) -> AbstractContextManager[None]:
    """A context in which every read answers as of its beginning, so a topic's end is looked up once. Do not write
    inside."""
    return checkpoints.one_pass() if isinstance(checkpoints, TopicCheckpointManager) else nullcontext()


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
