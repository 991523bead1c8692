"""The engine of one task's part of one store, in RocksDB."""

from __future__ import annotations

import operator
import threading
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from rocksdict import (
    Checkpoint,
    IngestExternalFileOptions,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from samzapy.api.engine import Changes, CommittedEntries, Cursor, Part, StorageEngine
from samzapy.errors import StoreClosed, StoreError
from samzapy.failpoints import reach
from samzapy.storage.kv.uncommitted import RESERVED
from samzapy.storage.rocksdb.ownership import IN_USE, Ownership, translated

#: One reserved key in the column family of the data: memtables of several families are flushed independently, so only
#: in the same family the marker of a commit is on disk exactly when its data is.
MARKER_KEY = RESERVED

#: Rows are read in growing chunks, so that a short range is cheap and a long one costs little a row.
_FIRST_CHUNK, _LARGEST_CHUNK = 16, 512
_CHUNK_BYTES = 1 << 20
#: The file of a load while it is written, in the store's directory so that RocksDB can ingest it by a link.
_LOADED = "loading.sst"
_NONE = type(None)
_LONGEST_CALL_S = 10.0
_CLOSE_RETRY_S = 0.01

#: The properties of RocksDB to publish, without their prefix `rocksdb.`.
_GAUGES = (
    "estimate-num-keys",
    "cur-size-active-mem-table",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "estimate-table-readers-mem",
    "total-sst-files-size",
    "block-cache-usage",
)


class RocksDbCursor:
    """Pairs of a range as of the making of RocksDB's iterator. Ends with a check of the iterator's status.

    `shared`: other cursors use the same iterator, so this one takes its place again before each chunk.
    """

    __slots__ = ("__weakref__", "_ended", "_lower", "_path", "_rows", "_shared", "_upper")

    def __init__(self, rows: RdictIter, path: Path, lower: bytes | None, upper: bytes | None, shared: bool) -> None:
        self._rows: RdictIter | None = rows
        self._path = path
        self._lower = b"" if lower is None else lower
        self._upper = upper
        self._shared = shared
        # No key is below the empty key, but RocksDB takes an empty bound for no bound.
        self._ended = upper == b""

    def __enter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._pairs()

    def _pairs(self) -> Iterator[tuple[bytes, bytes]]:
        size = _FIRST_CHUNK
        placed = False
        while not self._ended:
            chunk = self._chunk(size, place=self._shared or not placed)
            yield from chunk
            placed = True
            if chunk:
                self._lower = chunk[-1][0] + b"\x00"
            size = min(2 * size, _LARGEST_CHUNK)

    def _chunk(self, size: int, place: bool) -> list[tuple[bytes, bytes]]:
        """The next pairs; the end is reached only if it was reached without damage."""
        rows = self._rows
        if rows is None:
            raise StoreClosed(f"{self._path}: the iterator is closed")
        chunk: list[tuple[bytes, bytes]] = []
        valid, key_of, value_of, advance = rows.valid, rows.key, rows.value, rows.next
        room, upper = _CHUNK_BYTES, self._upper
        try:
            if place:
                rows.seek(self._lower)
            while len(chunk) < size and room > 0 and valid():
                key = key_of()
                if upper is not None and key >= upper:
                    self._ended = True
                    break
                if key != MARKER_KEY:
                    value = value_of()
                    chunk.append((key, value))
                    room -= len(value)
                advance()
            if self._ended or not valid():
                rows.status()
                self._ended = True
        except Exception as cause:
            raise translated(cause, self._path, "reading a range") from cause
        finally:
            # An error's traceback keeps this frame, which must not keep the iterator and the store open.
            del rows, valid, key_of, value_of, advance
        return chunk

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of RocksDB's iterator: the files stay locked until it is gone."""
        self._rows = None


def pinned_rows(db: Rdict, path: Path, upper: bytes | None = None) -> RdictIter:
    """RocksDB's iterator over the present contents, without later writes; it need not look beyond `upper`."""
    options = ReadOptions()
    if upper:
        options.set_iterate_upper_bound(upper)
    try:
        return db.iter(options)
    except Exception as cause:
        raise translated(cause, path, "reading a range") from cause


class RocksDbSnapshot(CommittedEntries):
    """The contents at one instant, until it or the engine is closed.

    All cursors share one iterator of RocksDB, which is pinned to the instant when it was made: the iterators of
    rocksdict's snapshots read the present.
    """

    __slots__ = ("_open", "_path", "_rows")

    def __init__(self, rows: RdictIter, path: Path, opened: weakref.WeakSet[RocksDbCursor | RocksDbSnapshot]) -> None:
        self._rows: RdictIter | None = rows
        self._path = path
        self._open = opened

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """The pairs with lower <= key < upper at the time of the snapshot."""
        cursor = RocksDbCursor(self._pinned(), self._path, lower, upper, shared=True)
        self._open.add(cursor)
        return cursor

    def marker(self) -> bytes | None:
        rows = self._pinned()
        try:
            rows.seek(MARKER_KEY)
            marker = rows.value() if rows.valid() and rows.key() == MARKER_KEY else None
            rows.status()
        except Exception as cause:
            raise translated(cause, self._path, "reading the marker") from cause
        finally:
            del rows
        return marker

    def _pinned(self) -> RdictIter:
        if self._rows is None:
            raise StoreClosed(f"{self._path}: the snapshot is closed")
        return self._rows

    def close(self) -> None:
        self._rows = None


class RocksDbStorageEngine(StorageEngine):
    """Committed state in one directory, without a write-ahead log unless one is asked for.

    1. RocksDB without WAL keeps a prefix of its batches: memtables are flushed in order, each with whole batches. The
       marker is a key of the same column family and in the same batch as the data, so it always belongs to the prefix
       that survives a kill.
    2. A kill loses the writes that `flush` has not moved to disk.
    3. One process may use it, but none of its forked children. Every cursor and snapshot is released before it closes.
    """

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
        further integer properties of RocksDB (without `rocksdb.`) to publish. `wal`: write to RocksDB's log, too, so
        that a kill of this process loses nothing."""
        self._db: Any = db
        self._path = path
        self._options = options
        self._ownership = ownership
        self._open: weakref.WeakSet[RocksDbCursor | RocksDbSnapshot] = weakref.WeakSet()
        self._write_options = WriteOptions()
        self._write_options.disable_wal = not wal
        self._gauges = dict.fromkeys([*_GAUGES, *properties])
        if ownership is not None:
            ownership.watch(self)

    def get(self, key: bytes) -> bytes | None:
        try:
            if key == MARKER_KEY:
                return None
            return self._db.get(key)  # type: ignore[no-any-return]
        except Exception as cause:
            raise self._failure(cause, "reading") from cause

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            values: list[bytes | None] = self._db.get(list(keys))
        except Exception as cause:
            raise self._failure(cause, "reading") from cause
        if MARKER_KEY in keys:
            return [None if key == MARKER_KEY else value for key, value in zip(keys, values, strict=True)]
        return values

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        rows = pinned_rows(self._opened(), self._path, upper)
        cursor = RocksDbCursor(rows, self._path, lower, upper, shared=False)
        self._open.add(cursor)
        return cursor

    def snapshot(self) -> RocksDbSnapshot:
        snapshot = RocksDbSnapshot(pinned_rows(self._opened(), self._path), self._path, self._open)
        self._open.add(snapshot)
        return snapshot

    def write(self, changes: Changes, marker: bytes) -> None:
        """Write `changes` and the marker as one WriteBatch. Raises StoreError for the one reserved key."""
        if MARKER_KEY in changes:
            raise StoreError(f"{self._path}: key {MARKER_KEY!r} is reserved")
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

    def load(self, parts: Iterable[Part], marker: bytes) -> None:
        """Make one file of the parts and the marker, and ingest it past the memtable.

        RocksDB ingests a file by one entry of its manifest, after it has flushed the memtable with the previous marker.
        So data and marker are loaded together or not at all, and then survive a kill.
        """
        db, file = self._opened(), self._path / _LOADED
        # An empty store has nothing that a deletion could delete.
        deletes = self.marker() is not None
        try:
            writer = SstFileWriter(self._options)
            writer.open(str(file))
            for keys, values in _with_marker(parts, marker):
                _fill(writer, keys, values, deletes=deletes)
            writer.finish()
            reach("restore.file")
            how = IngestExternalFileOptions()
            how.set_move_files(True)
            db.ingest_external_file([str(file)], how)
            reach("restore.loaded")
        except Exception as cause:
            raise self._failure(cause, "loading a file") from cause
        finally:
            file.unlink(missing_ok=True)

    def marker(self) -> bytes | None:
        try:
            return self._db.get(MARKER_KEY)  # type: ignore[no-any-return]
        except Exception as cause:
            raise self._failure(cause, "reading the marker") from cause

    def flush(self, *, wait: bool = True) -> bool:
        """Flush the memtable; without `wait` by RocksDB's threads, unless they are still flushing earlier ones."""
        try:
            if not wait and self._db.property_int_value("rocksdb.num-immutable-mem-table"):
                return False
            self._db.flush(wait)
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
            _close_once_unused(db)
        except Exception as cause:
            raise self._failure(cause, "closing") from cause
        finally:
            if self._ownership is not None:
                self._ownership.release()

    def metrics(self) -> dict[str, float]:
        """RocksDB's own properties that are worth a gauge."""
        if isinstance(self._db, _Gone):
            return {}
        values = {name: self._db.property_int_value(f"rocksdb.{name}") for name in self._gauges}
        return {name: float(value) for name, value in values.items() if value is not None}

    def disown(self) -> Any:
        """Give the handle up without a close, in a forked child, and refuse every later call."""
        db, self._db = self._db, _Gone(StoreError(f"{self._path} was opened by the parent of this process"))
        return db

    def _opened(self) -> Rdict:
        if isinstance(self._db, _Gone):
            raise self._db.error
        return self._db

    def _failure(self, cause: Exception, doing: str) -> StoreError:
        return cause if isinstance(cause, StoreError) else translated(cause, self._path, doing)


def remove_leftover(path: Path) -> None:
    """Delete the file that a process left in the store at `path` when it was killed during a load."""
    (path / _LOADED).unlink(missing_ok=True)


def _with_marker(parts: Iterable[Part], marker: bytes) -> Iterator[Part]:
    """The parts, with the marker in its place."""
    placed = False
    for keys, values in parts:
        if not placed and keys and keys[-1] >= MARKER_KEY:
            placed, at = True, bisect_left(keys, MARKER_KEY)
            if keys[at] == MARKER_KEY:
                raise StoreError(f"key {MARKER_KEY!r} is reserved")
            yield keys[:at], values[:at]
            yield [MARKER_KEY], [marker]
            yield keys[at:], values[at:]
        else:
            yield keys, values
    if not placed:
        yield [MARKER_KEY], [marker]


def _fill(writer: SstFileWriter, keys: Sequence[bytes], values: Sequence[bytes | None], *, deletes: bool) -> None:
    # A map that is drained runs without a Python frame per record.
    if _NONE not in set(map(type, values)):
        deque(map(operator.setitem, repeat(writer), keys, values), maxlen=0)
        return
    for key, value in zip(keys, values, strict=True):
        if value is not None:
            writer[key] = value
        elif deletes:
            del writer[key]


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
