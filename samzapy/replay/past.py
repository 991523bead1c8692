"""Supplies a replay with the systems of its job: clients that only read, and end where the replay's state and inputs
end.

1. Changelogs end after the last record of the commit that the replay starts from. Later records are not read.
2. The inputs come from the replay's feed, once the stores are restored.
3. The records that the container sends are kept here. No producer of the real system is ever made, and every call of an
   admin that changes something is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import (
    OffsetRange,
    OutgoingColumns,
    OutgoingRecord,
    RecordBatch,
    StreamDescription,
    StreamSpec,
    SystemAdmin,
    SystemConsumer,
    SystemFactory,
    SystemLimits,
    SystemProducer,
    SystemSettings,
    SystemTraits,
)
from samzapy.checkpoint.factories import NoCheckpointManager
from samzapy.errors import EnvironmentFailure, ProducerError
from samzapy.replay.feed import Feed
from samzapy.replay.recording import Recorder
from samzapy.system.clients import system_factory


class Past:
    """The state that the clients of one replay share.

    `ends`: the first offset of each changelog partition that is not part of the state. `read_from`: where the restore
    has begun to read each of them; none for one that it has not read.
    """

    def __init__(
        self, ends: Mapping[SystemStreamPartition, int], feed: Feed, recorder: Recorder, *, from_empty: bool
    ) -> None:
        """`from_empty`: treat the changelogs as empty, whether they exist or not."""
        self.from_empty = from_empty
        self._changelogs = {ssp.system_stream for ssp in ends}
        self._ends = dict(ends)
        self.feed = feed
        self.recorder = recorder
        self.read_from: dict[SystemStreamPartition, int] = {}
        #: Whether the inputs come from the feed now; before, only restores read.
        self.feeds = False

    def factory_of(self, settings: SystemSettings) -> SystemFactory:
        """The factory of a system's clients."""
        return PastFactory(system_factory(settings), self)

    @property
    def changelogs(self) -> Iterable[SystemStreamPartition]:
        """The changelog partitions of the task."""
        return self._ends.keys()

    def end(self, ssp: SystemStreamPartition) -> int | None:
        """The end of a changelog partition, behind the replay's own records. None for any other stream."""
        return self._ends.get(ssp)

    def is_changelog(self, stream: SystemStream) -> bool:
        """Whether the stream is a changelog of the task."""
        return stream in self._changelogs

    def empty_partitions(self, stream: SystemStream) -> int:
        """The number of partitions of a changelog that is treated as empty; 0 for any other stream."""
        return max(
            (ssp.partition + 1 for ssp in self._ends if self.from_empty and ssp.system_stream == stream), default=0
        )

    def append(self, ssp: SystemStreamPartition, count: int) -> int:
        """Give the next offsets to `count` records of the replay; returns the last one."""
        self._ends[ssp] += count
        return self._ends[ssp] - 1


class PastFactory(SystemFactory):
    """Makes the clients of one system for one replay."""

    def __init__(self, real: SystemFactory, past: Past) -> None:
        self._real = real
        self._past = past
        self.read_only = real.read_only

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
        self._starts: dict[SystemStreamPartition, int] = {}
        self._real: SystemConsumer | None = None

    def register(self, ssp: SystemStreamPartition, offset: int, stream_id: str = "", epoch: int | None = None) -> None:
        self._starts[ssp] = offset

    def start(self) -> None:
        if self._past.feeds and self._starts.keys() <= self._past.feed.ssps:
            return
        self._real = self._make()
        for ssp, offset in self._starts.items():
            self._real.register(ssp, offset)
            if self._past.end(ssp) is not None:
                self._past.read_from.setdefault(ssp, offset)
        self._real.start()

    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        if self._real is None:
            return self._past.feed.take(self._system)
        return [part for batch in self._real.poll(timeout_s, max_records) if (part := self._before_end(batch))]

    def _before_end(self, batch: RecordBatch) -> RecordBatch | None:
        end = self._past.end(batch.ssp)
        if end is None or batch.offsets[-1] < end:
            return batch
        count = bisect_left(batch.offsets, end)
        return batch.part(0, count) if count else None

    def position(self, ssp: SystemStreamPartition) -> int:
        return self._past.feed.position(ssp, self._starts[ssp]) if self._real is None else self._real.position(ssp)

    def seek(self, ssp: SystemStreamPartition, offset: int) -> None:
        if self._real is not None:
            self._real.seek(ssp, offset)

    def pause(self, ssps: Iterable[SystemStreamPartition]) -> None:
        if self._real is not None:
            self._real.pause(ssps)

    def resume(self, ssps: Iterable[SystemStreamPartition]) -> None:
        if self._real is not None:
            self._real.resume(ssps)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()


class PastAdmin(SystemAdmin):
    """Answers from the real system, with the ends of the replay. Raises EnvironmentFailure for every change."""

    def __init__(self, system: str, real: SystemAdmin, past: Past) -> None:
        self._system = system
        self._real = real
        self._past = past
        self._beginnings: dict[SystemStreamPartition, int] = (
            dict.fromkeys(past.changelogs, 0) if past.from_empty else {}
        )
        self.upcoming_goes_back = real.upcoming_goes_back

    def describe(self, stream: str) -> StreamDescription | None:
        return self._empty(stream) or self._real.describe(stream)

    def describe_all(self, streams: Iterable[str]) -> dict[str, StreamDescription | None]:
        empty = {stream: self._empty(stream) for stream in streams}
        return empty | self._real.describe_all([stream for stream, found in empty.items() if found is None])

    def _empty(self, stream: str) -> StreamDescription | None:
        """The description of a changelog without records, None for any other stream."""
        partitions = self._past.empty_partitions(SystemStream(self._system, stream))
        if not partitions:
            return None
        return StreamDescription(stream, partitions, "", {"cleanup.policy": "compact"})

    def list_streams(self) -> list[str]:
        return self._real.list_streams()

    def offsets(self, ssps: Iterable[SystemStreamPartition]) -> dict[SystemStreamPartition, OffsetRange]:
        requested = list(ssps)
        # Every commit asks for the changelogs, so the system is asked once.
        found = (
            self._real.offsets(unknown)
            if (unknown := [ssp for ssp in requested if ssp not in self._beginnings])
            else {}
        )
        self._beginnings.update((ssp, log.oldest) for ssp, log in found.items() if self._past.end(ssp) is not None)
        return {ssp: self._cut(ssp, found) for ssp in requested}

    def _cut(self, ssp: SystemStreamPartition, found: Mapping[SystemStreamPartition, OffsetRange]) -> OffsetRange:
        end = self._past.end(ssp)
        return found[ssp] if end is None else OffsetRange(min(self._beginnings[ssp], end), end)

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        return self._real.offsets_at(ssps, time_ms)

    def limits(self) -> SystemLimits:
        return self._real.limits()

    def create(self, spec: StreamSpec) -> bool:
        raise _refused(f"creating stream '{spec.stream}'")

    def close(self) -> None:
        self._real.close()


def _refused(what: str) -> EnvironmentFailure:
    return EnvironmentFailure(f"a replay changes nothing: {what} is refused")


class RecordingProducer(SystemProducer):
    """Keeps records in memory. Changelog records get the offsets that they would have had."""

    def __init__(self, system: str, past: Past) -> None:
        self._system = system
        self._past = past
        self._last: dict[SystemStreamPartition, int] = {}

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        for record in records:
            if not self._past.is_changelog(SystemStream(self._system, record.stream)):
                self._past.recorder.sent(self._system, record)
            elif record.partition is not None:
                self._append(record.stream, record.partition, 1)

    def send_columns(self, columns: OutgoingColumns) -> None:
        self.send(list(columns.records()))

    def _append(self, stream: str, partition: int, count: int) -> None:
        ssp = SystemStreamPartition(self._system, stream, partition)
        self._last[ssp] = self._past.append(ssp, count)

    def flush(self, timeout_s: float = 60.0) -> None:
        """Do nothing: records are kept at once."""

    def last_offset(self, stream: str, partition: int) -> int | None:
        return self._last.get(SystemStreamPartition(self._system, stream, partition))

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
