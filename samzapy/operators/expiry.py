"""What is due when, in a store: entries in the order of their time, found by one bounded scan.

The key-value form of the "expiry index" that windows, joins and timers need: the time is at the front of the key, so that
what is due is one range, and its cost does not depend on how much waits.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore

_DIGITS = 16
#: Exclusive bound of the times an index takes, in milliseconds since 1970.
END_OF_TIME_MS = 10**_DIGITS - 1


class Due(NamedTuple):
    """An entry that is due: its time (ms since 1970), its name, and what was kept with it."""

    time_ms: int
    name: str
    value: Any


def take_first(store: KeyValueStore[str, Any], lower: str, upper: str, limit: int) -> list[tuple[str, Any]]:
    """Remove and return the first `limit` entries with lower <= key < upper; one scan, of no more than these."""
    with store.range(lower, upper) as entries:
        found = list(islice(entries, limit))
    if found:
        store.delete_all([key for key, _ in found])
    return found


class ExpiryIndex:
    """Entries by (time, name), in the part of a store whose keys start with `prefix`.

    The store has string keys, and values that take what is kept here (json, msgpack). Everything is in the store, so an
    index is committed, restored and undone with it, and may be made anew at any time.
    """

    __slots__ = ("_prefix", "_store")

    def __init__(self, store: KeyValueStore[str, Any], prefix: str = "due/") -> None:
        """Raises StoreError if the store's keys are not in the order of their text."""
        self._store = store
        self._prefix = prefix
        store.prefix(prefix).close()

    def add(self, time_ms: int, name: str, value: Any = True) -> None:
        """Keep `value` until `time_ms`; another one of the same time and name is replaced.

        Raises ValueError for a time before 1970 or beyond `END_OF_TIME_MS`.
        """
        if not 0 <= time_ms < END_OF_TIME_MS:
            raise ValueError(f"time must be 0 to {END_OF_TIME_MS - 1} ms since 1970, got {time_ms}")
        self._store.put(f"{self._prefix}{time_ms:016d}/{name}", value)

    def remove(self, time_ms: int, name: str) -> None:
        """Forget an entry; no error if there is none."""
        self._store.delete(f"{self._prefix}{time_ms:016d}/{name}")

    def take(self, before_ms: int, limit: int, since_ms: int = 0) -> list[Due]:
        """Remove and return entries with since_ms <= time < before_ms, the oldest first, at most `limit` of them.

        Nothing is left before `before_ms` if fewer than `limit` come back, else nothing before the last one's time.
        Give that as the next `since_ms`: deleted keys stay in RocksDB's files for a while, and a scan from the beginning
        would walk over all of them.
        """
        lower, upper = (f"{self._prefix}{time_ms:016d}" for time_ms in (since_ms, min(before_ms, END_OF_TIME_MS)))
        if lower >= upper:
            return []
        found = take_first(self._store, lower, upper, limit)
        start = len(self._prefix)
        return [Due(int(key[start : start + _DIGITS]), key[start + _DIGITS + 1 :], value) for key, value in found]
