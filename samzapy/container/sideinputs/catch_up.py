"""Before the tasks start: stores that are filled from streams are read to their bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemConsumer
from samzapy.clock import Clock
from samzapy.container.sideinputs.restore import SideInputRestore
from samzapy.errors import RestoreStalled
from samzapy.storage.changelog.restore import ProgressCallback, RestoreStopped, ShouldStop, never

_POLL_S = 0.1
_POLL_RECORDS = 20_000
_STALL_S = 60.0

#: By partition, the stores that it fills.
Readers = Mapping[SystemStreamPartition, Sequence[SideInputRestore]]


def catch_up(
    fillers: Sequence[SideInputRestore],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    on_progress: ProgressCallback | None = None,
    should_stop: ShouldStop = never,
    stall_s: float = _STALL_S,
) -> None:
    """Read the streams of every store to their bounds, with one consumer a system, and keep the entries.

    `on_progress` gets `task/store`, offsets read, offsets to read. Raises RestoreStalled when nothing moved for
    `stall_s` seconds, RestoreStopped once it `should_stop`, and the errors of processors and decoders.
    """
    behind = readers(fillers, lambda filler, ssp: filler.positions[ssp] < filler.spans[ssp].bound)
    for system in sorted({ssp.system for ssp in behind}):
        consumer = consumer_of(system)
        try:
            of_system = {ssp: found for ssp, found in behind.items() if ssp.system == system}
            _Reading(of_system, consumer, clock, on_progress).run(stall_s, should_stop)
        finally:
            consumer.close()
    for filler in fillers:
        filler.caught_up()
        filler.keep()


def readers(
    fillers: Sequence[SideInputRestore],
    wanted: Callable[[SideInputRestore, SystemStreamPartition], bool] = lambda *_: True,
) -> Readers:
    """The partitions that some store is `wanted` to read (default: all), with those stores."""
    found: dict[SystemStreamPartition, list[SideInputRestore]] = {}
    for filler in fillers:
        for ssp in filler.spans:
            if wanted(filler, ssp):
                found.setdefault(ssp, []).append(filler)
    return found


class _Reading:
    """The partitions of one system, each until all of its stores are at their bounds."""

    def __init__(
        self, active: Readers, consumer: SystemConsumer, clock: Clock, on_progress: ProgressCallback | None
    ) -> None:
        self._active = dict(active)
        self._consumer = consumer
        self._clock = clock
        self._on_progress = on_progress
        for ssp, fillers in active.items():
            consumer.register(ssp, min(filler.positions[ssp] for filler in fillers))
        consumer.start()
        self._positions = {ssp: consumer.position(ssp) for ssp in active}

    def run(self, stall_s: float, should_stop: ShouldStop) -> None:
        """Read to the bounds."""
        moved = self._clock.monotonic()
        while self._active:
            if should_stop():
                raise RestoreStopped(self._where())
            for batch in self._consumer.poll(_POLL_S, _POLL_RECORDS):
                for filler in self._active.get(batch.ssp, ()):
                    filler.take(batch, filler.spans[batch.ssp].bound)
            now = self._clock.monotonic()
            if self._advance():
                moved = now
            if self._active and now - moved > stall_s:
                raise RestoreStalled(f"stores made no progress for {stall_s:g} s: {self._where()}")

    def _advance(self) -> bool:
        advanced = False
        for ssp, fillers in list(self._active.items()):
            position = self._consumer.position(ssp)
            if position != self._positions[ssp]:
                self._positions[ssp], advanced = position, True
                self._tell(fillers)
            if all(position >= filler.spans[ssp].bound for filler in fillers):
                for filler in fillers:
                    # Between the last message and the bound there may be holes only: control records, compaction.
                    filler.pass_holes(ssp, filler.spans[ssp].bound)
                self._consumer.pause([ssp])
                del self._active[ssp]
                advanced = True
        return advanced

    def _tell(self, fillers: Sequence[SideInputRestore]) -> None:
        if self._on_progress is None:
            return
        for filler in fillers:
            done = sum(filler.positions[ssp] - span.start for ssp, span in filler.spans.items())
            self._on_progress(filler.label, done, sum(span.bound - span.start for span in filler.spans.values()))

    def _where(self) -> str:
        return ", ".join(
            f"{ssp} at {self._positions[ssp]} of {filler.spans[ssp].bound} (store '{filler.label}')"
            for ssp, fillers in self._active.items()
            for filler in fillers
        )
