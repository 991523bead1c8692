"""One store of one task: its stack, its engine, the known end of its changelog, and its engine's flushes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from samzapy.api.engine import Changes, StorageEngine
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingColumns, OutgoingRecord, SystemProducer, send_columns
from samzapy.clock import Clock
from samzapy.config.stores import StoreConfig
from samzapy.errors import StoreError
from samzapy.storage.backup import StoreBackup
from samzapy.storage.changelog.reading import ChangelogEnd
from samzapy.storage.kv.expiring import STAMP_BYTES, put_time, unstamped
from samzapy.storage.kv.stack import StoreStack
from samzapy.storage.local.directory import set_aside
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.side_inputs import StoreFilling

#: Makes the task's view from its key-value store.
View = Callable[[Any], Any]

#: Seconds after which a commit without changes still writes a marker, which must stay younger than the changelog's
#: delete.retention.ms.
_MARKER_S = 600.0
#: Changes of a store that are only in memory, at most.
FLUSH_RECORDS = 400_000


@runtime_checkable
class MeasuredEngine(Protocol):
    """What an engine may add."""

    def metrics(self) -> dict[str, float]:
        """Sizes and counts worth a gauge, by name."""


class Flushing:
    """Flushes an engine, to bound the cost of a kill: at most `records` changes and one commit's, or `interval_ms`.

    1. At half a bound the engine begins to flush in the background, so that commits go on.
    2. At the bound the commit waits for it.
    3. A flush must end before the next one begins. So a kill costs at most the changes of one flush and later ones.
    """

    __slots__ = ("_begun", "_clock", "_engine", "_interval_ms", "_records", "_unflushed", "_unflushed_s")

    def __init__(self, engine: StorageEngine, interval_ms: int, clock: Clock, records: int) -> None:
        self._engine = engine
        self._interval_ms = interval_ms
        self._records = records
        self._clock = clock
        #: Changes that the engine is bringing to disk.
        self._begun = 0
        #: The changes written since.
        self._unflushed = 0
        self._unflushed_s = clock.monotonic()

    def written(self, changes: int, at_s: float) -> None:
        """The engine has taken so many changes."""
        if not self._unflushed:
            self._unflushed_s = at_s
        self._unflushed += changes

    def flush_if_due(self) -> None:
        """Begin a flush, or wait for it, if a bound is reached."""
        if not self._unflushed:
            return
        age_ms = 1_000.0 * (self._clock.monotonic() - self._unflushed_s)
        together = self._begun + self._unflushed
        if age_ms >= self._interval_ms:
            self.flush()
        elif self._unflushed > self._records // 2 or together > self._records or age_ms >= self._interval_ms / 2:
            if self._engine.flush(wait=False):
                self._begun, self._unflushed = self._unflushed, 0
            elif together > self._records:
                self.flush()

    def flush(self) -> None:
        """Move everything to disk, and wait for it."""
        self._engine.flush()
        self._begun = self._unflushed = 0


@dataclass(frozen=True)
class OpenedStore:
    """A store between the opening of its engine and the end of its restore.

    `changelog`: the partition that restores the engine, from offset `start` to `bound`. `known_end`: the end of the
    task's records there, None if unknown. `kept`: the engine has files of an earlier attempt, of a `snapshot` or of a
    standby (`taken_over`); `reason`: why earlier files were set aside. `doubt` returns why the files must not be used
    now if any record follows them; it is None for an empty store. `filling`: the streams that fill the store.
    """

    config: StoreConfig
    engine: StorageEngine
    identity: StoreIdentity
    changelog: SystemStreamPartition | None = None
    _: KW_ONLY
    start: int = 0
    bound: int = 0
    known_end: int | None = None
    kept: bool = False
    snapshot: bool = False
    taken_over: bool = False
    reason: str = ""
    doubt: Callable[[], str | None] | None = None
    max_record_bytes: int | None = None
    filling: StoreFilling | None = None

    @property
    def first(self) -> int:
        """The offset at which the restore begins to read; a store that is further checks the records before as well."""
        return self.start if self.known_end is None else min(self.start, self.known_end)

    @property
    def offset(self) -> int:
        """The changelog offset up to which the restored engine is complete, -1 for none."""
        return max(self.bound, self.start) - 1


class TaskStore:
    """Brings a store's changes to its changelog, then to its engine. The commit decides when."""

    __slots__ = (
        "_appended_bytes",
        "_clock",
        "_directory",
        "_distrusted",
        "_flushing",
        "_marked_s",
        "_own",
        "backup",
        "changelog",
        "end",
        "engine",
        "filling",
        "identity",
        "offset",
        "stack",
        "view",
    )

    def __init__(
        self,
        opened: OpenedStore,
        stack: StoreStack,
        clock: Clock,
        *,
        view: View | None = None,
        end: ChangelogEnd | None = None,
        backup: StoreBackup | None = None,
        directory: Path | None = None,
    ) -> None:
        """`view` makes the task's view of the key-value store, None for the store itself. `end` detects another writer
        of the changelog, `backup` makes snapshots, `directory` has the files."""
        self.stack = stack
        self.view = view
        self.end = end
        self.backup = backup
        self.engine = opened.engine
        self.identity = opened.identity
        self.changelog = opened.changelog
        self.filling = opened.filling
        self.offset = opened.offset
        self._own = opened.offset if opened.known_end is None else opened.known_end - 1
        self._appended_bytes = 0
        self._directory = directory
        self._distrusted = False
        self._flushing = Flushing(opened.engine, opened.config.flush_interval_ms, clock, FLUSH_RECORDS)
        self._clock = clock
        self._marked_s = clock.monotonic()

    @property
    def read_only(self) -> bool:
        """Whether it is read-only for the task."""
        return self.filling is not None and self.filling.followed

    def send_changes(self, producer: SystemProducer) -> None:
        """Queue one changelog record per changed key."""
        changelog = self.changelog
        if changelog is None:
            return
        changes = self.stack.uncommitted.changes
        if changes and self.identity.stamped:
            producer.send(_timed_records(changelog, changes))
        elif changes:
            columns = OutgoingColumns(changelog.stream, list(changes), list(changes.values()), changelog.partition)
            send_columns(producer, columns)

    def acknowledged_offset(self, last_of: Callable[[SystemStreamPartition], int | None]) -> int:
        """The changelog offset of this commit: the last acknowledged record's, or the previous one if nothing
        changed."""
        if not self.stack.uncommitted.changes or self.changelog is None:
            return self._own
        last = last_of(self.changelog)
        if last is None or last <= self.offset:
            at = "nowhere" if last is None else f"at offset {last}"
            raise StoreError(
                f"store '{self.identity.store}': the job's records in changelog {self.changelog} reached offset {self.offset}, "
                f"and a later one is {at}: acknowledged records were lost (unclean.leader.election.enable?), or the topic was "
                "created again; the next start compares the changelog with the checkpoint"
            )
        if self.end is not None:
            self.end.sent(last, len(self.stack.uncommitted.changes))
        self._own = last
        self._appended_bytes += _size(self.stack.uncommitted.changes, stamped=self.identity.stamped)
        return last

    @property
    def own_offset(self) -> int:
        """The offset of the last changelog record that the task has written; -1 for none."""
        return self._own

    def apply(self, offset: int, input_offsets: Mapping[SystemStreamPartition, int]) -> None:
        """One write of the changes and their marker; no write without changes.

        So the marker's input offsets may be older than the checkpoint's, but not its changelog offset.
        """
        changes = self._with_expired(self.stack.uncommitted.changes)
        if changes or self._clock.monotonic() - self._marked_s >= _MARKER_S:
            # The transaction's control record is not a change: the store is complete up to it.
            complete = offset if self.end is None else max(offset, self.end.end - 1)
            self._write(changes, complete, input_offsets, self._clock.wall_ms())
            if self.backup is not None:
                self.backup.committed()
        self.flush_if_due()

    def keep(self, input_offsets: Mapping[SystemStreamPartition, int], time_ms: int) -> None:
        """Write the entries of a store that is filled from streams, with the positions in the streams, also without
        changes, so that the streams are not read again. No record after the positions is older than `time_ms`."""
        self.stack.store.flush()
        self._write(self.stack.uncommitted.changes, self.offset, input_offsets, time_ms)
        self.flush_if_due()

    def _write(
        self, changes: Changes, offset: int, input_offsets: Mapping[SystemStreamPartition, int], time_ms: int
    ) -> None:
        inputs = {str(ssp): position for ssp, position in input_offsets.items()}
        self.engine.write(changes, Marker(self.identity, offset, time_ms, inputs).to_bytes())
        self.offset = offset
        self._marked_s = self._clock.monotonic()
        # The marker counts as a change.
        self._flushing.written(len(changes) + 1, self._marked_s)
        self.stack.uncommitted.clear()

    def _with_expired(self, changes: Changes) -> Changes:
        """The changes, and the removal of some expired entries. The changelog gets no records for these: each reader
        knows the time."""
        expired = self.stack.store.sweep(len(changes))
        return {**expired, **changes} if expired else changes

    def flush_if_due(self) -> None:
        """Flush the engine if the unflushed changes are so many, or so old, that a restore after a kill would take
        long."""
        self._flushing.flush_if_due()

    def flush_engine(self) -> None:
        """Flush the engine's memory to disk."""
        self._flushing.flush()

    def discard(self) -> None:
        """Go back to the last commit."""
        self.stack.discard()

    def distrust(self) -> None:
        """Set the files aside at the end: another writer has written to the changelog."""
        self._distrusted = True

    def close(self) -> None:
        """Close the stack, then the engine."""
        try:
            if self.backup is not None:
                self.backup.close()
            self.stack.store.close()
        finally:
            self.engine.close()
        if self._distrusted and self._directory is not None:
            set_aside(self._directory, "foreign", self._clock.wall_ms())

    def metrics(self) -> dict[str, float]:
        """The metrics of every layer, by name; `changelog-bytes` of keys and values went to the changelog since the
        start."""
        backup = {} if self.backup is None else self.backup.metrics()
        changelog = {} if self.changelog is None else {"changelog-bytes": self._appended_bytes}
        engine = self.engine.metrics() if isinstance(self.engine, MeasuredEngine) else {}
        return {**self.stack.metrics(), **engine, **changelog, **backup}


def _size(changes: Changes, *, stamped: bool) -> int:
    """Bytes of the keys and values of the changelog records of these changes."""
    values = [value for value in changes.values() if value is not None]
    stamps = STAMP_BYTES * len(values) if stamped else 0
    return sum(map(len, changes)) + sum(map(len, values)) - stamps


def _timed_records(changelog: SystemStreamPartition, changes: Changes) -> list[OutgoingRecord]:
    """The changes of an expiring store: the time of each put is the record's time stamp, not part of the value."""
    stream, partition = changelog.stream, changelog.partition
    return [
        OutgoingRecord(stream, key, None, partition)
        if value is None
        else OutgoingRecord(stream, key, unstamped(value), partition, timestamp=put_time(value))
        for key, value in changes.items()
    ]
