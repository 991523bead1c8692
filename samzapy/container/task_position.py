"""Where a task stands: in its inputs, and in event time."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.event_clock import EventClock


class TaskPosition:
    """`offsets` holds the next offset to process of each partition. `clock` is the event time since the task has started,
    `kept_time_ms` that of its last life; `idle`: none of its partitions brings anything; `ended`: nor ever will.
    `startpoints`: the ids of those it has followed."""

    __slots__ = ("_replayed", "_serialized", "clock", "ended", "idle", "kept_time_ms", "offsets", "startpoints")

    def __init__(self, offsets: dict[SystemStreamPartition, int]) -> None:
        self.offsets = offsets
        self.clock = EventClock(offsets)
        self.idle = self.ended = False
        self.kept_time_ms: int | None = None
        self.startpoints: Mapping[SystemStreamPartition, str] = {}
        self._replayed: Mapping[SystemStreamPartition, int] = {}
        self._serialized: Mapping[SystemStreamPartition, int] = dict(offsets)

    @property
    def time_ms(self) -> int | None:
        """The task's clock, never before that of its last life; None before it has one."""
        now = self.clock.now
        return self.kept_time_ms if now is None else max(now, self.kept_time_ms or now)

    def committable(self) -> dict[SystemStreamPartition, int]:
        """The offsets to commit: where the task stands, but nothing goes back while it replays."""
        return {ssp: max(offset, self._replayed.get(ssp, offset)) for ssp, offset in self.offsets.items()}

    def note_serialized(self) -> None:
        """What the messages before this position have put is serialized."""
        self._serialized = dict(self.offsets)

    def _unserialized(self, envelope: IncomingMessageEnvelope | None) -> str:
        """Between the last commit and here, the message at hand included: `kafka.in[3]@12 to 17`, offsets inclusive."""
        ends = dict(self.offsets)
        if envelope is not None:
            ends[envelope.ssp] = envelope.offset + 1
        spans = []
        for ssp, end in ends.items():
            first, last = self._serialized.get(ssp, end), end - 1
            if first <= last:
                spans.append(f"{ssp}@{first}" + (f" to {last}" if first < last else ""))
        return "put since the last commit" + (f", at {', '.join(spans)}" if spans else "")

    def replay(self, committed: Mapping[SystemStreamPartition, int]) -> None:
        """The task starts before these offsets, which were committed, for a state of its own."""
        self._replayed = dict(committed)

    def advance_clock(self, last: IncomingMessageEnvelope) -> None:
        """`last` is processed; nothing happens while the position is before it still."""
        if last.event_time >= 0 and self.offsets[last.ssp] > last.offset:
            self.clock.advance(last.ssp, last.event_time)
