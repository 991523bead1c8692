"""The engine that keeps everything in this process."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from samzapy.api.engine import (
    Changes,
    CommittedPage,
    Cursor,
    EngineSettings,
    EngineSnapshot,
    StorageEngine,
    StorageEngineFactory,
)
from samzapy.errors import StoreClosed
from samzapy.storage.kv.ordered import KeyOrder, Pair


class InMemoryStorageEngine(StorageEngine):
    """A dict and its sorted keys. Cursors and snapshots share the dict; a write copies it first while one is open.

    Other threads read committed entries under a lock that writes and scans take, once each; gets do not.
    """

    __slots__ = ("_changing", "_data", "_marker", "_open", "_order", "_store")

    def __init__(self, store: str) -> None:
        self._store = store
        self._changing = threading.Lock()
        self._data: dict[bytes, bytes] = {}
        self._order = KeyOrder(self._data)
        self._marker: bytes | None = None
        self._open: weakref.WeakSet[_View] | None = weakref.WeakSet()

    def get(self, key: bytes) -> bytes | None:
        """The value, None if absent."""
        if self._open is None:
            self._views()
        return self._data.get(key)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values in the order of `keys`."""
        self._views()
        return list(map(self._data.get, keys))

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """The present pairs with lower <= key < upper."""
        return self._view(lower, upper).iterate(None, None)

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        self._views()
        return not self._data

    def snapshot(self) -> EngineSnapshot:
        """The present contents."""
        return self._view(None, None)

    def _view(self, lower: bytes | None, upper: bytes | None) -> _View:
        views = self._views()
        with self._changing:
            view = _View(self._store, self._data, self._order.between(lower, upper))
        views.add(view)
        return view

    def _views(self) -> weakref.WeakSet[_View]:
        if self._open is None:
            raise StoreClosed(f"store '{self._store}' is closed")
        return self._open

    def write(self, changes: Changes, marker: bytes) -> None:
        """Apply `changes` and replace the marker."""
        copied = any(view.reads(self._data) for view in self._views())
        with self._changing:
            if copied:
                self._data = dict(self._data)
                self._order.rebind(self._data)
            self._data.update((key, value) for key, value in changes.items() if value is not None)
            deleted = [key for key, value in changes.items() if value is None and key in self._data]
            for key in deleted:
                del self._data[key]
            self._order.forget(deleted)
            self._marker = marker

    def read_committed(self, lower: bytes | None, upper: bytes | None, most: int, most_bytes: int) -> CommittedPage:
        """A write that comes meanwhile waits for the page."""
        with self._changing:
            self._views()
            if lower is not None and upper == lower + b"\x00":
                # One key needs no order, which may take a sort of all new keys.
                keys = [lower] if lower in self._data else []
            else:
                keys = self._order.first(lower, upper, most + 1)
            pairs: list[Pair] = []
            room = most_bytes
            for key in keys[:most]:
                if pairs and room <= 0:
                    break
                pairs.append((key, self._data[key]))
                room -= len(key) + len(pairs[-1][1])
            return CommittedPage(pairs, self._marker, len(pairs) < len(keys))

    def marker(self) -> bytes | None:
        """The marker of the last write."""
        self._views()
        return self._marker

    def flush(self) -> None:
        """Do nothing: there is nowhere to flush to."""
        self._views()

    def close(self) -> None:
        """Forget everything."""
        for view in list(self._open or ()):
            view.close()
        self._open = None
        self._data = {}

    def metrics(self) -> dict[str, float]:
        """`entries`."""
        return {"entries": len(self._data)}


class _View(EngineSnapshot):
    """The dict as of the snapshot, with its keys in order; a closed one is empty."""

    __slots__ = ("_data", "_keys", "_store")

    def __init__(self, store: str, data: Mapping[bytes, bytes], keys: list[bytes]) -> None:
        self._store = store
        self._data: Mapping[bytes, bytes] | None = data
        self._keys = keys

    def reads(self, data: Mapping[bytes, bytes]) -> bool:
        return self._data is data

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        self._contents()
        order = self._keys
        start = 0 if lower is None else bisect_left(order, lower)
        stop = len(order) if upper is None else bisect_left(order, upper)
        return _MemoryCursor(self, range(start, stop))

    def _contents(self) -> Mapping[bytes, bytes]:
        if self._data is None:
            raise StoreClosed(f"store '{self._store}': the iterator or snapshot is closed")
        return self._data

    def pairs(self, positions: range) -> Iterator[Pair]:
        for position in positions:
            data = self._contents()
            key = self._keys[position]
            yield key, data[key]

    def close(self) -> None:
        self._data = None
        self._keys = []


class _MemoryCursor:
    __slots__ = ("_positions", "_view")

    def __init__(self, view: _View, positions: range) -> None:
        self._view: _View | None = view
        self._positions = positions

    def __enter__(self) -> Iterator[Pair]:
        if self._view is None:
            raise StoreClosed("the cursor is closed")
        return self._view.pairs(self._positions)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._view = None


class InMemoryStorageEngineFactory(StorageEngineFactory):
    """`stores.NAME.factory = inmemory`: a changelog (if there is one) is read from its beginning at every start."""

    persistent = False

    def open(self, directory: Path | None, settings: EngineSettings) -> StorageEngine:
        """A new, empty engine."""
        return InMemoryStorageEngine(settings.store)
