"""Stores a task's timers by key, and in the order of their times.

time    k <clock> <key>          the time of a key's timer
due     t <clock> <time> <key>   when to look at the key, in order: 8 bytes, big-endian, 2^63 added

1. A key is encoded by MessagePack, and a clock is one letter. A timer has a due entry for its time or an earlier one.
2. A timer that moves to a later time keeps its due entry until it fires. When the entry comes due, the new time is only
   noted in memory. So a timer that each message moves, such as a time-out, costs one put a message.
3. When the due entry of a cancelled timer, or of one that fires earlier, comes due, it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush, nsmallest
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import msgpack

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.event_time import TimerClock, Timers
from samzapy.api.kv import KeyValueStore
from samzapy.errors import StoreRefused
from samzapy.storage.views import check_lengths

_SMALLEST, _LARGEST = -(2**63), 2**63 - 2

#: The time of the first timer of a clock without timers.
NEVER = 2**63 - 1

#: The time to look at a timer, its key's bytes, and the time of its due entry, which may be earlier.
Place = tuple[int, bytes, int]
Key = tuple[int, bytes]

#: The number of timers read from the store in one go, and of timers in memory before the later half is dropped from it.
READ = 1_024
_MOST = 4 * READ


class FirstTimers:
    """The first timers in memory; the store has the later ones.

    Only the first one is taken out. An entry that the store no longer has, or that comes from an undone message, stays
    in memory until it is the first; then the time of its key decides. So the undo of a message needs no call.
    """

    def __init__(self, letter: bytes) -> None:
        """`letter` stands for the clock in the keys of the store."""
        self.times, self.due = b"k" + letter, b"t" + letter
        self._heap: list[Place] = []
        #: The last entry in memory; None if all are.
        self.until: Key | None = (-(2**63), b"")
        #: The greatest time of a timer that came due: timers for later times still have their due entries.
        self.passed_ms: float = -inf

    def earliest(self) -> int:
        """A time before which there is no timer, NEVER if there is none at all. It may be too early."""
        if self._heap:
            return self._heap[0][0]
        return NEVER if self.until is None else self.until[0]

    @property
    def overfull(self) -> bool:
        """Whether `cut` is due."""
        return len(self._heap) > _MOST

    def add(self, place: Place) -> bool:
        """Add a place; returns False if it is behind the places in memory, so that only the store has it."""
        if self.until is not None and place[:2] > self.until:
            return False
        heappush(self._heap, place)
        return True

    def cut(self) -> list[Place]:
        """Drop the later half; returns the dropped ones that have no due entry for their time."""
        heap = sorted(set(self._heap))
        kept = _MOST // 2
        # The places of one time and key stay together, since entries are read from the store after `until` only.
        while kept < len(heap) and heap[kept][:2] == heap[kept - 1][:2]:
            kept += 1
        self._heap, dropped = heap[:kept], heap[kept:]
        self.until = self._heap[-1][:2]
        return [place for place in dropped if place[0] != place[2]]

    def read(self, places: list[Place]) -> None:
        """Take the store's next entries, READ of them unless there are no more; called when memory has none."""
        self._heap = places
        self.until = places[-1][:2] if len(places) == READ else None

    def take(self, now_ms: int) -> Place | None:
        """Take out the first place if it is due at `now_ms`."""
        heap = self._heap
        return heappop(heap) if heap and heap[0][0] <= now_ms else None

    def reads_on(self, now_ms: int) -> bool:
        """Whether timers that are due at `now_ms` may be in the store only."""
        return not self._heap and self.until is not None and self.until[0] <= now_ms


class Timer(NamedTuple):
    """A timer that is set."""

    time_ms: int
    key: Any

    def __str__(self) -> str:
        """The name of the timer in failures of its call."""
        return f"on_timer of {self.key!r:.100}"


class TimerStore(Timers):
    """Timers over a key-value store. The first ones are in memory as well, so that one range read serves many that
    fire."""

    def __init__(self, store: KeyValueStore[bytes, Any], name: str) -> None:
        self._store, self._name = store, name
        self._pack = msgpack.Packer(use_bin_type=True).pack
        #: Called when an event timer is set for a time up to `interrupt_until`; both are the run loop's.
        self.interrupt: Callable[[], object] = lambda: None
        self.interrupt_until: float = -inf
        #: The store for `fire`, `first_due` and `tidy`; the run loop has one without a journal.
        self.between_messages = store
        self._event, self._wall = FirstTimers(b"e"), FirstTimers(b"w")
        for first in (self._event, self._wall):
            self._read_on(first)

    def schedule(self, key: Any, time_ms: int, clock: TimerClock = TimerClock.EVENT) -> None:
        packed = self._packed(key)
        if type(time_ms) is not int or not _SMALLEST <= time_ms <= _LARGEST:
            raise self._no_time(time_ms)
        first, store = self._event if clock is TimerClock.EVENT else self._wall, self._store
        place = first.times + packed
        before = store.get(place)
        if before == time_ms:
            return
        store.put(place, time_ms)
        # Its due entry may have been taken out already by the call that fires it.
        if before is None or time_ms < before or before <= first.passed_ms:
            if before is not None:
                store.delete(first.due + _bytes(before) + packed)
            store.put(first.due + _bytes(time_ms) + packed, True)
            first.add((time_ms, packed, time_ms))
        if clock is TimerClock.EVENT and time_ms <= self.interrupt_until:
            self.interrupt()

    def schedule_all(self, keys: Sequence[Any], times_ms: Sequence[int], clock: TimerClock = TimerClock.EVENT) -> None:
        check_lengths(keys, times_ms)
        for time_ms in times_ms:
            if type(time_ms) is not int or not _SMALLEST <= time_ms <= _LARGEST:
                raise self._no_time(time_ms)
        first, store = self._of(clock), self._store
        times, due = first.times, first.due
        wanted = dict(zip([times + self._packed(key) for key in keys], times_ms, strict=True))
        puts: dict[bytes, Any] = {}
        gone: list[bytes] = []
        places: list[Place] = []
        for place, before in store.get_all(wanted).items():
            time_ms = wanted[place]
            if before == time_ms:
                continue
            puts[place] = time_ms
            if before is None or time_ms < before or before <= first.passed_ms:
                packed = place[2:]
                if before is not None:
                    gone.append(due + _bytes(before) + packed)
                puts[due + _bytes(time_ms) + packed] = True
                places.append((time_ms, packed, time_ms))
        if gone:
            store.delete_all(gone)
        store.put_all(puts)
        for added in places:
            first.add(added)
        if clock is TimerClock.EVENT and places and min(places)[0] <= self.interrupt_until:
            self.interrupt()

    def cancel(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> bool:
        first, packed = self._of(clock), self._packed(key)
        place = first.times + packed
        before = self._store.get(place)
        if before is None:
            return False
        self._store.delete(place)
        self._store.delete(first.due + _bytes(before) + packed)
        return True

    def time_of(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> int | None:
        result: int | None = self._store.get(self._of(clock).times + self._packed(key))
        return result

    def first(self, clock: TimerClock, most: int) -> list[Timer]:
        """The first timers of a clock in order of time, then of the keys' bytes. Reads all timers."""
        times = self._of(clock).times
        with self._store.prefix(times) as entries:
            return list(map(_timer, nsmallest(most, ((time_ms, key[2:]) for key, time_ms in entries))))

    def earliest(self, clock: TimerClock) -> int:
        """A time before which none of the clock's timers fires, NEVER if it has none. It may be too early."""
        return (self._event if clock is TimerClock.EVENT else self._wall).earliest()

    def first_due(self, clock: TimerClock, through_ms: int) -> int:
        """Like `earliest`, but exact up to `through_ms`: skips the due entries of moved and cancelled timers. Called as
        `fire`."""
        first = self._of(clock)
        if first.earliest() <= through_ms and (places := self._due(first, through_ms, 1)):
            first.add(places[0])
        return first.earliest()

    def fire(self, clock: TimerClock, now_ms: int, most: int) -> Iterator[Timer]:
        """Take the first timers that are due at `now_ms` out of the store, in order, each right before it is yielded.
        Skips timers that are cancelled or set again meanwhile; ends early where one is set for an earlier time.

        Called by the run loop between messages, when changes of a message can no longer be undone.
        """
        first, store = self._of(clock), self.between_messages
        if due := self._due(first, now_ms, most):
            first.passed_ms = max(first.passed_ms, due[-1][0])
        for number, place in enumerate(due):
            if first.earliest() < place[0]:
                # The call of a timer set one for an earlier time than the rest: that one fires first.
                for later in due[number:]:
                    self._move(first, later, later[0])
                return
            times = first.times + place[1]
            if store.get(times) == place[0]:
                store.delete(times)
                store.delete(_entry(first, place))
                yield _timer(place)
            else:
                self._move(first, place, store.get(times))

    def tidy(self) -> None:
        """Limit the number of timers in memory. Called as `fire`."""
        for first in (self._event, self._wall):
            if first.overfull:
                for place in first.cut():
                    self._move(first, place, self.between_messages.get(first.times + place[1]))

    def _due(self, first: FirstTimers, now_ms: int, most: int) -> list[Place]:
        """Take out the first places whose timers fire at their times, in order; moves or drops earlier ones.

        A timer that was set again for an earlier time has two places. If both come due together, they become one.
        """
        get, times = self.between_messages.get, first.times
        result: dict[bytes, Place] = {}
        moved: Place | None = None
        while len(result) < most:
            place = first.take(now_ms)
            if place is None:
                if not first.reads_on(now_ms):
                    break
                self._read_on(first)
                continue
            time_ms, packed, entry_ms = place
            other = result.get(packed)
            # A place that has just moved is enough for another one of the same timer and time, if it has an entry.
            if moved is not None and moved[:2] == place[:2] and (moved == place or self._has_entry(first, moved)):
                other = moved
            if other is not None:
                if other[2] != entry_ms and self._has_entry(first, place):
                    self.between_messages.delete(_entry(first, place))
            elif (fires_ms := get(times + packed)) != time_ms:
                moved = place if self._move(first, place, fires_ms) else moved
            elif time_ms == entry_ms or self._has_entry(first, place):
                result[packed] = place
        return list(result.values())

    def _move(self, first: FirstTimers, place: Place, time_ms: int | None) -> bool:
        """Move a place to `time_ms`, when its timer fires (None: never); returns False if the place is dropped.

        A place has no entry if its message was undone, or if another place with the same entry has fired. It may still
        move in memory. Most places move many times before they fire, so the look for the entry waits until then.
        """
        _, packed, entry_ms = place
        if time_ms is not None and time_ms >= entry_ms:
            if first.add((time_ms, packed, entry_ms)) or time_ms == entry_ms:
                return True
            if self._has_entry(first, place):
                self.between_messages.delete(_entry(first, place))
                self.between_messages.put(first.due + _bytes(time_ms) + packed, True)
                return True
        elif self._has_entry(first, place):
            self.between_messages.delete(_entry(first, place))
        return False

    def _has_entry(self, first: FirstTimers, place: Place) -> bool:
        return self.between_messages.get(_entry(first, place)) is not None

    def _of(self, clock: TimerClock) -> FirstTimers:
        return self._event if clock is TimerClock.EVENT else self._wall

    def _read_on(self, first: FirstTimers) -> None:
        if first.until is not None:
            # Start there: below it are the tombstones of fired timers, which a scan would have to pass.
            time_ms, packed = first.until
            start = first.due + _bytes(time_ms) + packed
            first.read(self._places(first, start + b"\0" if packed else start, READ))

    def _places(self, first: FirstTimers, start: bytes, most: int) -> list[Place]:
        with self._store.range(start, first.due + b"\xff" * 9) as entries:
            result = [(int.from_bytes(key[2:10], "big") + _SMALLEST, key[10:]) for key, _ in islice(entries, most)]
        return [(time_ms, packed, time_ms) for time_ms, packed in result]

    def _no_time(self, time_ms: object) -> StoreRefused:
        return StoreRefused(f"store '{self._name}': expected a timer's time as an int of 63 bits, got {time_ms!r:.100}")

    def _packed(self, key: Any) -> bytes:
        try:
            packed: bytes = self._pack(key)
        except Exception as cause:
            raise StoreRefused(f"store '{self._name}': MessagePack cannot encode the key {key!r:.100}") from cause
        return packed


def _entry(first: FirstTimers, place: Place) -> bytes:
    return first.due + _bytes(place[2]) + place[1]


def _bytes(time_ms: int) -> bytes:
    return (time_ms - _SMALLEST).to_bytes(8, "big")


def _timer(place: Sequence[Any]) -> Timer:
    return Timer(place[0], msgpack.unpackb(place[1], raw=False, strict_map_key=False))


class TimersFactory(StoreViewFactory):
    """Makes a TimerStore."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> TimerStore:
        return TimerStore(store, settings.store)
