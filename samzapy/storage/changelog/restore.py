"""Brings stores up to date from their changelogs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samzapy.api.engine import StorageEngine
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.clock import Clock
from samzapy.errors import RestoreError, RestoreStalled, SamzapyError
from samzapy.failpoints import reach
from samzapy.storage.changelog.topic import Tail, foreign_records, read_anew
from samzapy.storage.kv.expiring import Expiry
from samzapy.storage.local.marker import Marker, StoreIdentity

if TYPE_CHECKING:
    from samzapy.storage.changelog.gathering import SortedRecords

#: Called with (store as `task/store`, records read so far in offsets, offsets to read).
ProgressCallback = Callable[[str, int, int], None]

#: Called between two polls; returns True to give a restore up, or raises the reason.
ShouldStop = Callable[[], bool]

#: Bytes of memory in which a container gathers records to restore, so that a store of a million entries of 100 bytes is
#: written once, however often its keys occur.
CHUNK_BYTES = 402_653_184
#: Bytes of memory of an entry of a dictionary, besides the bytes of its key and value.
_ENTRY_BYTES = 140
#: Records, and bytes of memory, below which a dictionary is as fast as arenas.
_FEW, _FEW_BYTES = 50_000, 16_777_216
_POLL_S = 0.1
#: Few enough that the records are still in the processor's cache when they are gathered.
_POLL_RECORDS = 5_000


class RestoreStopped(SamzapyError):
    """Raised when a restore is given up because the job is to stop; the chunks it has written stay."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: stopped before it was restored")


@dataclass(frozen=True)
class RestoreResult:
    """The origin of a store's contents. `source`: local store or standby (with + changelog where a tail was read),
    snapshot, snapshot + changelog, changelog, or nothing; side inputs or inputs instead of the changelog where a store
    is filled from streams; `records`: changelog records read, with `bytes` of keys and values; `reason`: why the local
    store was not used, empty if it was or there was none."""

    store: str
    records: int
    seconds: float
    source: str
    reason: str = ""
    bytes: int = 0


class StoreRestore:
    """One store on its way from offset `start` to `bound` (exclusive) of its changelog partition.

    Only a key's last value of a chunk is written. Each chunk goes in with a marker of its own: a crash costs the chunk,
    not the restore. Until the bound is reached the marker carries the time of the last record, because older deletions
    may still follow it in the log.

    `records`, `bytes` (of keys and values) and `seconds` are the amount that it has read.
    """

    def __init__(
        self,
        engine: StorageEngine,
        identity: StoreIdentity,
        tail: Tail,
        chunk_bytes: int = CHUNK_BYTES,
        label: str = "",
        expiry: Expiry | None = None,
    ) -> None:
        """`chunk_bytes`: memory for records that are not written yet. `label`: the store in progress and errors. With
        an `expiry` the values get the times of their records, and expired ones are left out. A record from
        `tail.known_end` on is refused."""
        self.label = label or identity.store
        self.ssp, self.start, self.bound, self._known_end = tail
        self.records = self.bytes = 0
        self.seconds = 0.0
        self._engine = engine
        self._expiry = expiry
        self._identity = identity
        self._chunk_bytes = chunk_bytes
        # The first records of a chunk; then all of them, once they are many.
        self._first: dict[bytes, bytes | None] = {}
        self._first_bytes = 0
        self._sorted: SortedRecords | None = None
        self._last = (tail.start - 1, 0)

    def share(self, stores: int) -> None:
        """Gather only so much that `stores` of them together stay within one store's chunk. Before the first `add`."""
        self._chunk_bytes //= stores

    def add(self, batch: RecordBatch) -> None:
        """Accept the batch's records below the bound. Raises RestoreError for one without a key, ForeignRecords for one
        past the task's own."""
        count = len(batch.offsets)
        if self._known_end is not None and batch.offsets[-1] >= self._known_end:
            first = batch.offsets[bisect_left(batch.offsets, self._known_end)]
            raise foreign_records(self._identity.store, self.ssp, self._known_end, first)
        if batch.offsets[-1] >= self.bound:
            count = bisect_left(batch.offsets, self.bound)
            if not count:
                return
        keys, values = batch.keys[:count], batch.values[:count]
        if self._expiry is not None:
            values = self._expiry.restored(values, batch.timestamps[:count])
        try:
            full = self._gather(keys, values)  # type: ignore[arg-type]  # a key of None raises
        except TypeError:
            where = f"{self.ssp}@{batch.offsets[keys.index(None)]}"
            raise RestoreError(f"{where}: changelog record without a key") from None
        self.records += count
        self._last = (batch.offsets[count - 1], batch.timestamps[count - 1])
        if full and count == len(batch.offsets):
            self._write(*self._last)
        reach("restore.batch")

    def _gather(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> bool:
        """Returns whether it is time to write."""
        if self._sorted is None:
            size = sum(map(len, keys)) + sum(map(len, filter(None, values)))
            self._first.update(zip(keys, values, strict=True))
            self._first_bytes += size + _ENTRY_BYTES * len(keys)
            self.bytes += size
            if len(self._first) < _FEW and self._first_bytes < min(_FEW_BYTES, self._chunk_bytes):
                return False
            # Only a long restore needs numpy, and its import takes a tenth of a second.
            from samzapy.storage.changelog.gathering import SortedRecords  # noqa: PLC0415

            self._sorted = SortedRecords()
            self._sorted.add(list(self._first), list(self._first.values()))
            self._first = {}
        else:
            self.bytes += self._sorted.add(keys, values)
        return self._sorted.is_full(self._chunk_bytes)

    def write_gathered(self) -> None:
        """Write the gathered records, as of the last of them."""
        if self._first or self._sorted is not None:
            self._write(*self._last)

    def complete(self, offset: int, now_ms: int) -> None:
        """Write the gathered records. The store then has everything up to `offset`, which was the end at `now_ms`."""
        self._write(offset, now_ms)

    def finish(self, now_ms: int) -> None:
        """Write the gathered records. The store then has everything below the bound, as of `now_ms`."""
        self._write(self.bound - 1, now_ms)

    def flush(self) -> None:
        """Flush the engine's memory to disk."""
        self._engine.flush()

    def _write(self, offset: int, time_ms: int) -> None:
        marker = Marker(self._identity, offset, max(time_ms, 0)).to_bytes()
        reach("restore.chunk")
        if self._sorted is not None:
            self._engine.load(self._sorted.parts(), marker)
        else:
            keys = sorted(self._first)
            self._engine.load([(keys, [self._first[key] for key in keys])], marker)
        self._first, self._first_bytes, self._sorted = {}, 0, None


@read_anew("trying again reads what is left")
def run_restores(
    restores: Sequence[StoreRestore],
    consumer: SystemConsumer,
    clock: Clock,
    on_progress: ProgressCallback | None = None,
    stall_s: float = 60.0,
    poll_records: int = _POLL_RECORDS,
    should_stop: ShouldStop = lambda: False,
) -> None:
    """Read the partitions of one system with a consumer that was not started yet, until each is at its bound.

    A partition is done when the consumer's position has reached the bound, since control records and holes have
    offsets, too. Its store is finished then. Raises RestoreStalled when nothing moved for `stall_s` seconds,
    RestoreStopped once it `should_stop`.
    """
    began = moved = clock.monotonic()
    as_of_ms = clock.wall_ms()
    active = {restore.ssp: restore for restore in restores}
    if len(active) < len(restores):
        raise RestoreError(f"two stores have one changelog partition: {', '.join(sorted(r.label for r in restores))}")
    for restore in restores:
        restore.share(len(restores))
    consumer.start({restore.ssp: restore.start for restore in restores})
    positions: dict[SystemStreamPartition, int] = {}
    while active:
        if should_stop():
            raise RestoreStopped(", ".join(other.label for other in active.values()))
        for batch in consumer.poll(_POLL_S, poll_records):
            if batch.ssp in active:
                active[batch.ssp].add(batch)
        if _advanced(active, consumer, positions, on_progress):
            moved = clock.monotonic()
        if done := [r for r in active.values() if positions[r.ssp] >= r.bound]:
            for restore in done:
                del active[restore.ssp]
                restore.finish(as_of_ms)
                restore.seconds = (moved := clock.monotonic()) - began
            consumer.pause(positions.keys() - active.keys())
        if active and clock.monotonic() - moved > stall_s:
            raise RestoreStalled(_stalled(active.values(), positions, stall_s))


def _advanced(
    active: dict[SystemStreamPartition, StoreRestore],
    consumer: SystemConsumer,
    positions: dict[SystemStreamPartition, int],
    on_progress: ProgressCallback | None,
) -> bool:
    advanced = False
    for ssp, restore in active.items():
        position = consumer.position(ssp)
        if position != positions.get(ssp):
            positions[ssp] = position
            advanced = True
            if on_progress is not None:
                on_progress(restore.label, min(position, restore.bound) - restore.start, restore.bound - restore.start)
    return advanced


def _stalled(active: Iterable[StoreRestore], positions: dict[SystemStreamPartition, int], stall_s: float) -> str:
    where = ", ".join(f"{r.ssp} at {positions[r.ssp]} of {r.bound} (store '{r.label}')" for r in active)
    return f"restore made no progress for {stall_s:g} s: {where}"
