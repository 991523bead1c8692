"""Keeps checkpoints in a compacted topic with one partition, on any system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

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
from samzapy.errors import EnvironmentFailure


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
        if admin.create(self._spec):
            return
        topic = admin.describe(self._spec.stream)
        if topic is None:
            return
        policy = topic.setting("cleanup.policy") or "compact"
        if policy != "compact":
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
            return self._admin().offsets([self._ssp])[self._ssp].upcoming
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
