"""Chooses the next accepted message to start, and keeps the position up to which a partition is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from math import inf

from samzapy.container.asynchronous.message import Work


class WaitingMessages:
    """Messages in the order of acceptance. With `key_order` a message waits until the previous one of its key is done;
    messages without a key wait for none."""

    __slots__ = ("_accepted", "_behind", "_key_order", "_released", "_repetitions")

    def __init__(self, *, key_order: bool) -> None:
        self._key_order = key_order
        self._accepted: deque[Work] = deque()
        self._behind: dict[Hashable, deque[Work]] = {}
        self._released: deque[Work] = deque()
        self._repetitions: list[tuple[float, Work]] = []

    def __len__(self) -> int:
        return len(self._accepted)

    @property
    def overtaken(self) -> bool:
        """Whether a later message has started before one that waits, for its key or for its repetition."""
        return bool(self._repetitions or self._released or any(self._behind.values()))

    @property
    def ready(self) -> bool:
        """Whether a message waits only for its turn: neither for a time nor for another message of its key."""
        return bool(self._accepted or self._released)

    def accept(self, work: Work) -> None:
        """A message was polled."""
        if self._key_order and work.envelope.key is not None and work.undecodable is None:
            work.key = _hashable(work.envelope.key)
        self._accepted.append(work)

    def enter(self, work: Work) -> bool:
        """Take a message that decodes only now, and so gets its key only now; returns whether it may start. If a
        message of its key has overtaken it, it waits for that message, ahead of later ones of the key."""
        if not self._key_order or work.envelope.key is None:
            return True
        work.key = _hashable(work.envelope.key)
        behind = self._behind.get(work.key)
        if behind is None:
            self._behind[work.key] = deque()
            return True
        # Offsets of other partitions say nothing about the order.
        ssp, offset = work.envelope.ssp, work.envelope.offset
        later = (at for at, each in enumerate(behind) if each.envelope.ssp == ssp and each.envelope.offset > offset)
        behind.insert(next(later, len(behind)), work)
        return False

    def repeat(self, work: Work, at: float) -> None:
        """Repeat a message at that time."""
        self._repetitions.append((at, work))

    @property
    def repeating(self) -> int:
        """The number of messages that wait for their repetition."""
        return len(self._repetitions)

    @property
    def repeats_at(self) -> float:
        """The time of the first repetition; infinity for none."""
        return min((at for at, _ in self._repetitions), default=inf)

    def due(self, now: float) -> Work | None:
        """A message that is due for its repetition, None if there is none."""
        for index, (at, work) in enumerate(self._repetitions):
            if now >= at:
                del self._repetitions[index]
                return work
        return None

    def released(self) -> Work | None:
        """The next message with a key that has become free, None if there is none."""
        return self._released.popleft() if self._released else None

    def next(self) -> Work | None:
        """The next message that may start, None if none may."""
        work = self.released()
        while work is None and self._accepted:
            work = self._accepted.popleft()
            if work.key is not None and work.key in self._behind:
                self._behind[work.key].append(work)
                work = None
            elif work.key is not None:
                self._behind[work.key] = deque()
        return work

    def done(self, work: Work) -> None:
        """A started message will not be repeated: the next one of its key may start."""
        if work.key is None:
            return
        behind = self._behind[work.key]
        if behind:
            self._released.append(behind.popleft())
        else:
            del self._behind[work.key]


def _hashable(key: object) -> Hashable:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


class ContiguousPrefix:
    """Offsets are taken in order and completed in any; `position` is the next offset after the longest run, from the
    start, of offsets that are complete. It only grows."""

    __slots__ = ("_complete", "_taken", "position")

    def __init__(self, position: int) -> None:
        self._taken: deque[int] = deque()
        self._complete: set[int] = set()
        self.position = position

    @property
    def gapped(self) -> bool:
        """Whether an offset after the position is complete."""
        return bool(self._complete)

    def take(self, offset: int) -> None:
        """Take `offset` as the next one; offsets between it and the previous one do not exist."""
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
