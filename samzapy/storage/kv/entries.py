"""The entries of an object cache, and the calls of a task that find their key among them.

`Entries` is the class that the caches extend: the compiled one if the extension is there, else `PlainEntries`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from samzapy import native

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
