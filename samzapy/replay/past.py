"""Supplies a replay with the systems of its job: clients that only read, and end where the replay's state and inputs
end.

1. Changelogs end after the last record of the commit that the replay starts from. Later records are not read.
2. The inputs come from the replay's feed, once the stores are restored.
3. The records that the container sends are kept here. No producer of the real system is ever made, and every call of an
   admin that changes something is refused.

The order of the records within a partition is certain. The order across partitions is not recorded, but commits bound
it: the records before a commit's positions were processed before the records after them. Between two commits the
records come by their times, the smallest time among the next ones of all partitions first; at equal times by the
partition's name.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import repeat
from types import MappingProxyType
from typing import NamedTuple

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import (
    OffsetRange,
    OutgoingRecord,
    RecordBatch,
    StreamDescription,
    StreamSpec,
    SystemAdmin,
    SystemConsumer,
    SystemFactory,
    SystemProducer,
    SystemSettings,
    SystemTraits,
    describe_all,
)
from samzapy.checkpoint import NoCheckpointManager
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import EnvironmentFailure, ProducerError
from samzapy.replay.history import Place
from samzapy.replay.recording import Recorder
from samzapy.storage.changelog.topic import scan
from samzapy.system.clients import SystemLimits, limits_of, system_factory

Positions = Mapping[SystemStreamPartition, int]


class Row(NamedTuple):
    """One record of an input. `interval`: the number of commits between the base of the replay and the record."""

    time_ms: int
    ssp: SystemStreamPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    interval: int


class Slice(NamedTuple):
    """The records of a replay: from `starts`, through the positions of the commits in between, to the record `until`,
    which is the last one. `ends`: where each partition ends."""

    starts: Positions
    commits: Sequence[Positions]
    ends: Positions
    until: Place

    def rows(self, consumer_of: Callable[[str], SystemConsumer]) -> Generator[Row, None, None]:
        """The records in order. Raises RestoreError if a partition yields no more records before its end."""
        position = dict(self.starts)
        for interval, bounds in enumerate((*self.commits, self.ends)):
            parts = {
                ssp: OffsetRange(start, min(bounds.get(ssp, start), self.ends[ssp])) for ssp, start in position.items()
            }
            with ExitStack() as stack:
                sources = [
                    _rows(stack.enter_context(closing(consumer_of(ssp.system))), ssp, part, interval)
                    for ssp, part in sorted(parts.items())
                    if part.oldest < part.upcoming
                ]
                for row in heapq.merge(*sources, key=_moment):
                    if row.ssp == self.until.ssp and row.offset > self.until.offset:
                        return
                    yield row
                    if (row.ssp, row.offset) == self.until:
                        return
            position = {ssp: max(start, parts[ssp].upcoming) for ssp, start in position.items()}


def _moment(row: Row) -> tuple[int, SystemStreamPartition]:
    return row.time_ms, row.ssp


def _rows(consumer: SystemConsumer, ssp: SystemStreamPartition, part: OffsetRange, interval: int) -> Iterator[Row]:
    for batch in scan(consumer, ssp, part, SYSTEM_CLOCK):
        columns = (batch.timestamps, repeat(ssp), batch.offsets, batch.keys, batch.values)
        headers = batch.headers or repeat(None, len(batch.offsets))
        for row in zip(*columns, headers, repeat(interval), strict=False):
            yield Row(*row)


def batches_of(rows: Sequence[Row]) -> list[RecordBatch]:
    """The rows as one poll has them: one batch a partition, in the order of their first records."""
    result = []
    for ssp, own in grouped((row.ssp, row) for row in rows).items():
        times, _, offsets, keys, values, headers, _ = (list(column) for column in zip(*own, strict=True))
        result.append(RecordBatch(ssp, offsets, keys, values, times, headers if any(headers) else None))
    return result


class Past:
    """The state that the clients of one replay share.

    `ends`: the first offset of each changelog partition that is not part of the state; it grows with the replay's own
    records. `read_from`: where the restore has begun to read each of them, without those that it has not read.
    `feeds`: whether the inputs come from the replay now; before, only restores read.
    """

    def __init__(
        self,
        ends: Mapping[SystemStreamPartition, int],
        inputs: frozenset[SystemStreamPartition],
        recorder: Recorder,
        *,
        from_empty: bool,
    ) -> None:
        """`from_empty`: treat the changelogs as empty, whether they exist or not."""
        self.ends = dict(ends)
        self.inputs = inputs
        self.recorder = recorder
        self.from_empty = from_empty
        self.read_from: dict[SystemStreamPartition, int] = {}
        self.feeds = False
        self._offered: list[RecordBatch] = []
        self._positions: dict[SystemStreamPartition, int] = {}

    def factory_of(self, settings: SystemSettings) -> SystemFactory:
        """The factory of a system's clients."""
        return PastFactory(system_factory(settings), self)

    def offer(self, rows: Sequence[Row]) -> None:
        """Give these records to the next poll."""
        self._offered = batches_of(rows)

    def poll(self, system: str) -> list[RecordBatch]:
        """The offered batches of a system, once."""
        batches = [batch for batch in self._offered if batch.ssp.system == system]
        self._offered = [batch for batch in self._offered if batch.ssp.system != system]
        self._positions.update({batch.ssp: batch.offsets[-1] + 1 for batch in batches})
        return batches

    def position(self, ssp: SystemStreamPartition, start: int) -> int:
        """The offset after the last polled record, `start` before the first."""
        return self._positions.get(ssp, start)

    def append(self, ssp: SystemStreamPartition) -> int:
        """The offset of one more record of the replay in a changelog."""
        self.ends[ssp] += 1
        return self.ends[ssp] - 1


class PastFactory(SystemFactory):
    """Makes the clients of one system for one replay."""

    def __init__(self, real: SystemFactory, past: Past) -> None:
        self._real = real
        self._past = past

    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        return PastConsumer(settings.name, lambda: self._real.consumer(settings, client_id), self._past)

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        return RecordingProducer(settings.name, self._past)

    def admin(self, settings: SystemSettings, client_id: str) -> SystemAdmin:
        return PastAdmin(settings.name, self._real.admin(settings, client_id), self._past)

    def traits(self, settings: SystemSettings) -> SystemTraits:
        return self._real.traits(settings)


class PastConsumer(SystemConsumer):
    """Reads changelogs up to their ends, and inputs from the feed."""

    def __init__(self, system: str, make: Callable[[], SystemConsumer], past: Past) -> None:
        self._system = system
        self._make = make
        self._past = past
        self._starts: Mapping[SystemStreamPartition, int] = {}
        self._real: SystemConsumer | None = None

    def start(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        ids: Mapping[SystemStream, str] = MappingProxyType({}),
        epochs: Mapping[SystemStreamPartition, int] = MappingProxyType({}),
    ) -> None:
        self._starts = offsets
        if self._past.feeds and offsets.keys() <= self._past.inputs:
            return
        self._real = self._make()
        for ssp, offset in offsets.items():
            if ssp in self._past.ends:
                self._past.read_from.setdefault(ssp, offset)
        self._real.start(offsets)

    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        if self._real is None:
            return self._past.poll(self._system)
        return [part for batch in self._real.poll(timeout_s, max_records) if (part := self._before_end(batch))]

    def _before_end(self, batch: RecordBatch) -> RecordBatch | None:
        end = self._past.ends.get(batch.ssp)
        if end is None or batch.offsets[-1] < end:
            return batch
        count = bisect_left(batch.offsets, end)
        return batch.part(0, count) if count else None

    def position(self, ssp: SystemStreamPartition) -> int:
        return self._past.position(ssp, self._starts[ssp]) if self._real is None else self._real.position(ssp)

    def pause(self, ssps: Collection[SystemStreamPartition]) -> None:
        if self._real is not None:
            self._real.pause(ssps)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()


class PastAdmin(SystemAdmin):
    """Answers from the real system, with the ends of the replay. Raises EnvironmentFailure for every change."""

    def __init__(self, system: str, real: SystemAdmin, past: Past) -> None:
        self._system = system
        self._real = real
        self._past = past
        self._beginnings = dict.fromkeys(past.ends, 0) if past.from_empty else {}

    def describe(self, stream: str) -> StreamDescription | None:
        return self.describe_all([stream])[stream]

    def describe_all(self, streams: Iterable[str]) -> dict[str, StreamDescription | None]:
        empty: dict[str, StreamDescription | None] = {}
        for system, stream, partition in sorted(self._past.ends) if self._past.from_empty else ():
            if system == self._system:
                empty[stream] = StreamDescription(stream, partition + 1, "", {"cleanup.policy": "compact"})
        named = list(streams)
        real = describe_all(self._real, [stream for stream in named if stream not in empty])
        return {stream: empty.get(stream) or real[stream] for stream in named}

    def list_streams(self) -> list[str]:
        return self._real.list_streams()

    def offsets(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, OffsetRange]:
        requested, ends = list(ssps), self._past.ends
        # Every commit asks for the changelogs, so the system is asked once.
        unknown = [ssp for ssp in requested if ssp not in self._beginnings]
        logs = self._real.offsets(unknown, committed=committed) if unknown else {}
        self._beginnings.update((ssp, log.oldest) for ssp, log in logs.items() if ssp in ends)
        return {
            ssp: OffsetRange(min(self._beginnings[ssp], ends[ssp]), ends[ssp]) if ssp in ends else logs[ssp]
            for ssp in requested
        }

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        return self._real.offsets_at(ssps, time_ms)

    def limits(self) -> SystemLimits:
        return limits_of(self._real)

    def create(self, spec: StreamSpec) -> bool:
        raise EnvironmentFailure(f"a replay changes nothing: creating stream '{spec.stream}' is refused")

    def close(self) -> None:
        self._real.close()


class RecordingProducer(SystemProducer):
    """Keeps records in memory. Changelog records get the offsets that they would have had."""

    def __init__(self, system: str, past: Past) -> None:
        self._system = system
        self._past = past
        self._last: dict[SystemStreamPartition, int] = {}

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        for record in records:
            ssp = SystemStreamPartition(self._system, record.stream, record.partition or 0)
            if ssp in self._past.ends:
                self._last[ssp] = self._past.append(ssp)
            else:
                self._past.recorder.sent(self._system, record)

    def flush(self, timeout_s: float = 60.0) -> Mapping[tuple[str, int], int]:
        """Wait for nothing: records are kept at once."""
        return {(ssp.stream, ssp.partition): offset for ssp, offset in self._last.items()}

    def close(self) -> None:
        """Nothing to close."""

    def init_transactions(self) -> None:
        raise _no_transactions()

    def begin(self) -> bool:
        raise _no_transactions()

    def commit(self) -> None:
        raise _no_transactions()

    def abort(self) -> None:
        raise _no_transactions()


def _no_transactions() -> ProducerError:
    return ProducerError("a replay has no transactions")


class PastCheckpoints(NoCheckpointManager):
    """The checkpoint that a replay starts from, for its one task. Nothing is kept."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def read(self, task_names: Iterable[str]) -> dict[str, Checkpoint | None]:
        return dict.fromkeys(task_names, self._checkpoint)
