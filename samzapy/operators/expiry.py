"""Finds due entries of a store without a scan: an index in the order of their time, its first keys in memory.

Windows and joins use it. A key begins with the time, so the due entries come first.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore

_DIGITS = 16
#: Exclusive bound of the times an index takes, in milliseconds since 1970.
END_OF_TIME_MS = 10**_DIGITS - 1

#: The number of keys read from the store in one go, and of keys in memory before the later half is dropped from it.
READ = 4_096
MOST = 50_000


class Due(NamedTuple):
    """An entry that is due: its time (ms since 1970), its name, and its value."""

    time_ms: int
    name: str
    value: Any


class FirstKeys:
    """The entries of a store with keys `<prefix><digits>...`, taken out of it in the order of their keys.

    1. The first keys from `lower` of the last `take` on are in memory, at most `MOST` of them; the store has the later
       keys and all values. So an entry that comes and goes between two commits is never serialized.
    2. A key in memory that the store does not have was deleted, or its message was undone: it is skipped.
    3. The store counts the calls that took entries (`taken/<prefix>`). If that count differs, a call was undone with
       its message, and the keys are read again.

    Use one object at a time for a prefix: it does not see the entries that another one adds.
    """

    __slots__ = ("_count", "_counter", "_end", "_keys", "_start", "_store", "_until")

    def __init__(self, store: KeyValueStore[str, Any], prefix: str) -> None:
        self._store = store
        self._counter = f"taken/{prefix}"
        self._end = f"{prefix}:"  # the character after the digits
        self._count: int = store.get(self._counter) or 0
        self._start = self._until = prefix
        self._keys: list[str] = []

    def add(self, key: str) -> None:
        """The store has a new entry `key`; one that was there already does no harm."""
        if self._start <= key < self._until:
            keys = self._keys
            keys.append(key)
            if len(keys) > MOST:
                keys.sort()
                self._until = keys[MOST // 2]
                del keys[MOST // 2 :]

    def take(self, lower: str, upper: str, limit: int) -> list[tuple[str, Any]]:
        """Remove and return the first `limit` entries with lower <= key < upper."""
        store = self._store
        count = store.get(self._counter) or 0
        if count != self._count or not self._start <= lower <= self._until:
            self._count, self._start, self._until = count, lower, lower
            self._keys = []
        found: list[tuple[str, Any]] = []
        took = False
        while len(found) < limit:
            keys = self._keys
            keys.sort()
            first = bisect_left(keys, lower)
            due = keys[first : min(bisect_left(keys, upper), first + limit - len(found))]
            if due:
                took = True
                del keys[first : first + len(due)]
                entries = [entry for entry in store.get_all(dict.fromkeys(due)).items() if entry[1] is not None]
                store.delete_all([key for key, _ in entries])
                found += entries
            elif self._until >= upper:
                break
            else:
                self._read_on()
        if took:
            self._count = count + 1
            store.put(self._counter, self._count)
        return found

    def _read_on(self) -> None:
        with self._store.range(self._until, self._end) as entries:
            read = [key for key, _ in islice(entries, READ)]
        self._keys += read
        self._until = read[-1] + "\0" if len(read) == READ else self._end


class ExpiryIndex:
    """Entries by (time, name), under the keys of a store that start with `prefix`.

    The store has string keys, and a value serde that takes the values (json, msgpack). The whole index is in the store,
    so it is committed, restored and undone with it. A new object may replace an old one at any time; do not use the old
    one afterwards. The keys of the first entries are also in memory (see `FirstKeys`).
    """

    __slots__ = ("_first", "_prefix", "_put", "_store")

    def __init__(self, store: KeyValueStore[str, Any], prefix: str = "due/") -> None:
        """Raises StoreError if the store's keys are not in the order of their text."""
        self._store = store
        self._prefix = prefix
        store.prefix(prefix).close()
        self._put = store.put
        self._first = FirstKeys(store, prefix)

    def add(self, time_ms: int, name: str, value: Any = True) -> None:
        """Keep `value` until `time_ms`; it replaces another one of the same time and name.

        Raises ValueError for a time that is not an int, before 1970, or beyond `END_OF_TIME_MS`.
        """
        if type(time_ms) is not int or not 0 <= time_ms < END_OF_TIME_MS:
            raise ValueError(f"time must be an int of 0 to {END_OF_TIME_MS - 1} ms since 1970, got {time_ms!r}")
        key = f"{self._prefix}{time_ms:016d}/{name}"
        self._put(key, value)
        self._first.add(key)

    def key(self, time_ms: int, name: str) -> str:
        """The key of an entry in the store, for a new value."""
        return f"{self._prefix}{time_ms:016d}/{name}"

    def remove(self, time_ms: int, name: str) -> None:
        """Forget an entry; no error if there is none."""
        self._store.delete(f"{self._prefix}{time_ms:016d}/{name}")

    def first(self, count: int) -> list[Due]:
        """The first entries, which stay."""
        with self._store.prefix(self._prefix) as entries:
            return [self._due(key, value) for key, value in islice(entries, count)]

    def take(self, before_ms: int, limit: int, since_ms: int = 0) -> list[Due]:
        """Remove and return entries with since_ms <= time < before_ms, the oldest first, at most `limit` of them.

        If fewer than `limit` come back, no entry before `before_ms` is left; else none before the time of the last one.
        Give that time as the next `since_ms`: deleted keys stay in RocksDB's files for a while, and a scan from the
        beginning, which a new index makes, would walk over all of them.
        """
        lower, upper = (f"{self._prefix}{time_ms:016d}" for time_ms in (since_ms, min(before_ms, END_OF_TIME_MS)))
        if lower >= upper:
            return []
        return [self._due(key, value) for key, value in self._first.take(lower, upper, limit)]

    def _due(self, key: str, value: Any) -> Due:
        start = len(self._prefix)
        middle = start + _DIGITS
        return Due(int(key[start:middle]), key[middle + 1 :], value)
