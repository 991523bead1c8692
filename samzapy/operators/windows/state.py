"""The open windows in a store: the layout of the store, and the interface of each kind of window.

A store of windows has string keys. Every time in a key is milliseconds since 1970 in 14 digits, so that keys are in the
order of time:

    d|<definition>        1       the definition of the windows; a task that wants others is refused
    m|<partition>         time    the newest event time of a partition, `system.stream[3]`
    clock                 time    the event time so far: windows that were over then stay over
    grace                 ms      the grace of the last run, see `EventTime`
    w|<end>|<key>         fold    a tumbling or hopping window, if it is not kept in panes
    k|<key>               ...     the sessions, the panes, or the recent values of a key
    x|<due>|<key>         0       the time to look at `k|<key>`; at most one a key
    taken/w| taken/x|     count   of the times that something was taken out, see `FirstKeys`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore
from samzapy.operators.expiry import FirstKeys
from samzapy.operators.folds import Aggregation

Store = KeyValueStore[str, Any]
#: The argument of `WindowState.read`; its parts have no other use.
Handle = tuple[Any, ...]

#: Later than the end of any window: closing up to here closes all.
ALL_MS = 10**14 - 2

_end_and_key = itemgetter(2, 0)


class Window(NamedTuple):
    """One window of one key: `start` inclusive and `end` exclusive, and the accumulated value."""

    key: str
    start: int
    end: int
    accumulated: Any


class Closed(NamedTuple):
    """The windows that one call has closed, by end and key, and whether it stopped at its limit."""

    windows: list[Window]
    more: bool


class WindowState(ABC):
    """The open windows of one kind, all of them in the store.

    `opened` counts the windows since this object was constructed. `touched` gathers the handles of changed windows; it
    is None if no early results or updates are sent.
    """

    #: Added to the definition that a store remembers: its entries are laid out in another way than that of other
    #: windows with the same lengths.
    layout = ""

    def __init__(self, store: Store, aggregation: Aggregation, grace_ms: int) -> None:
        self.store = store
        self.aggregation = aggregation
        self.grace_ms = grace_ms
        self.opened = 0
        self.touched: set[Handle] | None = None

    @abstractmethod
    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        """Fold a value into its windows. A window that was over at `horizon` (end + grace <= horizon) takes nothing
        more. Returns whether any window took the value."""

    @abstractmethod
    def add_all(
        self, keys: Sequence[str], values: Sequence[Any], times: Sequence[int], horizons: Sequence[int]
    ) -> list[int]:
        """Like `add` of each in order, with one get and one put for each entry of the store. Returns the places of the
        values that no window took, in order."""

    @abstractmethod
    def close(self, bound: int, limit: int) -> Closed:
        """Remove windows with end <= `bound`, in the order of their ends, of at most `limit` entries of the store."""

    @abstractmethod
    def read(self, handle: Handle) -> Window | None:
        """The present state of a touched window, None if it is closed or has become part of another."""


class WindowDefinition(ABC):
    """A kind of windows with its lengths."""

    #: The milliseconds of event time after its end in which a window takes late values.
    grace_ms: int

    @property
    @abstractmethod
    def name(self) -> str:
        """The definition that a store remembers. It leaves out the grace, which may be changed."""

    @abstractmethod
    def state(self, store: Store, aggregation: Aggregation) -> WindowState:
        """The windows of this kind in `store`. Raises ValueError for an aggregation they cannot use."""


def definition_of(windows: WindowDefinition, aggregation: Aggregation) -> str:
    """The definition that a store remembers, without the layout."""
    return f"{windows.name}, {aggregation.name}"


def known_definitions(store: Store) -> list[str]:
    """The definitions that a store remembers: one, none in a new store."""
    with store.range("d|", "d}") as entries:
        return [entry[2:] for entry, _ in entries]


def places_by_key(keys: Sequence[str]) -> dict[str, list[int]]:
    """The places of each key, in order."""
    found: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        if key in found:
            found[key].append(place)
        else:
            found[key] = [place]
    return found


class TimeOrdered:
    """The entries `<prefix>|<time>|<key>` of a store, taken out of it in the order of time (see `FirstKeys`).

    It is not an `ExpiryIndex`, which has times of 16 digits.
    """

    def __init__(self, store: Store, prefix: str) -> None:
        self._first = f"{prefix}|"
        self._keys = FirstKeys(store, self._first)
        #: To be called with the whole key of each new entry.
        self.added = self._keys.add

    def take(self, bound: int, limit: int) -> list[tuple[int, str, Any]]:
        """Remove the first `limit` entries with a time <= `bound`; returns (time, key, value) of each."""
        found = self._keys.take(self._first, f"{self._first}{bound + 1:014d}", limit)
        return [(int(entry[2:16]), entry[17:], value) for entry, value in found]


class DueIndex:
    """The times to look at the entries `k|<key>`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries = TimeOrdered(store, "x")

    def add(self, due: int, key: str) -> None:
        """Look at `key` when windows that end at `due` are closed."""
        entry = f"x|{due:014d}|{key}"
        self._store.put(entry, 0)
        self._entries.added(entry)

    def add_all(self, entries: Sequence[tuple[int, str]]) -> None:
        """Like `add` of each (due, key)."""
        names = [f"x|{due:014d}|{key}" for due, key in entries]
        self._store.put_all(dict.fromkeys(names, 0))
        for name in names:
            self._entries.added(name)

    def move(self, key: str, before: int, due: int) -> None:
        """Look at `key` at `due` and no more at `before`."""
        self._store.delete(f"x|{before:014d}|{key}")
        self.add(due, key)

    def take(self, bound: int, limit: int) -> list[str]:
        """Remove and return the keys that are due at `bound`, at most `limit` of them."""
        return [key for _, key, _ in self._entries.take(bound, limit)]


class KeyedState(WindowState):
    """Windows in one entry a key, `k|<key>`: a list that begins with `due`, the key's time in the index."""

    def __init__(self, store: Store, aggregation: Aggregation, grace_ms: int) -> None:
        super().__init__(store, aggregation, grace_ms)
        self._due = DueIndex(store)
        self._get, self._put = store.get, store.put

    @abstractmethod
    def _closed(self, key: str, held: list[Any], bound: int) -> tuple[list[Window], list[Any] | None]:
        """The windows of an entry with end <= `bound`, and the entry without them; None if nothing is left."""

    def close(self, bound: int, limit: int) -> Closed:
        keys = self._due.take(bound, limit)
        found = self.store.get_all([f"k|{key}" for key in keys])
        windows: list[Window] = []
        gone: list[str] = []
        kept: dict[str, list[Any]] = {}
        waiting: list[tuple[int, str]] = []
        for key in keys:
            entry = f"k|{key}"
            held = found[entry]
            closed, left = ([], None) if held is None else self._closed(key, held, bound)
            windows += closed
            if left is None:
                gone.append(entry)
            else:
                waiting.append((left[0], key))
                kept[entry] = left
        self.store.delete_all(gone)
        self.store.put_all(kept)
        self._due.add_all(waiting)
        windows.sort(key=_end_and_key)
        return Closed(windows, len(keys) == limit)
