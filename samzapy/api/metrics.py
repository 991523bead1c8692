"""Counters, gauges and timers. Never call them once per message: count within a batch, and publish once per batch."""

from __future__ import annotations

from abc import ABC, abstractmethod


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
    """Durations: how many, their sum and the largest, in seconds."""

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


class MetricsRegistry(ABC):
    """Metrics by group and name; repeated calls return the same object."""

    @abstractmethod
    def counter(self, group: str, name: str) -> Counter:
        """The counter of that name."""

    @abstractmethod
    def gauge(self, group: str, name: str) -> Gauge:
        """The gauge of that name."""

    @abstractmethod
    def timer(self, group: str, name: str) -> Timer:
        """The timer of that name."""

    @abstractmethod
    def snapshot(self) -> dict[str, dict[str, float]]:
        """All values now, by group and name; a timer gives `name.count`, `name.total-s` and `name.max-s`."""
