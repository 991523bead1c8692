"""Lets read-only stores follow their streams while the tasks run, on the run loop's thread.

So nothing writes to such a store while a task reads it, and a message sees it as it was when its slice began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samzapy.api.system import SystemConsumer
from samzapy.clock import Clock, Schedule
from samzapy.container.sideinputs.catch_up import readers
from samzapy.container.sideinputs.restore import SideInputRestore

#: How often the streams are looked at, and how much is taken then, so that the tasks get their turn.
LOOK_MS = 10
_MOST_RECORDS = 2_000
#: Where `task.commit.ms` says never.
_KEEP_MS = 60_000


class NoSideInputs:
    """The side inputs of a container without any: every call does nothing."""

    def follow(self, now: float) -> None:
        """Take the messages that have arrived, if it is time to look. Raises the errors of processors and decoders."""

    def keep(self) -> None:
        """Write the entries of the stores, with their positions."""

    def close(self) -> None:
        """Release the consumers; nothing is written."""


class SideInputs(NoSideInputs):
    """The stores of a container that go on being filled. One thread: the run loop's."""

    def __init__(
        self,
        fillers: Sequence[SideInputRestore],
        consumer_of: Callable[[str], SystemConsumer],
        clock: Clock,
        keep_ms: int,
    ) -> None:
        """`fillers` are at their bounds; `keep_ms`: milliseconds between two writes of their entries."""
        self._fillers = fillers
        self._readers = readers(fillers)
        self._consumers = {system: consumer_of(system) for system in sorted({ssp.system for ssp in self._readers})}
        for ssp, found in self._readers.items():
            self._consumers[ssp.system].register(ssp, min(filler.positions[ssp] for filler in found))
        for consumer in self._consumers.values():
            consumer.start()
        now = clock.monotonic()
        self._look = Schedule(LOOK_MS, now)
        self._keep = Schedule(keep_ms if keep_ms > 0 else _KEEP_MS, now)

    def follow(self, now: float) -> None:
        if now < self._look.due_at or not self._look.due(now):
            return
        batches = [batch for consumer in self._consumers.values() for batch in consumer.poll(0.0, _MOST_RECORDS)]
        for batch in batches:
            for filler in self._readers[batch.ssp]:
                filler.take(batch)
        if not batches:
            for filler in self._fillers:
                filler.caught_up()
        if self._keep.due(now):
            self.keep()

    def keep(self) -> None:
        for ssp, found in self._readers.items():
            position = self._consumers[ssp.system].position(ssp)
            for filler in found:
                filler.pass_holes(ssp, position)
        for filler in self._fillers:
            filler.keep()

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
