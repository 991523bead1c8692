"""The timers that a task sets, and the order they fire in.

time    k <clock> <key>          when a key fires
due     t <clock> <time> <key>   the same in order of time: 8 bytes, big-endian, 2^63 added

A key is MessagePack's bytes, a clock one letter.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import msgpack

from samzapy.api.kv import KeyValueStore
from samzapy.api.timers import TimerClock, Timers
from samzapy.errors import StoreRefused

_LETTER = {TimerClock.EVENT: b"e", TimerClock.WALL: b"w"}
_SMALLEST, _LARGEST = -(2**63), 2**63 - 2
#: Of a clock that has no timers.
NEVER = 2**63 - 1


class Timer(NamedTuple):
    """One that is set."""

    time_ms: int
    key: Any


class TimerStore(Timers):
    """Timers over a key-value store: a set one is two entries, so setting it costs two or three puts.

    All it knows besides is, for each clock, a time before which nothing fires. Setting lowers that, looking for what is
    due finds it again; a message that is undone, or a timer that is cancelled, leaves it too early, which costs a look.
    """

    __slots__ = ("_earliest", "_name", "_pack", "_store", "interrupt", "interrupt_until")

    def __init__(self, store: KeyValueStore[bytes, Any], name: str) -> None:
        self._store = store
        self._name = name
        self._pack = msgpack.Packer(use_bin_type=True).pack
        #: Called when an event timer is set for a time up to `interrupt_until`; both are the run loop's.
        self.interrupt: Callable[[], object] = _nobody
        self.interrupt_until: float = -inf
        self._earliest = dict.fromkeys(TimerClock, _SMALLEST)
        for clock in TimerClock:
            self.due(clock, _SMALLEST)

    def schedule(self, key: Any, time_ms: int, clock: TimerClock = TimerClock.EVENT) -> None:
        packed = self._packed(key)
        if type(time_ms) is not int or not _SMALLEST <= time_ms <= _LARGEST:
            raise StoreRefused(f"store '{self._name}': a timer's time is an int of 63 bits, got {time_ms!r:.100}")
        place = b"k" + _LETTER[clock] + packed
        before = self._store.get(place)
        if before == time_ms:
            return
        if before is not None:
            self._store.delete(_due(clock, before) + packed)
        self._store.put(place, time_ms)
        self._store.put(_due(clock, time_ms) + packed, True)
        self._earliest[clock] = min(self._earliest[clock], time_ms)
        if clock is TimerClock.EVENT and time_ms <= self.interrupt_until:
            self.interrupt()

    def cancel(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> bool:
        packed = self._packed(key)
        place = b"k" + _LETTER[clock] + packed
        before = self._store.get(place)
        if before is None:
            return False
        self._store.delete(place)
        self._store.delete(_due(clock, before) + packed)
        return True

    def time_of(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> int | None:
        found: int | None = self._store.get(b"k" + _LETTER[clock] + self._packed(key))
        return found

    def first(self, clock: TimerClock, most: int) -> list[Timer]:
        """The first timers of a clock, in order of time, those of one time in order of their keys' bytes."""
        return self._from(_SMALLEST, clock, most)

    def earliest(self, clock: TimerClock) -> int:
        """A time before which none of the clock's timers fires, NEVER if it has none. It may be too early."""
        return self._earliest[clock]

    def due(self, clock: TimerClock, now_ms: int, most: int = 1) -> list[Timer]:
        """Those of the first timers that are due at `now_ms`. For who runs the task, between messages: what a message
        has set or moved may still be undone before that, and then `earliest` would be too late."""
        # From the earliest on: what has fired before lies below it, as tombstones that a scan would have to pass.
        found = self._from(self._earliest[clock], clock, most)
        self._earliest[clock] = found[0].time_ms if found else NEVER
        return [timer for timer in found if timer.time_ms <= now_ms]

    def _from(self, time_ms: int, clock: TimerClock, most: int) -> list[Timer]:
        with self._store.range(_due(clock, time_ms), b"t" + _LETTER[clock] + b"\xff" * 9) as entries:
            return [_timer(place) for place, _ in islice(entries, most)]

    def _packed(self, key: Any) -> bytes:
        try:
            packed: bytes = self._pack(key)
        except Exception as cause:
            raise StoreRefused(f"store '{self._name}': MessagePack does not write the key {key!r:.100}") from cause
        return packed


def _nobody() -> None:
    """Nobody runs the task."""


def _due(clock: TimerClock, time_ms: int) -> bytes:
    return b"t" + _LETTER[clock] + (time_ms - _SMALLEST).to_bytes(8, "big")


def _timer(place: bytes) -> Timer:
    return Timer(int.from_bytes(place[2:10], "big") + _SMALLEST, msgpack.unpackb(place[10:], raw=False))
