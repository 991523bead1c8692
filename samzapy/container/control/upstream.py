"""What the tasks before a task tell it: watermarks, ends, drains, over all of its intermediate partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samzapy.api.checkpoint import SenderState
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.container.control.record import SentControl
from samzapy.container.control.senders import Senders
from samzapy.watermarks import Watermarks


class Upstream:
    """One task's. Its watermark is the least of its intermediate partitions', each the least of its senders'.

    What it knows goes with the checkpoint, in the same transaction as the offsets: the senders say some things once only
    (an end), and the record that said so lies before the offset that a restart begins at.
    """

    def __init__(
        self,
        ssps: Iterable[SystemStreamPartition],
        kept: Mapping[SystemStreamPartition, Mapping[str, SenderState]],
        clock: Clock,
        idle_ms: int,
    ) -> None:
        """`ssps`: the task's intermediate partitions; `kept`: what a checkpoint says; `idle_ms` <= 0: nobody is idle."""
        self._clock = clock
        self._idle_s = idle_ms / 1000.0
        now = clock.monotonic()
        self._senders = {ssp: Senders(kept.get(ssp, {}), now) for ssp in ssps}
        #: Partitions that had ended when the checkpoint was written, and end again unless something more comes.
        self.over = {ssp for ssp, senders in self._senders.items() if senders.ended}
        marks = {ssp: s.watermark for ssp, s in self._senders.items() if s.watermark is not None}
        self._marks = Watermarks(self._senders, marks)
        self._told = self._marks.current

    @property
    def watermark(self) -> int | None:
        """The task's watermark, None until all of its intermediate partitions have one."""
        return self._marks.current

    @property
    def partitions(self) -> Mapping[SystemStreamPartition, int]:
        """The watermarks of the partitions that have one."""
        return self._marks.marks

    @property
    def state(self) -> Mapping[SystemStreamPartition, Mapping[str, SenderState]]:
        """What has to be kept."""
        return {ssp: dict(senders.known) for ssp, senders in self._senders.items() if senders.known}

    @property
    def drained(self) -> bool:
        """Whether some partition has come to its end because its senders are drained."""
        return any(senders.drained for senders in self._senders.values())

    def take(self, ssp: SystemStreamPartition, control: SentControl) -> bool:
        """A control message of a partition; returns whether the partition has ended with it."""
        senders = self._senders[ssp]
        before = senders.ended
        senders.take(control, self._clock.monotonic())
        self._follow(ssp)
        return senders.ended and not before

    def reopens(self, ssp: SystemStreamPartition) -> bool:
        """Something has come of a partition; returns whether it was over."""
        if ssp not in self.over:
            return False
        self.over.discard(ssp)
        self._senders[ssp].begin_anew()
        return True

    def set_aside(self, ssp: SystemStreamPartition) -> None:
        """The partition has ended, and does not hold the watermark back."""
        if ssp in self._senders:
            self._marks.set_aside(ssp)

    def look_for_idle(self) -> None:
        """Find senders that have fallen silent."""
        if self._idle_s <= 0:
            return
        now = self._clock.monotonic()
        for ssp, senders in self._senders.items():
            senders.look_for_idle(now, self._idle_s)
            self._follow(ssp)

    def take_watermark(self) -> int | None:
        """The watermark, if it has moved since the last call; else None."""
        now = self._marks.current
        if now is None or (self._told is not None and now <= self._told):
            return None
        self._told = now
        return now

    def forget_drain(self) -> None:
        """The task is drained: another run begins with senders that are not."""
        for senders in self._senders.values():
            if senders.drained:
                senders.begin_anew()

    def _follow(self, ssp: SystemStreamPartition) -> None:
        mark = self._senders[ssp].watermark
        if mark is not None and mark > self._marks.marks.get(ssp, mark - 1):
            self._marks.advance(ssp, mark)
