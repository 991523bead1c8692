"""The open windows in a store: the layout of the store, and the interface of each kind of window.

A store of windows has string keys. Every time in a key is milliseconds since 1970 in 14 digits, so that keys are in the
order of time:

    d|<definition>        1       the definition of the windows; a task that needs others is refused
    m|<partition>         time    the newest event time of a partition, `system.stream[3]`
    clock                 time    the event time so far: windows that were over then stay over
    grace                 ms      the grace of the last run, see `EventTime`
    w|<end>|<key>         fold    a tumbling or hopping window, if it is not kept in panes
    k|<key>               ...     the sessions, the panes, or the recent values of a key
    x|<due>|<key>         0       when to look at `k|<key>`; at most one per key
    taken/w| taken/x|     count   of the times that something was taken out, see `ExpiryIndex`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore
from samzapy.operators.expiry import ExpiryIndex
from samzapy.operators.folds import Aggregation, grouped

Store = KeyValueStore[str, Any]
#: The argument of `WindowState.read`; its parts have no other use.
Handle = tuple[Any, ...]
#: Columns of a batch of values: keys, values, times, horizons.
Columns = tuple[Sequence[str], Sequence[Any], Sequence[int], Sequence[int]]

#: The digits of a time in a key.
DIGITS = 14
#: Later than the end of any window: closing up to here closes all.
ALL_MS = 10**DIGITS - 2

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

    `touched` gathers the handles of changed windows; it is None if no early results or updates are sent.
    """

    #: Added to the definition that a store remembers: its entries are laid out in another way than that of other
    #: windows with the same lengths.
    layout = ""
    #: Whether the values of the store are lists.
    keeps_lists = False

    def __init__(self, store: Store, aggregation: Aggregation, grace_ms: int) -> None:
        self.store = store
        self.aggregation = aggregation
        self.grace_ms = grace_ms
        self.touched: set[Handle] | None = None

    @abstractmethod
    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        """Fold a value into its windows. A window that was over at `horizon` (end + grace <= horizon) takes nothing
        more. Returns whether any window took the value."""

    @abstractmethod
    def add_all(self, columns: Columns) -> list[int]:
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


class KeyedState(WindowState):
    """Windows in one entry per key, `k|<key>`: a list that begins with `due`, the key's time in the index. Entries are
    never changed in place: the undo of a failed message restores the old one."""

    keeps_lists = True

    def __init__(self, store: Store, aggregation: Aggregation, grace_ms: int) -> None:
        super().__init__(store, aggregation, grace_ms)
        self._due = ExpiryIndex(store, "x|", DIGITS)
        self._get, self._put = store.get, store.put

    @abstractmethod
    def _folded(
        self, key: str, held: list[Any] | None, places: Sequence[int], columns: Columns, late: list[int]
    ) -> list[Any] | None:
        """The entry of a key with the values at some places of a batch, `held` itself if all were late; the index
        follows. Adds the places of late values to `late`."""

    @abstractmethod
    def _closed(self, key: str, held: list[Any], bound: int) -> tuple[list[Window], list[Any] | None]:
        """The windows of an entry with end <= `bound`, and the entry without them; None if nothing is left."""

    def add_all(self, columns: Columns) -> list[int]:
        by_key = grouped(zip(columns[0], range(len(columns[0])), strict=True))
        entries = self.store.get_all(["k|" + key for key in by_key])
        late: list[int] = []
        changed: dict[str, list[Any]] = {}
        for (key, places), (entry, held) in zip(by_key.items(), entries.items(), strict=True):
            after = self._folded(key, held, places, columns, late)
            if after is not None and after is not held:
                changed[entry] = after
        self.store.put_all(changed)
        return sorted(late)

    def close(self, bound: int, limit: int) -> Closed:
        keys = [key for _, key, _ in self._due.take(bound + 1, limit)]
        entries = self.store.get_all([f"k|{key}" for key in keys])
        windows: list[Window] = []
        gone: list[str] = []
        kept: dict[str, list[Any]] = {}
        waiting: list[tuple[int, str]] = []
        for key in keys:
            entry = f"k|{key}"
            held = entries[entry]
            closed, left = ([], None) if held is None else self._closed(key, held, bound)
            windows += closed
            if left is None:
                gone.append(entry)
            else:
                waiting.append((left[0], key))
                kept[entry] = left
        self.store.delete_all(gone)
        self.store.put_all(kept)
        self._due.add_all(waiting, 0)
        windows.sort(key=_end_and_key)
        return Closed(windows, len(keys) == limit)

    def _set_due(self, key: str, held: list[Any] | None, due: int) -> int:
        """Look at `key` at `due`, or when `held` is due if that is earlier; returns that time."""
        if held is not None:
            if held[0] <= due:
                earlier: int = held[0]
                return earlier
            self._due.remove(held[0], key)
        self._due.add(due, key, 0)
        return due
