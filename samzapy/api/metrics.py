"""Counters, gauges, timers and histograms. Never call them once per message: count within a batch, publish once per
batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise


class Counter:
    """A number that grows. `counter.count += n` suffices; a task has one thread."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self.count += n


class Gauge:
    """A number that is set."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0.0

    def set(self, value: float) -> None:
        """Set the value."""
        self.value = value


class Timer:
    """Durations: their number, sum and maximum, in seconds."""

    __slots__ = ("count", "max", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.max = 0.0

    def update(self, seconds: float) -> None:
        """Add one duration."""
        self.count += 1
        self.total += seconds
        self.max = max(self.max, seconds)


class Histogram:
    """Values by size. `counts` has one number for each of the `bounds`, of the values up to it and above the one
    before, and a last one for the values above all bounds. `total` is the sum of all values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` ascend; each becomes a series of its own, so a dozen is many. Raises ValueError."""
        self.bounds = tuple(map(float, bounds))
        if not self.bounds or any(low >= high for low, high in pairwise(self.bounds)):
            raise ValueError(f"expected ascending bounds, at least one, got {tuple(bounds)}")
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def update(self, value: float, times: int = 1) -> None:
        """Add a value, `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class MetricsRegistry(ABC):
    """Metrics by group and name; repeated calls return the same object."""

    @abstractmethod
    def counter(self, group: str, name: str) -> Counter:
        """The counter with this name."""

    @abstractmethod
    def gauge(self, group: str, name: str) -> Gauge:
        """The gauge with this name."""

    @abstractmethod
    def timer(self, group: str, name: str) -> Timer:
        """The timer with this name."""

    @abstractmethod
    def histogram(self, group: str, name: str, bounds: Sequence[float]) -> Histogram:
        """The histogram with this name and the bounds of its first request."""

    @abstractmethod
    def snapshot(self) -> dict[str, dict[str, float]]:
        """All current values, by group and name. A timer gives `name.count`, `name.total-s` and `name.max-s`. A
        histogram gives `name.le.BOUND` for each bound, the number of values up to it, `name.le.+Inf`, `name.le.sum` and
        `name.le.count`."""
