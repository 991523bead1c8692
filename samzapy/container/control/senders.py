"""What the senders of one partition of an intermediate stream say together."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.checkpoint import SenderState
from samzapy.api.collector import Drain, EndOfStream, Watermark
from samzapy.container.control.record import SentControl
from samzapy.watermarks import Watermarks


class Senders:
    """The last word of each sender, and the least of their watermarks.

    How many there are, every message says; until that many have been heard of, those that are missing hold the watermark
    back, unless they are idle. When a job comes back with another number of tasks, what its tasks said before is void.
    """

    def __init__(self, known: Mapping[str, SenderState], now: float) -> None:
        """`known` as it was kept; `now` in seconds of a clock that never jumps."""
        self.known = dict(known)
        self._heard = dict.fromkeys(known, now)
        self._began = now
        self._idle: set[str] = set()
        self._missing_idle = False
        self.watermark: int | None = None
        self._marks: Watermarks[str] = Watermarks(())
        self._rebuild()

    @property
    def ended(self) -> bool:
        """Whether all senders have ended, or are drained."""
        return self._missing() == 0 and bool(self.known) and all(s.ended or s.drained for s in self.known.values())

    @property
    def drained(self) -> bool:
        """Whether all have ended, and one of them by being drained."""
        return self.ended and any(state.drained for state in self.known.values())

    def take(self, control: SentControl, now: float) -> None:
        """A sender has said something: a watermark is also a sign of life of one that had ended."""
        sender, senders, message = control
        job = _job(sender)
        before = self.known.get(sender)
        time_ms = before.time_ms if before is not None and before.senders == senders else None
        if isinstance(message, Watermark):
            time_ms = message.time_ms if time_ms is None else max(time_ms, message.time_ms)
        self._heard[sender] = now
        self._idle.discard(sender)
        state = SenderState(time_ms, senders, isinstance(message, EndOfStream), isinstance(message, Drain))
        void = [each for each, kept in self.known.items() if _job(each) == job and kept.senders != senders]
        for each in void:
            del self.known[each]
        self.known[sender] = state
        if isinstance(message, Watermark) and before is not None and not (before.ended or before.drained or void):
            self._marks.advance(sender, message.time_ms)
            self._follow()
        else:
            self._rebuild()

    def begin_anew(self) -> None:
        """Messages have come after the end: whoever had ended has not."""
        self.known = {name: state._replace(ended=False, drained=False) for name, state in self.known.items()}
        self._rebuild()

    def look_for_idle(self, now: float, idle_s: float) -> None:
        """Senders that were not heard of for that long hold nothing back."""
        idle = {sender for sender in self.known if now - self._heard[sender] > idle_s} - self._idle
        missing_idle = now - self._began > idle_s
        if idle or missing_idle != self._missing_idle:
            self._idle |= idle
            self._missing_idle = missing_idle
            self._rebuild()

    def _missing(self) -> int:
        expected = {_job(sender): state.senders for sender, state in self.known.items()}
        return max(0, sum(expected.values()) - len(self.known))

    def _rebuild(self) -> None:
        # At least one: nobody has said yet how many there are.
        missing = [] if self._missing_idle else [f"?{n}" for n in range(self._missing() if self.known else 1)]
        marks = {sender: state.time_ms for sender, state in self.known.items() if state.time_ms is not None}
        self._marks = Watermarks([*self.known, *missing], marks)
        for sender, state in self.known.items():
            if state.ended or state.drained or sender in self._idle:
                self._marks.set_aside(sender)
        self._follow()

    def _follow(self) -> None:
        found = self._marks.current
        if found is not None:
            self.watermark = found if self.watermark is None else max(self.watermark, found)


def _job(sender: str) -> str:
    return sender.partition("/")[0]
