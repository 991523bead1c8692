"""Keeps checkpoints in a compacted topic with one partition, on any system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, RecordBatch, StreamSpec, SystemAdmin, SystemConsumer, SystemProducer
from samzapy.checkpoint import codec, samza
from samzapy.checkpoint.samza import Kind, RecordKey, SamzaRecords, decode_key, encode_key
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import EnvironmentFailure, RestoreStalled

_POLL_RECORDS = 5_000
_POLL_SECONDS = 0.2
_UNSHARED = SamzaRecords()


def read_to(
    consumer: SystemConsumer,
    ssp: SystemStreamPartition,
    end: int,
    take: Callable[[RecordBatch], object],
    clock: Clock,
    patience_s: float,
    max_records: int = _POLL_RECORDS,
) -> None:
    """Pass every batch up to the offset `end` to `take`; a poll reads at most `max_records`. Raises RestoreStalled
    after `patience_s` seconds without progress."""
    deadline = clock.monotonic() + patience_s
    while (position := consumer.position(ssp)) < end:
        batches = consumer.poll(_POLL_SECONDS, max_records)
        for batch in batches:
            take(batch)
        now = clock.monotonic()
        if batches or consumer.position(ssp) > position:
            deadline = now + patience_s
        elif now > deadline:
            raise RestoreStalled(f"{ssp}@{position}: no record for {patience_s:.0f} s before the end {end}")


class TopicCheckpointManager(CheckpointManager):
    """Reads the topic once and then only its growth. The first write ends the reading and releases the consumer, unless
    it writes an owner or a change of a record: those are read back."""

    def __init__(
        self,
        system: str,
        spec: StreamSpec,
        admin: Callable[[], SystemAdmin],
        consumer: Callable[[], SystemConsumer],
        producer: Callable[[], SystemProducer],
        *,
        samza_records: SamzaRecords = _UNSHARED,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Clients are made when first needed. A read that makes no progress for `patience_s` seconds is an error.

        Records of JVM Samza count like samzapy's: of each task the newer one wins. See `samza_records`.
        """
        self._ssp = SystemStreamPartition(system, spec.stream, 0)
        self._spec = spec
        self._admin = admin
        self._new_consumer = consumer
        self._producer = producer
        self._samza = samza_records
        self._clock = clock
        self._reader: SystemConsumer | None = None
        #: Inside `one_pass`: everything before the beginning of the pass has been read.
        self._complete = False
        self._checkpoints: dict[str, Checkpoint] = {}
        #: By task, what its last record has replaced if that is Samza's.
        self._replaced: dict[str, Checkpoint] = {}
        self._partitions: dict[str, int] = {}
        self._owners: list[JobRun] = []
        self._records: dict[Kind, dict[str, Any]] = {}
        #: Inside `change_record`: the records of the kind that were read since the call began.
        self._changes: dict[Kind, list[dict[str, Any]]] = {}

    def start(self) -> None:
        admin = self._admin()
        if admin.create(self._spec):
            return
        found = admin.describe(self._spec.stream)
        if found is None:
            return
        policy = found.setting("cleanup.policy") or "compact"
        if policy != "compact":
            raise EnvironmentFailure(f"checkpoint topic {found.stream} must be compact (is {policy}): it would be lost")
        if found.partitions != 1:
            raise EnvironmentFailure(f"checkpoint topic {found.stream} has {found.partitions} partitions, must have 1")

    def read(self, task_name: str) -> Checkpoint | None:
        self._catch_up()
        return self._checkpoints.get(task_name)

    def read_all(self, task_names: Iterable[str]) -> dict[str, Checkpoint | None]:
        self._catch_up()
        return {name: self._checkpoints.get(name) for name in task_names}

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        self._catch_up()
        self._complete = True
        try:
            yield
        finally:
            self._complete = False

    def read_changelog_partitions(self) -> dict[str, int]:
        self._catch_up()
        return dict(self._partitions)

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        records = []
        for task, checkpoint in checkpoints.items():
            if self._samza.write:
                # Samza's record comes first: of the two the later one is read again, and samzapy's holds more.
                records.append(self._record(RecordKey(Kind.SAMZA_CHECKPOINT, task), samza.encode(checkpoint)))
            records.append(self._record(RecordKey(Kind.CHECKPOINT, task), codec.encode(checkpoint)))
        if producer is not None:
            producer.send(records)
            return
        self._write(records)

    def write_changelog_partitions(self, partitions: Mapping[str, int]) -> None:
        self._write([self._record(RecordKey(Kind.PARTITIONS), codec.encode_partitions(partitions))])

    def read_owner(self) -> JobRun | None:
        self._catch_up()
        return self._owners[-1] if self._owners else None

    def peek_owners(self) -> tuple[Sequence[JobRun], bool]:
        complete = self._peek()
        return tuple(self._owners), complete

    def write_owner(self, run: JobRun) -> None:
        self._send([self._record(RecordKey(Kind.OWNER), codec.encode_owner(run))])

    def read_record(self, record: JobRecord) -> dict[str, Any] | None:
        self._catch_up()
        return self._records.get(Kind(record.value))

    def peek_record(self, record: JobRecord) -> dict[str, Any] | None:
        self._peek()
        return self._records.get(Kind(record.value))

    def write_record(self, record: JobRecord, value: Mapping[str, Any], producer: SystemProducer | None = None) -> None:
        records = [self._record(RecordKey(Kind(record.value)), codec.encode_record(value))]
        if producer is not None:
            producer.send(records)
            return
        self._write(records)

    def change_record(
        self, record: JobRecord, change: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
    ) -> None:
        kind, newest = Kind(record.value), self.read_record(record)
        before = [] if newest is None else [newest]
        since: list[dict[str, Any]] = []
        self._changes[kind] = since
        try:
            merged, found = change(before), before
            while not found or merged != found[-1]:
                self._send([self._record(RecordKey(kind), codec.encode_record(merged))])
                # The log still has the records that others wrote meanwhile, although this one replaces them.
                self._catch_up()
                found = [*before, *since]
                merged = change(found)
        finally:
            self._changes.clear()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _record(self, key: RecordKey, value: bytes) -> OutgoingRecord:
        return OutgoingRecord(self._ssp.stream, encode_key(key, self._samza.grouper), value, 0)

    def _write(self, records: list[OutgoingRecord]) -> None:
        self.close()
        self._send(records)

    def _send(self, records: list[OutgoingRecord]) -> None:
        producer = self._producer()
        producer.send(records)
        producer.flush()

    def _catch_up(self) -> None:
        """Read up to the present high watermark. Only committed records count, so an aborted tail moves the
        position."""
        if self._complete:
            return
        bound = self._bound()
        if bound is not None:
            self._read_to(bound)

    def _peek(self) -> bool:
        """Like `_catch_up`, but stop before the first open transaction; return whether there was none. A slow broker is
        waited for: a record that it has not delivered yet may be of another run."""
        bound = self._bound()
        if bound is None:
            return True
        # Queried after the bound, so that a transaction that ends meanwhile does not count as open.
        decided = self._admin().ends([self._ssp], committed=True)[self._ssp]
        self._read_to(min(bound, decided))
        return decided >= bound

    def _bound(self) -> int | None:
        """The present high watermark, None without a topic. Makes the reader if there is none."""
        if self._reader is not None:
            return self._admin().ends([self._ssp])[self._ssp]
        if self._admin().describe(self._spec.stream) is None:
            return None
        bound = self._admin().offsets([self._ssp])[self._ssp]
        self._checkpoints.clear()
        self._replaced.clear()
        self._partitions.clear()
        self._owners.clear()
        self._records.clear()
        self._reader = self._new_consumer()
        self._reader.register(self._ssp, bound.oldest)
        self._reader.start()
        return bound.upcoming

    def _read_to(self, end: int) -> None:
        assert self._reader is not None
        read_to(self._reader, self._ssp, end, self._apply, self._clock, self.patience_s)

    def _apply(self, batch: RecordBatch) -> None:
        for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
            where = f"{self._ssp}@{offset}"
            found = decode_key(key, self._samza.grouper, where)
            if found is None:
                continue
            kind, task = found
            if value is None:
                self._checkpoints.pop(task, None)
                self._replaced.pop(task, None)
            elif kind is Kind.CHECKPOINT:
                self._take(task, codec.decode(value, where))
            elif kind is Kind.SAMZA_CHECKPOINT:
                self._take_samzas(task, samza.decode(value, where))
            elif kind is Kind.PARTITIONS:
                self._partitions = codec.decode_partitions(value, where)
            elif kind is Kind.OWNER:
                self._owners.append(codec.decode_owner(value, where))
            else:
                self._records[kind] = read = codec.decode_record(value, where)
                if kind in self._changes:
                    self._changes[kind].append(read)

    def _take(self, task: str, checkpoint: Checkpoint) -> None:
        """The newest record wins, unless a superseded attempt wrote it: then its epoch is lower. Samza's record before
        it is of the same attempt, and does not win either."""
        known = self._checkpoints.get(task)
        replaced = self._replaced.pop(task, None)
        if known is None or checkpoint.epoch >= known.epoch:
            self._checkpoints[task] = checkpoint
        elif replaced is not None:
            self._checkpoints[task] = replaced

    def _take_samzas(self, task: str, checkpoint: Checkpoint) -> None:
        """A record of Samza wins: it has no epoch. Lower epochs than the one before it still do not."""
        known = self._checkpoints.get(task)
        if known is not None:
            self._replaced[task] = known
            checkpoint = replace(checkpoint, epoch=known.epoch)
        self._checkpoints[task] = checkpoint
