"""The engine that keeps everything in this process."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from samzapy.api.engine import Changes, CommittedEntries, Cursor, EngineSettings, StorageEngine, StorageEngineFactory
from samzapy.errors import StoreClosed, StoreError
from samzapy.storage.kv.uncommitted import KeyOrder, Pair


class InMemoryStorageEngine(StorageEngine):
    """A dict and its sorted keys. Cursors and snapshots share the dict; a write copies it first while one is open.

    Other threads take snapshots under a lock that writes and scans take, once each; gets do not.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._changing = threading.Lock()
        self._data: dict[bytes, bytes] = {}
        self._order = KeyOrder(self._data)
        self._marker: bytes | None = None
        self._open: weakref.WeakSet[_View] | None = weakref.WeakSet()

    def get(self, key: bytes) -> bytes | None:
        if self._open is None:
            self._views()
        return self._data.get(key)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._views()
        return list(map(self._data.get, keys))

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        return self.snapshot().iterate(lower, upper)

    def snapshot(self) -> _View:
        with self._changing:
            views = self._views()
            view = _View(self._store, self._data, self._marker, self._keys_of)
            views.add(view)
        return view

    def _keys_of(self, data: Mapping[bytes, bytes], lower: bytes | None, upper: bytes | None) -> list[bytes]:
        with self._changing:
            if data is self._data:
                return self._order.between(lower, upper)
        keys = sorted(data)
        stop = len(keys) if upper is None else bisect_left(keys, upper)
        return keys[0 if lower is None else bisect_left(keys, lower) : stop]

    def _views(self) -> weakref.WeakSet[_View]:
        if self._open is None:
            raise StoreClosed(f"store '{self._store}' is closed")
        return self._open

    def write(self, changes: Changes, marker: bytes) -> None:
        with self._changing:
            if any(view.reads(self._data) for view in self._views()):
                self._data = dict(self._data)
                self._order.rebind(self._data)
            self._data.update((key, value) for key, value in changes.items() if value is not None)
            deleted = [key for key, value in changes.items() if value is None and key in self._data]
            for key in deleted:
                del self._data[key]
            self._order.forget(deleted)
            self._marker = marker

    def marker(self) -> bytes | None:
        self._views()
        return self._marker

    def flush(self, *, wait: bool = True) -> bool:
        self._views()
        return True

    def close(self) -> None:
        for view in list(self._open or ()):
            view.close()
        self._open = None
        self._data = {}

    def metrics(self) -> dict[str, float]:
        """`entries`."""
        return {"entries": len(self._data)}


#: The keys of a dict in a range, in order.
_KeysOf = Callable[[Mapping[bytes, bytes], "bytes | None", "bytes | None"], list[bytes]]


class _View(CommittedEntries):
    """The dict as of the snapshot; a closed one raises StoreClosed."""

    __slots__ = ("_data", "_keys_of", "_marker", "_store")

    def __init__(self, store: str, data: Mapping[bytes, bytes], marker: bytes | None, keys_of: _KeysOf) -> None:
        self._store = store
        self._data: Mapping[bytes, bytes] | None = data
        self._marker = marker
        self._keys_of = keys_of

    def reads(self, data: Mapping[bytes, bytes]) -> bool:
        return self._data is data

    def get(self, key: bytes) -> bytes | None:
        return self.contents().get(key)

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        return _cursor(self, self._keys_of(self.contents(), lower, upper))

    def marker(self) -> bytes | None:
        return self._marker

    def contents(self) -> Mapping[bytes, bytes]:
        if self._data is None:
            raise StoreClosed(f"store '{self._store}': the iterator or snapshot is closed")
        return self._data

    def close(self) -> None:
        self._data = None


@contextmanager
def _cursor(view: _View, keys: list[bytes]) -> Iterator[Iterator[Pair]]:
    """The pairs of a view with these keys; it keeps the view alive."""
    yield ((key, view.contents()[key]) for key in keys)


class InMemoryStorageEngineFactory(StorageEngineFactory):
    """`stores.NAME.factory = inmemory`: a changelog (if there is one) is read from its beginning at every start."""

    def open(self, directory: Path | None, settings: EngineSettings, *, read_only: bool = False) -> StorageEngine:
        """A new, empty engine."""
        if read_only:
            raise StoreError(f"store '{settings.store}': its engine cannot be read from outside of its job")
        return InMemoryStorageEngine(settings.store)
