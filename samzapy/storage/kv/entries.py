"""The entries of an object cache, and the memory that the caches of a container share.

`Entries` is the class that the caches extend, with the calls of a task that find their key among the entries: the
compiled one if the extension is there, else `PlainEntries`. Of the memory:

    bytes of all caches + uncommitted bytes <= max_bytes      (uncommitted bytes count up to half of it)
    uncommitted bytes <= max_bytes / 2, or the container commits

An entry of a cache counts as FACTOR * (the bytes of its serialized key and value + ENTRY_BYTES): about the memory of a
small document. Numbers, texts and bytes take less than that, deeply nested values up to twice as much.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from samzapy import native

if TYPE_CHECKING:
    from samzapy.storage.kv.cached import CachedStore

#: The bytes of a container without `container.cache.max.bytes`.
DEFAULT_BYTES = 268_435_456
#: Memory per serialized byte, and the serialized bytes that stand for the tables of a cache.
FACTOR, ENTRY_BYTES = 5, 50
#: The parts of the budget that a cache gets and that are freed at once; and the part that a cache gives back at once.
_STEP, _FREED, _GIVEN = 256, 64, 8
#: The parts of the budget that all caches may have got and not use, which is why many of them get less at once, and
#: that uncommitted bytes may take before the container commits.
_UNUSED, _UNCOMMITTED = 4, 2
#: The weight of earlier uses each time that memory is short.
_FADING = 0.875


class CacheBudget:
    """At most `max_bytes` in all caches of one container, with the changes of their stores that are serialized and not
    committed yet.

    1. As long as there is room, each cache grows as its task uses it.
    2. Then the caches give back, first the ones with the most bytes per recent use, an eighth of their bytes at most.
       So a cache that is used more gets more, and an idle one gives back.
    3. For other caches a cache gives back clean entries only: serializing its changes may fail, and that would be the
       failure of another task. The cache that needs room frees the rest itself, changes included.

    The caches of a container are used by one thread.
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self._uncommitted = self._sum = 0
        #: By cache, the bytes that it may hold.
        self._granted: dict[CachedStore[Any, Any], int] = {}
        #: By cache, its uses when they were counted last, and its recent ones.
        self._uses: dict[CachedStore[Any, Any], tuple[int, float]] = {}

    def open(self, cache: CachedStore[Any, Any]) -> None:
        """Count a new cache."""
        self._granted[cache], self._uses[cache] = 0, (0, 0.0)

    def close(self, cache: CachedStore[Any, Any]) -> None:
        """The cache is gone; closing twice is allowed."""
        self._sum -= self._granted.pop(cache, 0)
        self._uses.pop(cache, None)

    def note_uncommitted(self, change: int) -> None:
        """Add to the number of uncommitted bytes; negative for fewer."""
        self._uncommitted += change

    @property
    def used(self) -> int:
        """Bytes that the caches may hold, and uncommitted ones."""
        return self._sum + min(self._uncommitted, self.max_bytes // _UNCOMMITTED)

    @property
    def crowded(self) -> bool:
        """Whether uncommitted bytes take so much of the budget that the container should commit."""
        return self._uncommitted > self.max_bytes // _UNCOMMITTED

    def grant(self, cache: CachedStore[Any, Any]) -> int:
        """Make room for the cache; returns the bytes that it may hold until it asks again."""
        self._note(cache)
        step = max(1, self.max_bytes // max(_STEP, _UNUSED * len(self._uses)))
        if self.used + step > self.max_bytes:
            self._reclaim(cache, self.max_bytes - self.max_bytes // _FREED)
        self._note(cache, max(0, min(step, self.max_bytes - self.used)))
        return self._granted[cache]

    def _note(self, cache: CachedStore[Any, Any], more: int = 0) -> None:
        """Count what a cache holds, and what it may hold more."""
        self._sum += cache.size + more - self._granted[cache]
        self._granted[cache] = cache.size + more

    def _reclaim(self, cache: CachedStore[Any, Any], target: int) -> None:
        for other, (counted, recent) in self._uses.items():
            self._uses[other] = other.uses, _FADING * recent + other.uses - counted
        for _ in range(_GIVEN):
            for other in sorted(self._uses, key=lambda other: other.size / (self._uses[other][1] + 1.0), reverse=True):
                lacking = self.used - target
                if lacking <= 0:
                    return
                free = other.free if other is cache else other.give_back
                free(min(lacking, other.size // _GIVEN + 1))
                self._note(other)
        if self.used > self.max_bytes:
            cache.free(self.used - self.max_bytes)
            self._note(cache)


_NONE = type(None)


class PlainEntries:
    """The entries, and `get` and `put`, in Python.

    `_held` has all entries; `_dirty` the dirty ones, its values are None; `_used` the ones that were used again since
    the hand passed, None until it has moved. Keys of the type `_usual` are entries themselves.
    `_gets` and `_changed` count calls. With more than `_cache_size` entries `_make_room` is called, with `_most_dirty`
    dirty ones `_limit_dirty`.
    """

    __slots__ = ("_cache_size", "_changed", "_dirty", "_gets", "_held", "_most_dirty", "_used", "_usual")

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}
        self._dirty: dict[Any, None] = {}
        self._used: dict[Any, None] | None = None
        self._usual: type | None = None
        self._gets = self._changed = 0
        self._cache_size = self._most_dirty = 1

    def get(self, key: Any) -> Any:
        """The value of `key`, None if it has none."""
        entry = key if type(key) is self._usual else self._entry(key)
        self._gets += 1
        held = self._held
        if entry in held:
            if self._used is not None:
                self._used[entry] = None
            return held[entry]
        return self._load(key, entry)

    def put(self, key: Any, value: Any) -> None:
        """Set `key` to `value`."""
        entry = key if type(key) is self._usual else self._entry(key)
        if value is None or self._usual is None:
            self._check_value(key, value)
        self._changed += 1
        if entry in self._dirty:
            if self._used is not None:
                self._used[entry] = None
            self._held[entry] = value
        else:
            self._change(entry, value)

    def _find(self, entries: list[Any]) -> tuple[list[Any], list[int]]:
        """The values of `entries`, None for one that is not held, and the places of those."""
        held = self._held
        self._gets += len(entries)
        values = list(map(held.get, entries))
        if _NONE not in set(map(type, values)):
            if self._used is not None:
                self._used.update(zip(entries, repeat(None)))
            return values, []
        if self._used is not None:
            self._used.update(zip(filter(held.__contains__, entries), repeat(None)))
        return values, [i for i, value in enumerate(values) if value is None and entries[i] not in held]

    def _set_some(self, entries: list[Any], values: list[Any]) -> None:
        """Hold the `values` of `entries`, which become dirty."""
        held = self._held
        if self._used is not None:
            self._used.update(zip(filter(held.__contains__, entries), repeat(None)))
        held.update(zip(entries, values, strict=True))
        self._dirty.update(zip(entries, repeat(None)))
        self._changed += len(entries)

    @abstractmethod
    def _entry(self, key: Any) -> Hashable:
        """The entry of a key of another type. Raises StoreClosed, StoreRefused."""

    @abstractmethod
    def _check_value(self, key: Any, value: Any) -> None:
        """Raise StoreRefused for None. Also called for each value while there is no usual type."""

    @abstractmethod
    def _load(self, key: Any, entry: Hashable) -> Any:
        """Read and hold the value of an entry that is not held."""

    @abstractmethod
    def _change(self, entry: Hashable, value: Any) -> None:
        """Make an entry dirty that is not."""


if TYPE_CHECKING or native.extension is None:
    Entries = PlainEntries
else:

    class Entries(native.extension.NativeEntries):
        """Compiled; leaves keys of other types than the usual one, and None, to Python."""

        __slots__ = ()

        _get_unusual = PlainEntries.get
        _put_unusual = PlainEntries.put
