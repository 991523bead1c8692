"""What the kinds of windows have in common: how they stand in a store, and what is asked of them.

A store of windows has string keys; every time in one is milliseconds since 1970 in 14 digits, so that keys stand in the
order of time:

    d|<definition>        1       what the windows are; a task that wants others is refused
    m|<partition>         time    the newest event time of a partition, `system.stream[3]`
    clock                 time    up to where event time has come: windows that were over then stay over
    w|<end>|<key>         fold    a tumbling or hopping window
    k|<key>               ...     the sessions, or the recent values, of a key
    x|<due>|<key>         0       when `k|<key>` is to be looked at; at most one a key
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore
from samzapy.operators.expiry import take_first
from samzapy.operators.windows.aggregations import Aggregation

Store = KeyValueStore[str, Any]
#: What `WindowState.read` finds a window by; None of its parts means anything elsewhere.
Handle = tuple[Any, ...]

#: Later than the end of any window: closing up to here closes all.
ALL_MS = 10**14 - 2


class Window(NamedTuple):
    """One window of one key: `start` inclusive and `end` exclusive, and what its fold has gathered."""

    key: str
    start: int
    end: int
    gathered: Any


class Closed(NamedTuple):
    """What one closing found: windows by end and key, and whether it stopped at its limit."""

    windows: list[Window]
    more: bool


class WindowState(ABC):
    """The open windows of one kind, all of them in the store.

    `opened` counts windows since it was made. `touched` gathers the handles of changed windows, or is None if nobody
    wants to know.
    """

    def __init__(self, store: Store, aggregation: Aggregation, grace_ms: int) -> None:
        self.store = store
        self.aggregation = aggregation
        self.grace_ms = grace_ms
        self.opened = 0
        self.touched: set[Handle] | None = None

    @abstractmethod
    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        """Fold a value into its windows. What was over at `horizon` (end + grace <= horizon) takes nothing more;
        returns whether any window took it."""

    @abstractmethod
    def close(self, bound: int, limit: int) -> Closed:
        """Remove windows with end <= `bound`, those that end first before others: one range of the store, of at most
        `limit` entries."""

    @abstractmethod
    def read(self, handle: Handle) -> Window | None:
        """A touched window as it is now, None if it is closed or has become part of another."""


class WindowDefinition(ABC):
    """A kind of windows with its lengths."""

    #: How long after its end, in event time, a window takes late values: milliseconds.
    grace_ms: int

    @property
    @abstractmethod
    def name(self) -> str:
        """What a store remembers the windows as. The grace is no part of it: it may be changed."""

    @abstractmethod
    def state(self, store: Store, aggregation: Aggregation) -> WindowState:
        """The windows of this kind in `store`. Raises ValueError for an aggregation they cannot use."""


class TimeOrdered:
    """The entries `<prefix>|<time>|<key>` of a store, taken out of it in the order of time.

    Not an `ExpiryIndex`, which may be made anew at any time and begins at a time: one stretch of time ends windows of all
    keys, so that a scan has to begin at the key where the last one stopped.
    """

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._first = self._from = f"{prefix}|"

    def take(self, bound: int, limit: int) -> list[tuple[int, str, Any]]:
        """Remove the first `limit` entries with a time <= `bound`; returns (time, key, value) of each."""
        found = take_first(self._store, self._from, f"{self._first}{bound + 1:014d}", limit)
        if found:
            # Nothing is entered at or before a time that is over: begin past what the deletions leave behind.
            self._from = found[-1][0]
        if bound == ALL_MS and len(found) < limit:
            self._from = self._first  # the end of a bounded run is no such time
        return [(int(entry[2:16]), entry[17:], value) for entry, value in found]


class DueIndex:
    """When the entries `k|<key>` have to be looked at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries = TimeOrdered(store, "x")

    def add(self, due: int, key: str) -> None:
        """Look at `key` when windows that end at `due` are closed."""
        self._store.put(f"x|{due:014d}|{key}", 0)

    def move(self, key: str, before: int, due: int) -> None:
        """Look at `key` at `due` and no more at `before`."""
        self._store.delete(f"x|{before:014d}|{key}")
        self.add(due, key)

    def take(self, bound: int, limit: int) -> list[str]:
        """Remove what is due at `bound`, `limit` keys at most."""
        return [key for _, key, _ in self._entries.take(bound, limit)]
