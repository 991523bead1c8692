"""The first timers of a clock, in memory."""

from __future__ import annotations

from bisect import bisect_left, insort

#: Of a clock that has no timers.
NEVER = 2**63 - 1

Place = tuple[int, bytes]

#: Timers that are read from the store in one go, and how many may be here before the later half is left to the store.
READ = 1_024
_MOST = 4 * READ


class FirstTimers:
    """Every timer up to some place in the order, as (time, key's bytes); the store has those after it.

    Nothing is taken out but what has come first: a timer that was cancelled, moved, or set by a message that was undone is
    here until its turn, when the store says that there is none such. So an undone message needs no telling.
    """

    __slots__ = ("_places", "_until", "due", "times")

    def __init__(self, letter: bytes) -> None:
        """`letter`: the clock's, in the keys of the store."""
        self.times, self.due = b"k" + letter, b"t" + letter
        self._places: list[Place] = []
        self._until: Place | None = (-(2**63), b"")

    @property
    def until(self) -> Place | None:
        """The last place that is covered; None if all are."""
        return self._until

    def earliest(self) -> int:
        """A time before which there is no timer, NEVER if there is none at all. It may be too early."""
        if self._places:
            return self._places[0][0]
        return NEVER if self._until is None else self._until[0]

    def add(self, place: Place) -> None:
        """A timer was set."""
        if self._until is not None and place > self._until:
            return
        places = self._places
        insort(places, place)
        if len(places) > _MOST:
            del places[_MOST // 2 :]
            self._until = places[-1]

    def read(self, places: list[Place]) -> None:
        """The store's next ones, READ of them unless there are no more; nothing is left here when they come."""
        self._places = places
        self._until = self._places[-1] if len(self._places) == READ else None

    def take(self, now_ms: int) -> list[Place]:
        """Take those out that have come by `now_ms`."""
        places = self._places
        count = bisect_left(places, (now_ms + 1, b""))
        taken = places[:count]
        del places[:count]
        return taken

    def put_back(self, places: list[Place]) -> None:
        """The last of those that were taken."""
        self._places[:0] = places

    def reads_on(self, now_ms: int) -> bool:
        """Whether what is due at `now_ms` may be in the store only."""
        return not self._places and self._until is not None and self._until[0] <= now_ms
