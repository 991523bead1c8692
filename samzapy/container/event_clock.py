"""A task's clock in event time: the minimum, over its input partitions, of the latest event time each has brought.

Gearpump's rule. The clock never goes back, and is None until every partition that counts has brought a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.watermarks import Watermarks

_event_time = attrgetter("event_time")


class EventClock:
    """One task's. Costs one look at the messages' times a batch, not a call a message.

    A partition that has ended, or is idle, does not hold the clock back; `marks` is what a restart needs to know.
    """

    __slots__ = ("_marks", "ssps")

    def __init__(
        self, ssps: Iterable[SystemStreamPartition], marks: Mapping[SystemStreamPartition, int] | None = None
    ) -> None:
        """`marks`: those of an earlier life."""
        self.ssps = frozenset(ssps)
        self._marks = Watermarks(self.ssps, marks)

    @property
    def now(self) -> int | None:
        """Milliseconds since 1970; None while some partition has brought none."""
        return self._marks.current

    @property
    def marks(self) -> Mapping[SystemStreamPartition, int]:
        """The latest event time of each partition that has brought one."""
        return self._marks.marks

    @property
    def holding(self) -> SystemStreamPartition | None:
        """The partition that holds the clock back."""
        return self._marks.holding

    def passed(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> bool:
        """Messages of one partition are processed; returns whether the clock has moved. Messages without a time, and
        none at all, move nothing."""
        latest = max(map(_event_time, envelopes), default=-1)
        return latest >= 0 and self._marks.advance(ssp, latest)

    def reach(self, ssp: SystemStreamPartition) -> float:
        """How far the clock can come by this partition alone: -inf if another one has brought no time yet."""
        return self._marks.reach(ssp)

    def advance(self, ssp: SystemStreamPartition, time_ms: int) -> bool:
        """A partition has come to that time; returns whether the clock has moved."""
        return self._marks.advance(ssp, time_ms)

    def set_aside(self, ssp: SystemStreamPartition) -> bool:
        """A partition has ended or is idle, and does not count until it brings something; whether the clock has moved."""
        return self._marks.set_aside(ssp)
