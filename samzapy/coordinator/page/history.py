"""Keeps samples of a job over the last ten minutes, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from samzapy.clock import Clock
from samzapy.coordinator.status import JobStatus

#: Seconds between two samples, and the number of samples kept.
PACE_S = 2.0
SAMPLES = 300
#: Rates compare the newest sample with the oldest of this many.
_WINDOW = 5


@dataclass(frozen=True)
class Sample:
    """A job at one moment: `at` in seconds of the monotonic clock, and sums over its containers.

    `lag` is None while that of any container is unknown. `positions` are offsets by partition.
    """

    at: float
    processed: int
    lag: int | None
    positions: Mapping[str, int]


class History:
    """Samples of a job, oldest first. One caller at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)

    def observe(self, status: JobStatus, pause: Callable[[], None] = lambda: None) -> None:
        """Take a sample of a status. `pause` is called between two containers."""
        positions: dict[str, int] = {}
        for each in status.containers:
            pause()
            positions.update({name: each.position for name, each in each.partitions.items()} | dict(each.positions))
        self._samples.append(Sample(self._clock.monotonic(), status.processed, status.lag, positions))
        # A long history needs no positions: the rate of a partition looks back a few samples only.
        if len(self._samples) > _WINDOW:
            self._samples[-_WINDOW - 1] = replace(self._samples[-_WINDOW - 1], positions={})

    @property
    def seconds(self) -> float:
        """The time between the oldest sample and the newest."""
        return self._samples[-1].at - self._samples[0].at if self._samples else 0.0

    @property
    def rate(self) -> float:
        """Messages a second, over the last samples."""
        return self._recently(lambda new, old: new.processed - old.processed)

    def rate_of(self, partition: str) -> float:
        """Offsets a second of one partition, over the last samples; 0 if it is new."""

        def passed(new: Sample, old: Sample) -> int:
            before = old.positions.get(partition)
            return 0 if before is None else new.positions.get(partition, before) - before

        return self._recently(passed)

    @property
    def rates(self) -> Sequence[float]:
        """Messages a second between successive samples."""
        return [
            max(0.0, (new.processed - old.processed) / (new.at - old.at))
            for old, new in pairwise(self._samples)
            if new.at > old.at
        ]

    @property
    def lag(self) -> int | None:
        """The lag of the whole job in the newest sample; None if it is unknown."""
        return self._samples[-1].lag if self._samples else None

    @property
    def lags(self) -> Sequence[float]:
        """The lag of the whole job in each sample that has one."""
        return [float(sample.lag) for sample in self._samples if sample.lag is not None]

    def _recently(self, difference: Callable[[Sample, Sample], int]) -> float:
        if not self._samples:
            return 0.0
        new, old = self._samples[-1], self._samples[-min(_WINDOW, len(self._samples))]
        return max(0.0, difference(new, old) / (new.at - old.at)) if new.at > old.at else 0.0
