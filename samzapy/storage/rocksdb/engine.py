"""The engine of one task's part of one store, in RocksDB."""

from __future__ import annotations

import logging
import operator
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocksdict import Checkpoint, Options, Rdict, RdictIter, SstFileWriter, WriteBatch, WriteOptions

from samzapy.api.engine import Changes, CommittedPage, Cursor, EngineSnapshot, Load, StorageEngine
from samzapy.errors import StoreClosed, StoreError
from samzapy.storage.rocksdb.cursor import MARKER_KEY, RocksDbCursor, committed_page, pinned_rows
from samzapy.storage.rocksdb.failures import IN_USE, translated
from samzapy.storage.rocksdb.ingestion import FEWEST, ingest, write_changes
from samzapy.storage.rocksdb.ownership import Ownership

if TYPE_CHECKING:
    from samzapy.storage.rocksdb.loading import SortedLoad

_LOG = logging.getLogger(__name__)
_LONGEST_CALL_S = 10.0
_CLOSE_RETRY_S = 0.01

_GAUGES = {
    "rocksdb.estimate-num-keys": "estimate-num-keys",
    "rocksdb.cur-size-active-mem-table": "cur-size-active-mem-table",
    "rocksdb.cur-size-all-mem-tables": "cur-size-all-mem-tables",
    "rocksdb.size-all-mem-tables": "size-all-mem-tables",
    "rocksdb.estimate-table-readers-mem": "estimate-table-readers-mem",
    "rocksdb.total-sst-files-size": "total-sst-files-size",
    "rocksdb.block-cache-usage": "block-cache-usage",
}


class RocksDbStorageEngine(StorageEngine):
    """Committed state in one directory, without a write-ahead log unless one is asked for.

    1. RocksDB without WAL keeps a prefix of its batches: memtables are flushed in order, each with whole batches. The marker
       is a key of the same column family and in the same batch as the data, so it always belongs to the prefix that survives
       a kill.
    2. A kill loses the writes that `flush` has not moved to disk.
    3. One process may use it, but none of its forked children. Every cursor and snapshot is released before it closes.
    """

    __slots__ = ("_db", "_gauges", "_load", "_open", "_options", "_ownership", "_path", "_write_options")

    def __init__(
        self,
        db: Rdict,
        path: Path,
        options: Options,
        ownership: Ownership | None,
        properties: Sequence[str] = (),
        *,
        wal: bool = False,
    ) -> None:
        """`options`: the options of the open `db`. `ownership`: None for a read-only handle. `properties`: names of
        further integer properties of RocksDB (without `rocksdb.`) to publish. `wal`: write to RocksDB's log, too, so that
        a kill of this process loses nothing."""
        self._db: Any = db
        self._path = path
        self._options = options
        self._ownership = ownership
        self._load: SortedLoad | None = None
        self._open: weakref.WeakSet[RocksDbCursor | RocksDbSnapshot] = weakref.WeakSet()
        self._write_options = WriteOptions()
        self._write_options.disable_wal = not wal
        self._gauges = _GAUGES | {f"rocksdb.{name}": name for name in properties}
        if ownership is not None:
            ownership.watch(self)

    def get(self, key: bytes) -> bytes | None:
        """The value, None if absent."""
        try:
            if key == MARKER_KEY:
                return None
            return self._db.get(key)  # type: ignore[no-any-return]
        except Exception as cause:
            raise self._failure(cause, "reading") from cause

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values in the order of `keys`."""
        try:
            found: list[bytes | None] = self._db.get(list(keys))
        except Exception as cause:
            raise self._failure(cause, "reading") from cause
        if MARKER_KEY in keys:
            return [None if key == MARKER_KEY else value for key, value in zip(keys, found, strict=True)]
        return found

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """The present pairs with lower <= key < upper."""
        rows = pinned_rows(self._opened(), self._path, upper)
        cursor = RocksDbCursor(rows, self._path, lower, upper, shared=False)
        self._open.add(cursor)
        return cursor

    def snapshot(self) -> EngineSnapshot:
        """The present contents."""
        snapshot = RocksDbSnapshot(pinned_rows(self._opened(), self._path), self._path, self._open)
        self._open.add(snapshot)
        return snapshot

    def read_committed(self, lower: bytes | None, upper: bytes | None, most: int, most_bytes: int) -> CommittedPage:
        """Read by a separate iterator, pinned to the present: no other thread waits for it."""
        return committed_page(pinned_rows(self._opened(), self._path), self._path, lower, upper, most, most_bytes)

    def write(self, changes: Changes, marker: bytes) -> None:
        """Write `changes` and the marker as one WriteBatch. Raises StoreError for the one reserved key."""
        self._refuse_reserved(changes)
        batch = WriteBatch(raw_mode=True)
        values = changes.values()
        try:
            if None in values:
                for key, value in changes.items():
                    if value is None:
                        batch.delete(key)
                    else:
                        batch.put(key, value)
            else:
                # A drained map needs no Python frame per record.
                deque(map(operator.setitem, repeat(batch), changes, values), maxlen=0)
            batch.put(MARKER_KEY, marker)
            self._db.write(batch, self._write_options)
        except Exception as cause:
            raise self._failure(cause, "writing a commit") from cause

    def load(self, changes: Changes, marker: bytes) -> None:
        """One file with `changes` and the marker; few of them by a batch."""
        if len(changes) < FEWEST:
            super().load(changes, marker)
            return
        self._refuse_reserved(changes)
        if self.marker() is None:
            # Deletions have no effect on an empty store.
            changes = {key: value for key, value in changes.items() if value is not None}
        self._ingest(lambda writer: write_changes(writer, changes, marker))

    def begin_load(self, memory_bytes: int) -> Load | None:
        """Records are gathered and sorted in memory, and loaded as one file. None if the memory cannot be reserved."""
        # Only a long restore needs numpy, and its import takes a tenth of a second.
        from samzapy.storage.rocksdb.loading import SortedLoad  # noqa: PLC0415

        self._discard_load()
        over_others = self.marker() is not None
        try:
            self._load = SortedLoad(self._path, memory_bytes, self._ingest, over_others=over_others)
        except OSError as cause:
            _LOG.warning(
                "%s is loaded in chunks: reserving 2 x %d bytes of memory: %s", self._path, memory_bytes, cause
            )
        return self._load

    def _discard_load(self) -> None:
        load, self._load = self._load, None
        if load is not None:
            load.discard()

    def _ingest(self, fill: Callable[[SstFileWriter], None]) -> None:
        try:
            ingest(self._opened(), self._path, self._options, fill)
        except Exception as cause:
            raise self._failure(cause, "loading a file") from cause

    def _refuse_reserved(self, changes: Changes) -> None:
        if MARKER_KEY in changes:
            raise StoreError(f"{self._path}: key {MARKER_KEY!r} is reserved")

    def marker(self) -> bytes | None:
        """The marker of the last write that survived."""
        try:
            return self._db.get(MARKER_KEY)  # type: ignore[no-any-return]
        except Exception as cause:
            raise self._failure(cause, "reading the marker") from cause

    def flush(self) -> None:
        """Flush the memtable and wait for it."""
        try:
            self._db.flush(True)
        except Exception as cause:
            raise self._failure(cause, "flushing") from cause

    def begin_flush(self) -> bool:
        """Let RocksDB's threads flush the memtable, unless they are still flushing earlier ones."""
        try:
            if self._db.property_int_value("rocksdb.num-immutable-mem-table"):
                return False
            self._db.flush(False)
        except Exception as cause:
            raise self._failure(cause, "flushing") from cause
        return True

    def checkpoint(self, directory: Path) -> None:
        """Hard links to the files after a flush: a prefix of the writes, as after a crash."""
        try:
            # Other threads run during a flush, but not while the links are made, which takes some milliseconds.
            self._db.flush(True)
            Checkpoint(self._opened()).create_checkpoint(str(directory))
        except Exception as cause:
            raise self._failure(cause, "making a checkpoint") from cause

    def close(self) -> None:
        """Release cursors, snapshots, files and memory. RocksDB flushes its memtable on the way."""
        if isinstance(self._db, _Gone):
            return
        for opened in list(self._open):
            opened.close()
        db, self._db = self._db, _Gone(StoreClosed(f"{self._path} is closed"))
        try:
            try:
                _close_once_unused(db)
            finally:
                self._discard_load()
        except Exception as cause:
            raise self._failure(cause, "closing") from cause
        finally:
            if self._ownership is not None:
                self._ownership.release()

    def metrics(self) -> dict[str, float]:
        """RocksDB's own properties that are worth a gauge."""
        if isinstance(self._db, _Gone):
            return {}
        found = {name: self._db.property_int_value(key) for key, name in self._gauges.items()}
        return {name: float(value) for name, value in found.items() if value is not None}

    def disown(self) -> Any:
        """Give the handle up without a close, in a forked child, and refuse every later call."""
        db, self._db = self._db, _Gone(StoreError(f"{self._path} was opened by the parent of this process"))
        return db, self._load

    def _opened(self) -> Rdict:
        if isinstance(self._db, _Gone):
            raise self._db.error
        return self._db

    def _failure(self, cause: Exception, doing: str) -> StoreError:
        return cause if isinstance(cause, StoreError) else translated(cause, self._path, doing)


def _close_once_unused(db: Rdict) -> None:
    """Close. Another thread may still be in an earlier call; rocksdict refuses the close until that has ended."""
    pause = threading.Event()
    for _ in range(int(_LONGEST_CALL_S / _CLOSE_RETRY_S)):
        try:
            db.close()
        except RuntimeError as cause:
            if IN_USE not in str(cause):
                raise
            pause.wait(_CLOSE_RETRY_S)
        else:
            return
    db.close()


class _Gone:
    """Replaces the handle after `close`. Any use of it raises, so no call has to check first."""

    def __init__(self, error: StoreError) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise self.error


class RocksDbSnapshot(EngineSnapshot):
    """The contents at one instant, until it or the engine is closed.

    All cursors share one iterator of RocksDB, which is pinned to the instant when it was made: the iterators of rocksdict's
    snapshots read the present.
    """

    __slots__ = ("_open", "_path", "_rows")

    def __init__(self, rows: RdictIter, path: Path, opened: weakref.WeakSet[RocksDbCursor | RocksDbSnapshot]) -> None:
        self._rows: RdictIter | None = rows
        self._path = path
        self._open = opened

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """The pairs with lower <= key < upper at the time of the snapshot."""
        if self._rows is None:
            raise StoreClosed(f"{self._path}: the snapshot is closed")
        cursor = RocksDbCursor(self._rows, self._path, lower, upper, shared=True)
        self._open.add(cursor)
        return cursor

    def close(self) -> None:
        """Release it; cursors over it stay usable."""
        self._rows = None
