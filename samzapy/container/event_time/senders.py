"""Combines the watermarks and ends of the senders of one partition of an intermediate stream."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.checkpoint import SenderState
from samzapy.api.collector import Drain, EndOfStream, Watermark
from samzapy.container.event_time.control_messages import SentControl
from samzapy.watermarks import IdleRule, Watermarks

#: Stands for all senders that others have announced and that have sent nothing yet.
_MISSING = "?"


class Senders:
    """The last control message of each sender, and the least of their watermarks.

    1. Every control message has the number of senders of its job. Until that many senders have sent one, the missing
       ones hold the watermark back. Before the first control message at least one is missing.
    2. A sender that is idle, has ended or is drained holds nothing back. The missing ones together count as one source
       of the idle rule.
    3. When a job comes back with another number of tasks, the earlier messages of its tasks are void.
    4. When no sender counts, the watermark is the highest there was. It never goes back.
    """

    def __init__(self, known: Mapping[str, SenderState], now: float, idle_s: float = 0.0) -> None:
        """`known`: as the checkpoint kept it. `now` is monotonic; `idle_s` <= 0: no sender is ever idle."""
        self.known = dict(known)
        self._rule = IdleRule([*known, _MISSING], now, idle_s)
        self.watermark: int | None = None
        self._marks: Watermarks[str] = Watermarks(())
        self._rebuild()

    @property
    def ended(self) -> bool:
        """Whether all senders have ended, or are drained."""
        return self._missing() == 0 and bool(self.known) and all(s.ended or s.drained for s in self.known.values())

    @property
    def drained(self) -> bool:
        """Whether all have ended, at least one of them by a drain."""
        return self.ended and any(state.drained for state in self.known.values())

    @property
    def idle(self) -> bool:
        """Whether some sender has not ended, and all such senders are idle."""
        return self._marks.holding is None and not self.ended

    @property
    def holding(self) -> str | None:
        """The sender that holds the watermark back, for people; None if no sender counts."""
        name = self._marks.holding
        return "not heard yet" if name is not None and name.startswith(_MISSING) else name

    @property
    def silent(self) -> list[str]:
        """The senders that are idle or have ended."""
        return [name for name, state in self.known.items() if self._is_silent(name, state)]

    def take(self, control: SentControl, now: float) -> None:
        """Take the next control message. A watermark revives a sender that had ended."""
        sender, senders, message = control
        job = _job(sender)
        before = self.known.get(sender)
        time_ms = before.time_ms if before is not None and before.senders == senders else None
        if isinstance(message, Watermark):
            time_ms = message.time_ms if time_ms is None else max(time_ms, message.time_ms)
        self._rule.heard(sender, now)
        state = SenderState(time_ms, senders, isinstance(message, EndOfStream), isinstance(message, Drain))
        void = [each for each, kept in self.known.items() if _job(each) == job and kept.senders != senders]
        for each in void:
            del self.known[each]
            if each != sender:
                self._rule.forget(each)
        self.known[sender] = state
        counted = before is not None and not (before.ended or before.drained or void)
        if isinstance(message, Watermark) and counted:
            self._marks.advance(sender, message.time_ms)
            self._follow()
        else:
            self._rebuild()

    def begin_anew(self) -> None:
        """Count no sender as ended, because messages have come after the end."""
        self.known = {name: state._replace(ended=False, drained=False) for name, state in self.known.items()}
        self._rebuild()

    def all_heard(self, now: float) -> None:
        """Restart the silence of all senders, since control messages of any of them may wait. An idle sender stays idle
        until its message is taken."""
        self._rule.put_off(now)

    def check_idle(self, now: float) -> bool:
        """Find senders that have fallen silent; returns whether it found new ones."""
        found = self._rule.look(now)
        if found:
            self._rebuild()
        return found

    def _is_silent(self, name: str, state: SenderState) -> bool:
        return state.ended or state.drained or name in self._rule.idle

    def _missing(self) -> int:
        expected = {_job(sender): state.senders for sender, state in self.known.items()}
        return max(0, sum(expected.values()) - len(self.known))

    def _rebuild(self) -> None:
        missing = self._missing() if self.known else 1
        names = [] if _MISSING in self._rule.idle else [f"{_MISSING}{n}" for n in range(missing)]
        marks = {sender: state.time_ms for sender, state in self.known.items() if state.time_ms is not None}
        self._marks = Watermarks([*self.known, *names], marks)
        for sender, state in self.known.items():
            if self._is_silent(sender, state):
                self._marks.set_aside(sender)
        self._follow()

    def _follow(self) -> None:
        found = self._marks.current
        if found is not None:
            self.watermark = found if self.watermark is None else max(self.watermark, found)


def _job(sender: str) -> str:
    return sender.partition("/")[0]
