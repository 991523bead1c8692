"""Finds due entries in a store by one bounded scan: an index in the order of their time.

Windows and joins need it. The time is at the front of the key, so the due entries are one range, and the cost of finding
them does not depend on the number of waiting entries.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore

_DIGITS = 16
#: Exclusive bound of the times an index takes, in milliseconds since 1970.
END_OF_TIME_MS = 10**_DIGITS - 1


class Due(NamedTuple):
    """An entry that is due: its time (ms since 1970), its name, and its value."""

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
    """Entries by (time, name), under the keys of a store that start with `prefix`.

    The store has string keys, and a value serde that takes the values (json, msgpack). Everything is in the store, so
    an index is committed, restored and undone with it, and may be constructed anew at any time.
    """

    __slots__ = ("_prefix", "_store")

    def __init__(self, store: KeyValueStore[str, Any], prefix: str = "due/") -> None:
        """Raises StoreError if the store's keys are not in the order of their text."""
        self._store = store
        self._prefix = prefix
        store.prefix(prefix).close()

    def add(self, time_ms: int, name: str, value: Any = True) -> None:
        """Keep `value` until `time_ms`; it replaces another one of the same time and name.

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

        If fewer than `limit` come back, no entry before `before_ms` is left; else none before the time of the last one.
        Give that time as the next `since_ms`: deleted keys stay in RocksDB's files for a while, and a scan from the
        beginning would walk over all of them.
        """
        lower, upper = (f"{self._prefix}{time_ms:016d}" for time_ms in (since_ms, min(before_ms, END_OF_TIME_MS)))
        if lower >= upper:
            return []
        found = take_first(self._store, lower, upper, limit)
        start = len(self._prefix)
        return [Due(int(key[start : start + _DIGITS]), key[start + _DIGITS + 1 :], value) for key, value in found]
