"""Bytes in memory: the changes of a store since its last commit, and the engine that keeps all in this process."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from samzapy.api.engine import Changes, CommittedEntries, Cursor, EngineSettings, StorageEngine, StorageEngineFactory
from samzapy.errors import RecordTooLarge, StoreClosed, StoreError
from samzapy.storage.kv.entries import CacheBudget

Pair = tuple[bytes, bytes]

Change = tuple[bytes, "bytes | None"]

#: The key under which an engine may keep its marker among the entries, so no store takes it.
RESERVED = b"\x00samzapy\x00marker"

#: The most new keys that are inserted one by one; more are appended and sorted (one run merged into another).
_FEW = 8
#: Bytes of memory that an entry takes besides its key and value: the heads of both objects, and its place in
#: the dictionary.
_ENTRY_BYTES = 150
#: Not None, which is a deletion; bytes by type, so that `get` needs no cast.
_UNCHANGED: bytes | None = bytes(bytearray(b"unchanged"))


class KeyOrder:
    """Sorted keys of `data`, a dict that its owner changes, brought up to date only when they are read.

    A dict keeps the order of insertion, so the keys that are new since the last read are its last ones, and writers
    have no cost. They report deletions (`forget`).
    """

    def __init__(self, data: dict[bytes, Any]) -> None:
        self._data = data
        self._sorted: list[bytes] = []
        self._forgotten: set[bytes] = set()

    def rebind(self, data: dict[bytes, Any]) -> None:
        """Go on with a copy of the dict, made in the same order."""
        self._data = data

    def forget(self, keys: Iterable[bytes]) -> None:
        """These keys were deleted (and may have been inserted again since)."""
        self._forgotten.update(keys)

    def between(self, lower: bytes | None, upper: bytes | None) -> list[bytes]:
        """The keys with lower <= key < upper, in order, in a new list."""
        keys = self._fresh()
        start = 0 if lower is None else bisect_left(keys, lower)
        stop = len(keys) if upper is None else bisect_left(keys, upper)
        return keys[start:stop]

    def _fresh(self) -> list[bytes]:
        if self._forgotten:
            forgotten = self._forgotten
            self._sorted = [key for key in self._sorted if key not in forgotten]
            self._forgotten = set()
        keys = self._sorted
        new = len(self._data) - len(keys)
        if new > _FEW:
            keys.extend(islice(reversed(self._data), new))
            keys.sort()
        elif new:
            for key in islice(reversed(self._data), new):
                insort(keys, key)
        return keys


def _merged(overlay: Sequence[Change], below: Iterator[Pair]) -> Iterator[Pair]:
    """`below` with `overlay` on top: a change replaces the pair of its key, None hides it.

    Both are sorted by key, and each holds a key at most once.
    """
    pair = next(below, None)
    for key, value in overlay:
        while pair is not None and pair[0] < key:
            yield pair
            pair = next(below, None)
        if pair is not None and pair[0] == key:
            pair = next(below, None)
        if value is not None:
            yield key, value
    if pair is not None:
        yield pair
        yield from below


class UncommittedStore:
    """One task's changes to one store, one entry per key, over an engine with the committed entries.

    A read of the engine that fails is remembered, since the task may catch the error and go on without the value: no
    commit comes after it (`check`).

    `max_bytes` is the budget of `over_budget`: serialized keys and values, without Python's overhead.
    `max_record_bytes` is the largest record (key and value) of the changelog, None for no limit; the changelog does not
    get `overhead` bytes of each value. Called with batches, unless a store has no cache.
    """

    def __init__(
        self,
        name: str,
        engine: StorageEngine,
        max_bytes: int = 67_108_864,
        max_record_bytes: int | None = None,
        overhead: int = 0,
        budget: CacheBudget | None = None,
    ) -> None:
        self._name = name
        self._budget = budget or CacheBudget()
        # The bytes of memory that the budget knows of.
        self._noted = 0
        self._engine = engine
        self._max_bytes = max_bytes
        self._overhead = overhead - RecordTooLarge.BATCH_BYTES
        self._max_record_bytes = None if max_record_bytes is None else max_record_bytes + self._overhead
        #: The changes that a commit sends and writes, None meaning a deletion. Other classes only read them.
        self.changes: dict[bytes, bytes | None] = {}
        self._order = KeyOrder(self.changes)
        self._bytes = 0
        #: Set by a cache if its changes since the last commit include deletions.
        self.deletes = False
        self._failed: StoreError | None = None

    def put(self, key: bytes, value: bytes) -> None:
        """Set one key. Raises RecordTooLarge."""
        size = len(key) + len(value)
        limit = self._max_record_bytes
        if limit is not None and size > limit:
            self._refuse_larger_than(limit, [key], [value])
        self._bytes += size
        self.changes[key] = value

    def put_all(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set keys to values, None meaning a deletion. Raises RecordTooLarge, and then accepts none of them."""
        if not keys:
            return
        size = sum(map(len, keys)) + sum(map(len, filter(None, values)))
        limit = self._max_record_bytes
        # If all of them together fit, each fits; also if the longest key and the longest value fit together.
        if limit is not None and size > limit and max(map(len, keys)) + _longest(values) > limit:
            self._refuse_larger_than(limit, keys, values)
        self._bytes += size
        self.changes.update(zip(keys, values, strict=True))
        self._note()

    def _refuse_larger_than(self, limit: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        for key, value in zip(keys, values, strict=True):
            if (size := len(key) + len(value or b"")) > limit:
                where = f"store '{self._name}': key {key[:64]!r}"
                alone = size - self._overhead - RecordTooLarge.BATCH_BYTES
                raise RecordTooLarge(where, alone, limit - self._overhead)

    def get(self, key: bytes) -> bytes | None:
        """The value including uncommitted changes, None if there is none."""
        value = self.changes.get(key, _UNCHANGED)
        if value is not _UNCHANGED:
            return value
        try:
            return self._engine.get(key)
        except BaseException as failure:
            self.note_failed(failure)
            raise

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values in the order of `keys`. One call of the engine reads the unchanged ones."""
        changes = self.changes
        if not changes:
            return self._read(keys)
        absent = [key for key in keys if key not in changes]
        if not absent:
            return [changes[key] for key in keys]
        below = self._read(absent)
        if len(absent) == len(keys):
            return below
        result = dict(zip(absent, below, strict=True))
        return [changes[key] if key in changes else result[key] for key in keys]

    def _read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return self._engine.get_all(keys)
        except BaseException as failure:
            self.note_failed(failure)
            raise

    def note_failed(self, failure: BaseException) -> None:
        """A read of committed entries has failed, here or in a cursor."""
        if isinstance(failure, StoreError) and not isinstance(failure, StoreClosed):
            self._failed = failure

    def check(self) -> None:
        """Raise StoreError for the reserved key, before the changelog has it; and the class of error of a read that has
        failed, since that decides what happens next."""
        if RESERVED in self.changes:
            raise StoreError(f"store '{self._name}': key {RESERVED!r} is reserved: leave it out, or put another one")
        if self._failed is not None:
            raise type(self._failed)(
                f"store '{self._name}': a read failed and the task went on, so nothing can be committed: {self._failed}"
            ) from self._failed

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """The present pairs with lower <= key < upper; later changes and commits do not show."""
        try:
            return _merged_cursor(self._slice(lower, upper), self._engine.iterate(lower, upper))
        except BaseException as failure:
            self.note_failed(failure)
            raise

    def snapshot(self, lower: bytes | None, upper: bytes | None) -> tuple[Callable[[], Cursor], Callable[[], None]]:
        """The present contents of the range: a function for a new cursor over them, and one that releases the engine's
        snapshot."""
        overlay, below = self._slice(lower, upper), self._engine.snapshot()
        return lambda: _merged_cursor(overlay, below.iterate(lower, upper)), below.close

    def _slice(self, lower: bytes | None, upper: bytes | None) -> list[Change]:
        changes = self.changes
        return [(key, changes[key]) for key in self._order.between(lower, upper)]

    def over_budget(self) -> bool:
        """Whether the task should commit, because its changes exceed their limit, or the container's take too much of
        its memory."""
        self._note()
        if not (self._bytes > self._max_bytes or self._budget.crowded):
            return False
        # A rewritten key was counted again each time: count exactly before saying so.
        values = filter(None, self.changes.values())
        self._bytes = sum(map(len, self.changes)) + sum(map(len, values))
        self._note()
        return self._bytes > self._max_bytes or self._budget.crowded

    def clear(self) -> None:
        """Forget the changes: they are committed, or thrown away."""
        self.changes = {}
        self._order = KeyOrder(self.changes)
        self._bytes = 0
        self.deletes = False
        self._note()

    def _note(self) -> None:
        memory = self._bytes + _ENTRY_BYTES * len(self.changes)
        if memory != self._noted:
            self._budget.note_uncommitted(memory - self._noted)
            self._noted = memory

    def metrics(self) -> dict[str, float]:
        """`uncommitted-entries`, and `uncommitted-bytes` (at most: rewritten keys may be counted more than once)."""
        return {"uncommitted-entries": len(self.changes), "uncommitted-bytes": self._bytes}


def _longest(values: Sequence[bytes | None]) -> int:
    return max(map(len, filter(None, values)), default=0)


@contextmanager
def _merged_cursor(overlay: Sequence[Change], below: Cursor) -> Iterator[Iterator[Pair]]:
    with below as pairs:
        yield _merged(overlay, pairs) if overlay else pairs


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
