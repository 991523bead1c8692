"""How far a task has come in event time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from samzapy.api.collector import MessageCollector
from samzapy.api.coordinator import TaskCoordinator


class TaskClock(NamedTuple):
    """A task's clock: the least, over its inputs, of the event time processed; milliseconds since 1970, None until each has
    had a message. Partitions that are idle or have ended do not count. `idle`: they all are so."""

    time_ms: int | None
    idle: bool = False


class ClockListenerTask(ABC):
    """A task that follows its clock. Gearpump's `onWatermarkProgress`."""

    @abstractmethod
    def on_clock(self, clock: TaskClock, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called between messages, after those that have moved the clock: as many as were processed in one go."""
