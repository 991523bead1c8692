"""Finds due entries of a store without a scan: an index in the order of their time, its first keys in memory.

Windows and joins use it. A key begins with the time, so the due entries come first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore

#: The number of keys read from the store in one go, and of keys in memory before the later half is dropped from it.
READ = 4_096
MOST = 50_000


class Due(NamedTuple):
    """An entry that is due: its time (ms since 1970), its name, and its value."""

    time_ms: int
    name: str
    value: Any


# Without the Python frame of the constructor.
due_of: Callable[[tuple[int, str, Any]], Due] = partial(tuple.__new__, Due)


class ExpiryIndex:
    """Entries by (time, name) under the keys `<prefix><time><separator><name>` of a store, taken in the order of keys.

    1. The whole index is in the store, so it is committed, restored and undone with it.
    2. The first keys from `lower` of the last `take` on are in memory too, at most `MOST` of them; the store has the
       later keys and all values. So an entry that comes and goes between two commits is never serialized.
    3. A key in memory that the store does not have was deleted, or its message was undone: it is skipped.
    4. The store counts the calls that took entries (`taken/<prefix>`). If that count differs, a call was undone with
       its message, and the keys are read again.

    Use one object at a time for a prefix: it does not see the entries that another one adds. A new object may replace
    an old one at any time.
    """

    __slots__ = ("_count", "_counter", "_digits", "_end", "_keys", "_prefix", "_start", "_store", "_until", "end_ms")

    def __init__(self, store: KeyValueStore[str, Any], prefix: str = "due/", digits: int = 16) -> None:
        """`prefix`: its last character is the separator. `digits`: of a time; `end_ms` is the exclusive bound. Raises
        StoreError if the store's keys are not in the order of their text."""
        store.prefix(prefix).close()
        self._store = store
        self._prefix = prefix
        self._digits = digits
        self.end_ms = 10**digits - 1
        self._counter = f"taken/{prefix}"
        self._end = f"{prefix}:"  # the character after the digits
        self._count: int = store.get(self._counter) or 0
        self._start = self._until = prefix
        self._keys: list[str] = []

    def key(self, time_ms: int, name: str) -> str:
        """The key of an entry in the store."""
        return f"{self._prefix}{time_ms:0{self._digits}d}{self._prefix[-1]}{name}"

    def add(self, time_ms: int, name: str, value: Any = True) -> None:
        """Keep `value` until `time_ms`; it replaces another one of the same time and name."""
        key = self.key(time_ms, name)
        self._store.put(key, value)
        self.added(key)

    def add_all(self, entries: Iterable[tuple[int, str]], value: Any) -> None:
        """Like `add` of each (time, name), with the same value."""
        keys = [self.key(time_ms, name) for time_ms, name in entries]
        self._store.put_all(dict.fromkeys(keys, value))
        for key in keys:
            self.added(key)

    def added(self, key: str) -> None:
        """The store has a new entry `key`; one that was there already does no harm."""
        if self._start <= key < self._until:
            keys = self._keys
            keys.append(key)
            if len(keys) > MOST:
                keys.sort()
                self._until = keys[MOST // 2]
                del keys[MOST // 2 :]

    def remove(self, time_ms: int, name: str) -> None:
        """Forget an entry; no error if there is none."""
        self._store.delete(self.key(time_ms, name))

    def take(self, before_ms: int, limit: int, since_ms: int = 0) -> list[Due]:
        """Remove and return entries with since_ms <= time < before_ms, the oldest first, at most `limit` of them.

        If fewer than `limit` come back, no entry before `before_ms` is left; else none before the time of the last one.
        Give that time as the next `since_ms`: deleted keys stay in RocksDB's files for a while, and a scan from the
        beginning, which a new index makes, would walk over all of them.
        """
        start, digits = len(self._prefix), self._digits
        lower, upper = (f"{self._prefix}{time_ms:0{digits}d}" for time_ms in (since_ms, min(before_ms, self.end_ms)))
        middle = start + digits
        entries = self._take(lower, upper, limit)
        return [due_of((int(key[start:middle]), key[middle + 1 :], value)) for key, value in entries]

    def _take(self, lower: str, upper: str, limit: int) -> list[tuple[str, Any]]:
        """Remove and return the first `limit` entries with lower <= key < upper."""
        if lower >= upper:
            return []
        store = self._store
        count = store.get(self._counter) or 0
        if count != self._count or not self._start <= lower <= self._until:
            self._count, self._start, self._until = count, lower, lower
            self._keys = []
        entries: list[tuple[str, Any]] = []
        took = False
        while len(entries) < limit:
            keys = self._keys
            keys.sort()
            first = bisect_left(keys, lower)
            due = keys[first : min(bisect_left(keys, upper), first + limit - len(entries))]
            if due:
                took = True
                del keys[first : first + len(due)]
                present = [entry for entry in store.get_all(dict.fromkeys(due)).items() if entry[1] is not None]
                store.delete_all([key for key, _ in present])
                entries += present
            elif self._until >= upper:
                break
            else:
                self._read_on()
        if took:
            self._count = count + 1
            store.put(self._counter, self._count)
        return entries

    def _read_on(self) -> None:
        with self._store.range(self._until, self._end) as entries:
            read = [key for key, _ in islice(entries, READ)]
        self._keys += read
        self._until = read[-1] + "\0" if len(read) == READ else self._end
