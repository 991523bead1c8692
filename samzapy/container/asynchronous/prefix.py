"""How far a partition is done when its messages end in any order."""

from __future__ import annotations

from collections import deque


class ContiguousPrefix:
    """Offsets are taken in order and completed in any; `position` is the next offset after the longest run, from the
    start, of offsets that are complete. It only grows."""

    __slots__ = ("_complete", "_taken", "position")

    def __init__(self, position: int) -> None:
        self._taken: deque[int] = deque()
        self._complete: set[int] = set()
        self.position = position

    def take(self, offset: int) -> None:
        """`offset` comes next; what lies between it and the one before does not exist."""
        self._taken.append(offset)

    def complete(self, offset: int) -> int:
        """A taken offset is done; returns the position."""
        taken, complete = self._taken, self._complete
        complete.add(offset)
        while taken and taken[0] in complete:
            done = taken.popleft()
            complete.remove(done)
            self.position = done + 1
        return self.position
