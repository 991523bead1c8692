"""Timers by key: what a task wants to be called back for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any


class TimerClock(Enum):
    """Whose time a timer is about."""

    EVENT = "event"
    """The task's event time: the least, over its input partitions, of the latest event time each has brought. Where a
    partition is of an intermediate stream, its watermark takes the place of the times of its messages."""
    WALL = "wall"
    """The time of day."""


class Timers(ABC):
    """A task's timers. One a key and clock; they live in a store of the job (`stores.NAME.factory=timers`) and are
    committed, moved and restored with it.

    A key is whatever MessagePack writes: str, int, bytes, lists and so on; a tuple comes back as a list. Times are
    milliseconds since 1970. Calls take effect at once, also inside `TimerTask.on_timer`; a time that has come already
    fires after the current call. What is not committed when the process dies is as if it had not been called.
    """

    @abstractmethod
    def schedule(self, key: Any, time_ms: int, clock: TimerClock = TimerClock.EVENT) -> None:
        """Fire at `time_ms`, instead of at any earlier or later time that was set for `key` before.

        Raises StoreRefused for a key that MessagePack does not write or a time that is no int of 63 bits.
        """

    @abstractmethod
    def cancel(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> bool:
        """Do not fire; returns whether there was anything to cancel."""

    @abstractmethod
    def time_of(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> int | None:
        """When `key` fires, None if it does not."""
