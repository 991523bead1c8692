"""One store of one task, from the opening of its files to its close; all stores of a task between two commits.

restore                  ready
OPENED ───────────────▶ RESTORING ────────▶ READY
│  └───────── ready ────────────────────▶  │
└────────▶ REFUSED ◀─────┴─────────────────┘    refuse

OPENED     the engine is open: empty, or with files that may be used; the end of the changelog is known
RESTORING  records of the changelog are put into the engine, up to that end (or, by a standby, without an end)
READY      the task reads and writes; a commit brings the changes to the changelog, then to the engine
REFUSED    the changelog has lost records of the job or has records of another writer, so nothing is committed any
more; files of a store that was READY are set aside when it is closed
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from samzapy.api.engine import Changes, StorageEngine
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingColumns, OutgoingRecord, SystemProducer, send_columns
from samzapy.clock import Clock
from samzapy.errors import StoreError
from samzapy.storage.backup.snapshot import StoreBackup
from samzapy.storage.changelog.restore import CHUNK_BYTES, RestoreResult, StoreRestore
from samzapy.storage.changelog.topic import ChangelogEnd, Tail
from samzapy.storage.kv.expiring import STAMP_BYTES, Expiry, put_time, unstamped
from samzapy.storage.kv.forwarding import ReadOnlyStore, StoreLayer
from samzapy.storage.kv.stack import StoreStack
from samzapy.storage.local.directory import OpenedFiles, set_aside
from samzapy.storage.local.marker import Marker, StoreFilling, StoreIdentity
from samzapy.storage.spec import StoreSpec

logger = logging.getLogger(__name__)

#: Seconds after which a commit without changes still writes a marker, which must stay younger than the changelog's
#: delete.retention.ms.
_MARKER_S = 600.0
#: Changes of a store that are only in memory, at most.
FLUSH_RECORDS = 400_000
#: The bound of a changelog that a standby follows: larger than any offset.
_NO_END = 2**63 - 1


class StoreState(Enum):
    """What a store is ready for; the header of this module draws the transitions."""

    OPENED = "OPENED"
    RESTORING = "RESTORING"
    READY = "READY"
    REFUSED = "REFUSED"


_NEXT = {
    StoreState.OPENED: {StoreState.RESTORING, StoreState.READY, StoreState.REFUSED},
    StoreState.RESTORING: {StoreState.READY, StoreState.REFUSED},
    StoreState.READY: {StoreState.REFUSED},
    StoreState.REFUSED: {StoreState.REFUSED},
}


@runtime_checkable
class MeasuredEngine(Protocol):
    """What an engine may add."""

    def metrics(self) -> dict[str, float]:
        """Sizes and counts worth a gauge, by name; from any thread."""


class Flushing:
    """Flushes an engine, to bound the cost of a kill: at most `records` changes and one commit's, or `interval_ms`.

    1. At half a bound the engine begins to flush in the background, so that commits go on.
    2. At the bound the commit waits for it.
    3. A flush must end before the next one begins. So a kill costs at most the changes of one flush and later ones.
    """

    def __init__(self, engine: StorageEngine, interval_ms: int, clock: Clock, records: int) -> None:
        self._engine = engine
        self._interval_ms = interval_ms
        self._records = records
        self._clock = clock
        #: Changes that the engine is bringing to disk, and the changes written since.
        self._begun = self._unflushed = 0
        self._unflushed_s = clock.monotonic()

    def written(self, changes: int, at_s: float) -> None:
        """The engine has accepted so many changes."""
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


class Store:
    """One store of one task; a commit decides when its changes go to the changelog and to the engine.

    `changelog`, `tail`: the partition that restores the engine, and the part of it that the files lacked when they were
    opened. `stack`, `end` and `backup` are there once it is READY.
    """

    stack: StoreStack

    def __init__(
        self,
        task: str,
        spec: StoreSpec,
        files: OpenedFiles,
        identity: StoreIdentity,
        clock: Clock,
        *,
        tail: Tail | None = None,
        doubt: Callable[[], str | None] | None = None,
        filling: StoreFilling | None = None,
    ) -> None:
        """OPENED. `doubt` returns why the files must not be used if any record follows them. `filling`: the streams
        that fill the store instead of a changelog."""
        self.state = StoreState.OPENED
        self.label = f"{task}/{spec.config.name}"
        self.spec = spec
        self.files = files
        self.engine = files.engine
        self.identity = identity
        self.tail = tail
        self.changelog = None if tail is None else tail.ssp
        self.filling = filling
        self._doubt = doubt
        #: The changelog offset up to which the restored engine is complete, -1 for none.
        self.offset = -1 if tail is None else max(tail.bound, tail.start) - 1
        #: The offset of the last changelog record that the task has written, -1 for none.
        self.own_offset = self.offset if tail is None or tail.known_end is None else tail.known_end - 1
        self.end: ChangelogEnd | None = None
        self.backup: StoreBackup | None = None
        self._restore: StoreRestore | None = None
        self.result = RestoreResult(spec.config.name, 0, 0.0, files.source or "nothing", files.reason)
        self._set_aside = False
        self._appended_bytes = 0
        self._clock = clock
        self.flushing = Flushing(files.engine, spec.config.flush_interval_ms, clock, FLUSH_RECORDS)
        self._marked_s = clock.monotonic()

    def __str__(self) -> str:
        """The state and how the store got there, for logs."""
        result = self.result
        read = f", {result.records:,} records in {result.seconds:.1f} s" if result.records else ""
        why = f"; earlier files are not used: {result.reason}" if result.reason else ""
        return f"Store {self.label} {self.state.value}: {result.source}{read}{why}"

    def _become(self, state: StoreState) -> None:
        assert state in _NEXT[self.state], f"{self.label}: {self.state} -> {state}"
        self.state = state

    def is_doubtful(self) -> bool:
        """Whether the files must not be used if the tail of the changelog has any record."""
        return self._doubt is not None and self._doubt() is not None

    def restore(self, *, endless: bool = False) -> StoreRestore | None:
        """Become RESTORING and return the restore, None if the files have everything. `endless`: from where the files
        are, without an end."""
        config, tail = self.spec.config, self.tail
        if tail is None:
            return None
        if endless:
            tail = Tail(tail.ssp, tail.start, _NO_END)
        elif tail.known_end is not None:
            # A store that is further checks the records before as well.
            tail = tail._replace(start=min(tail.start, tail.known_end))
        if tail.start >= tail.bound:
            return None
        self._become(StoreState.RESTORING)
        expiry = None if config.ttl_ms is None else Expiry(config.ttl_ms, self._clock)
        self._restore = StoreRestore(self.engine, self.identity, tail, CHUNK_BYTES, self.label, expiry)
        return self._restore

    def ready(self, stack: StoreStack, end: ChangelogEnd | None, backup: StoreBackup | None) -> None:
        """Become READY: the restore has read everything. `end` detects another writer of the changelog, `backup` makes
        snapshots."""
        self._become(StoreState.READY)
        self.stack, self.end, self.backup = stack, end, backup
        if (read := self._restore) is not None:
            source, read_from = self.files.source, "changelog" if read.records else ""
            self.result = replace(
                self.result,
                records=read.records,
                seconds=read.seconds,
                bytes=read.bytes,
                source=" + ".join(filter(None, (source, read_from))) or "nothing",
            )
        logger.debug("%s", self)

    def refuse(self, reason: object) -> None:
        """Become REFUSED. Files that the task has used are set aside at the close."""
        self._set_aside = self._set_aside or self.state is StoreState.READY
        self._become(StoreState.REFUSED)
        logger.warning("Store %s %s: %s", self.label, self.state.value, reason)

    @property
    def read_only(self) -> bool:
        """Whether it is read-only for the task."""
        return self.filling is not None and self.filling.followed

    def send_changes(self, producer_of: Callable[[str], SystemProducer]) -> None:
        """Queue one changelog record per changed key."""
        changelog, changes = self.changelog, self.stack.uncommitted.changes
        if changelog is None or not changes:
            return
        producer = producer_of(changelog.system)
        if self.identity.stamped:
            producer.send(_timed_records(changelog, changes))
        else:
            columns = OutgoingColumns(changelog.stream, list(changes), list(changes.values()), changelog.partition)
            send_columns(producer, columns)

    def acknowledged_offset(self, last_of: Callable[[SystemStreamPartition], int | None]) -> int:
        """The changelog offset of this commit: the last acknowledged record's, or the previous one if nothing
        changed."""
        changes = self.stack.uncommitted.changes
        if not changes or self.changelog is None:
            return self.own_offset
        last = last_of(self.changelog)
        if last is None or last <= self.offset:
            at = "nowhere" if last is None else f"at offset {last}"
            raise StoreError(
                f"store '{self.identity.store}': the job's records in changelog {self.changelog} reached offset "
                f"{self.offset}, and a later one is {at}: acknowledged records were lost "
                "(unclean.leader.election.enable?), or the topic was created again; the next start compares the "
                "changelog with the checkpoint"
            )
        if self.end is not None:
            self.end.sent(last, len(changes))
        self.own_offset = last
        self._appended_bytes += _size(changes, stamped=self.identity.stamped)
        return last

    def apply(self, offset: int, input_offsets: Mapping[SystemStreamPartition, int]) -> None:
        """One write of the changes and their marker; no write without changes.

        So the marker's input offsets may be older than the checkpoint's, but not its changelog offset.
        """
        changes = self.stack.uncommitted.changes
        if expired := self.stack.store.sweep(len(changes)):
            # The changelog gets no records for removed entries that have expired: each reader knows the time.
            changes = {**expired, **changes}
        if changes or self._clock.monotonic() - self._marked_s >= _MARKER_S:
            # The transaction's control record is not a change: the store is complete up to it.
            complete = offset if self.end is None else max(offset, self.end.end - 1)
            self._write(changes, complete, input_offsets, self._clock.wall_ms())
            if self.backup is not None:
                self.backup.committed()
        self.flushing.flush_if_due()

    def keep(self, input_offsets: Mapping[SystemStreamPartition, int], time_ms: int) -> None:
        """Write the entries of a store that is filled from streams, with the positions in the streams, also without
        changes, so that the streams are not read again. No record after the positions is older than `time_ms`."""
        self.stack.store.flush()
        self._write(self.stack.uncommitted.changes, self.offset, input_offsets, time_ms)
        self.flushing.flush_if_due()

    def _write(
        self, changes: Changes, offset: int, input_offsets: Mapping[SystemStreamPartition, int], time_ms: int
    ) -> None:
        inputs = {str(ssp): position for ssp, position in input_offsets.items()}
        self.engine.write(changes, Marker(self.identity, offset, time_ms, inputs).to_bytes())
        self.offset = offset
        self._marked_s = self._clock.monotonic()
        # The marker counts as a change.
        self.flushing.written(len(changes) + 1, self._marked_s)
        self.stack.uncommitted.clear()

    def close(self) -> None:
        """Close the stack, then the engine."""
        try:
            if self.backup is not None:
                self.backup.close()
            if hasattr(self, "stack"):
                self.stack.store.close()
        finally:
            self.engine.close()
        if self._set_aside and self.files.path is not None:
            set_aside(self.files.path, "foreign", self._clock.wall_ms())

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


class TaskStores:
    """One task's stores between two commits.

    A commit calls `flush`, `send_changes`, (the producer's flush), `changed`, `changelog_offsets`, (the checkpoint),
    `apply`; the task does not run in between. When one of them fails, the state of the stores is unknown: every later
    call raises StoreError, and the next attempt restores.
    """

    def __init__(self, stores: Mapping[str, Store]) -> None:
        """`stores` are READY."""
        self.held = dict(stores)
        self.stores: Mapping[str, StoreLayer[Any, Any]] = {name: _visible(store) for name, store in stores.items()}
        self.restored = {name: store.result for name, store in stores.items()}
        #: The stores that streams fill: before the task starts and, if they are read-only, while it runs.
        self.sourced = {name: store for name, store in stores.items() if store.filling is not None}
        self._logged = {name: store for name, store in stores.items() if store.changelog is not None}
        #: The serdes of each store with a changelog, and the id of that stream.
        self.serdes = {name: store.identity.serdes for name, store in self._logged.items()}
        self.changelog_ids = {name: store.identity.topic_id for name, store in self._logged.items()}
        self._own = {name: store for name, store in stores.items() if not store.read_only}
        self._failure: BaseException | None = None

    @property
    def engines(self) -> Mapping[str, tuple[int, StorageEngine]]:
        """The task's changelog partition and the engine with its committed entries, by store."""
        return {name: (store.identity.partition, store.engine) for name, store in self.held.items()}

    def as_seen(self, stores: Mapping[str, KeyValueStore[Any, Any]]) -> dict[str, Any]:
        """The stores as the task gets them: each of `stores` (these, or wrapped ones), or its engine's view of it."""
        return {name: self.held[name].spec.seen(store) for name, store in stores.items()}

    def flush(self) -> None:
        """Serialize the dirty objects of every store. Raises StoreError if the task has caught an error of a read."""
        with self._poisoned_by_failure():
            for store in self._own.values():
                store.stack.store.flush()
            for store in self.held.values():
                store.stack.uncommitted.check()

    @property
    def has_changes(self) -> bool:
        """Whether some store has changes that no commit has."""
        return any(s.stack.store.has_unserialized or s.stack.uncommitted.changes for s in self._own.values())

    def over_budget(self) -> bool:
        """Whether some store holds more uncommitted bytes than it may, so that the task should commit."""
        return any(store.stack.over_budget() for store in self._own.values())

    def send_changes(self, producer_of: Callable[[str], SystemProducer]) -> None:
        """Queue one changelog record per changed key of every store that has a changelog."""
        with self._poisoned_by_failure():
            for store in self._logged.values():
                store.send_changes(producer_of)

    def changed(self) -> list[SystemStreamPartition]:
        """The changelog partitions that `send_changes` has records for."""
        return [s.changelog for s in self._logged.values() if s.changelog is not None and s.stack.uncommitted.changes]

    def changelog_offsets(self, last_of: Callable[[SystemStreamPartition], int | None]) -> dict[str, int]:
        """The offset of the last changelog record of each store, once the producers are flushed; -1: none ever.
        `last_of` gives the offset of the last record in each of the `changed` partitions."""
        with self._poisoned_by_failure():
            return {name: store.acknowledged_offset(last_of) for name, store in self._logged.items()}

    def offsets(self) -> dict[str, int]:
        """The offset of the task's last changelog record of each store; -1 for none."""
        return {name: store.own_offset for name, store in self._logged.items()}

    def changelog_ends(self) -> list[ChangelogEnd]:
        """The ends of the stores' changelogs, which detect another writer."""
        return [store.end for store in self._logged.values() if store.end is not None]

    def refuse(self, changelog: object, reason: object) -> None:
        """Refuse the store with that changelog: another writer has written to it."""
        for store in self._logged.values():
            if store.changelog == changelog:
                store.refuse(reason)

    def changes_committed(self, marker_offsets: int) -> None:
        """The records of `send_changes` are durable; the end of their transaction took so many offsets more."""
        for store in self._logged.values():
            if store.end is not None:
                store.end.committed(marker_offsets)

    def apply(self, changelog_offsets: Mapping[str, int], input_offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Write every store's changes and marker to its engine; afterwards nothing is uncommitted."""
        with self._poisoned_by_failure():
            for name, store in self._own.items():
                store.apply(changelog_offsets.get(name, store.offset), input_offsets)

    def discard(self) -> None:
        """Throw away everything since the last commit, cached objects included."""
        for store in self._own.values():
            store.stack.discard()

    def flush_if_due(self) -> None:
        """Flush engines that have not been flushed for long. A commit does so itself, but an idle task has no
        commits."""
        with self._poisoned_by_failure():
            for store in self.held.values():
                store.flushing.flush_if_due()

    def flush_engines(self) -> None:
        """Flush the engines' memory to disk: at a graceful stop, so that the next start is quick."""
        with self._poisoned_by_failure():
            for store in self.held.values():
                store.flushing.flush()
        for store in self.held.values():
            if store.backup is not None:
                store.backup.settle()

    def close(self) -> None:
        """Close every store, also when one of them fails. Uncommitted changes are lost."""
        with ExitStack() as closing:
            for store in self.held.values():
                closing.callback(store.close)

    def metrics(self) -> dict[str, float]:
        """The counts and sizes of every layer, as `store.name`, and the amount of changelog read at the start."""
        metrics = {f"{name}.{key}": value for name, s in self.held.items() for key, value in s.metrics().items()}
        for name, result in self.restored.items():
            metrics[f"{name}.messages-restored"] = result.records
            metrics[f"{name}.messages-bytes"] = result.bytes
        return metrics

    @contextmanager
    def _poisoned_by_failure(self) -> Iterator[None]:
        if self._failure is not None:
            raise StoreError(f"the task's stores failed before: {self._failure}") from self._failure
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            raise


def _visible(store: Store) -> StoreLayer[Any, Any]:
    """The store as the task gets it, apart from views."""
    if not store.read_only:
        return store.stack.store
    name = store.identity.store
    return ReadOnlyStore(store.stack.store, f"store '{name}' is filled by stores.{name}.side.inputs; the task reads it")
