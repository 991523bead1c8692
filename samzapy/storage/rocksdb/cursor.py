"""Reads ranges of RocksDB; damage raises an error and never looks like the end."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from rocksdict import Rdict, RdictIter, ReadOptions

from samzapy.api.engine import CommittedEntries, Cursor
from samzapy.errors import StoreClosed
from samzapy.storage.rocksdb.ownership import translated

#: One reserved key in the column family of the data: memtables of several families are flushed independently, so only
#: in the same family the marker of a commit is on disk exactly when its data is.
MARKER_KEY = b"\x00samzapy\x00marker"

#: Rows are read in growing chunks, so that a short range is cheap and a long one costs little a row.
_FIRST_CHUNK, _LARGEST_CHUNK = 16, 512
_CHUNK_BYTES = 1 << 20


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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
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
