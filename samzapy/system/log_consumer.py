"""A consumer over a log that answers reads at once: the SQLite log, and the tables of a database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.errors import EnvironmentFailure, OffsetOutOfRange, PositionVoid, UnknownStream

#: The most bytes of keys and values in one poll; the batch that exceeds it is still returned.
MOST_BYTES_PER_POLL = 52_428_800


class Fetch(NamedTuple):
    """The result of reading one partition: the next offset to read, and the records before it, if any."""

    position: int
    batch: RecordBatch | None


class LogConsumer(SystemConsumer):
    """Keeps positions and pauses; partitions take turns at being first. Subclasses read the log."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._started = False
        self._positions: dict[SystemStreamPartition, int] = {}
        #: By stream, the id of the stream that the positions are of.
        self._ids: dict[str, str] = {}
        self._order: list[SystemStreamPartition] = []
        self._paused: frozenset[SystemStreamPartition] = frozenset()

    @abstractmethod
    def _open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        """Get ready to read. Raises UnknownStream."""

    @abstractmethod
    def _read(
        self, positions: Sequence[tuple[SystemStreamPartition, int]], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        """Committed records from the positions on, at most `max_records` in all, earlier partitions first.

        Every partition that was read has an entry; its position is moved past known holes. Does not wait. Raises
        OffsetOutOfRange, or UnknownStream if a stream was deleted.
        """

    @abstractmethod
    def _wait(self, timeout_s: float) -> float:
        """Wait for records that the last `_read` has not seen. Returns the seconds spent, `timeout_s` if none came."""

    def _stream_id(self, stream: str) -> str:
        """The current id of a stream; empty if there is none, or if the system has no ids."""
        return ""

    def start(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        ids: Mapping[SystemStream, str] = MappingProxyType({}),
        epochs: Mapping[SystemStreamPartition, int] = MappingProxyType({}),
    ) -> None:
        self._positions = dict(offsets)
        self._order = list(offsets)
        self._started = True
        self._open(self._order)
        self._ids = {stream: self._stream_id(stream) for stream in {ssp.stream for ssp in self._order}}
        self._ids.update((stream.stream, stream_id) for stream, stream_id in ids.items() if stream_id)
        self._check_ids()

    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        if not self._started:
            raise EnvironmentFailure(f"the consumer of system '{self._system}' is not started, or closed")
        waited = 0.0
        while True:
            batches, passed = self._fetch(max_records)
            if batches or passed or waited >= timeout_s:
                return batches
            waited += self._wait(timeout_s - waited)

    def position(self, ssp: SystemStreamPartition) -> int:
        return self._positions[ssp]

    def pause(self, ssps: Collection[SystemStreamPartition]) -> None:
        self._paused = frozenset(ssps)

    def close(self) -> None:
        self._started = False

    def _fetch(self, max_records: int) -> tuple[list[RecordBatch], bool]:
        """The records that are there, and whether a position has passed a hole without any."""
        positions, paused = self._positions, self._paused
        # Also when all are paused: `_wait` then waits for records after this read.
        try:
            fetched = self._read([(ssp, positions[ssp]) for ssp in self._order if ssp not in paused], max_records)
        except (UnknownStream, OffsetOutOfRange):
            self._check_ids()
            raise
        batches, passed = [], False
        for ssp, (position, batch) in fetched.items():
            if batch is not None:
                batches.append(batch)
            elif position != positions[ssp]:
                passed = True
            positions[ssp] = position
        if batches:
            # The next poll begins with the first partition that got nothing because others filled this one.
            last = self._order.index(batches[-1].ssp) + 1
            self._order = self._order[last:] + self._order[:last]
        return batches, passed

    def _check_ids(self) -> None:
        """Raise PositionVoid if a stream was deleted and created again."""
        for stream, before in self._ids.items():
            now = self._stream_id(stream)
            if now and now != before:
                raise PositionVoid.made_anew(f"{self._system}.{stream}", before, now)
