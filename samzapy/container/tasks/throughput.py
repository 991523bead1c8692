"""Counts the work of tasks: messages by partition, batches, and time in the user's code."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition

#: The bounds of the buckets: seconds for a message, from a microsecond on, and messages of a batch.
SECONDS = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0)
MESSAGES = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536)


class ProcessTimes:
    """The histograms of the tasks of a container that call the user's code one batch after the other. `add` is called once a
    batch."""

    __slots__ = ("_messages", "_seconds")

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._seconds = metrics.histogram("process", "seconds", SECONDS)
        self._messages = metrics.histogram("process", "batch", MESSAGES)

    def add(self, messages: int, seconds: float) -> None:
        """Count a batch that took `seconds`; each of its messages gets an equal part of them."""
        if messages:
            self._seconds.update(seconds / messages, messages)
            self._messages.update(messages)


class Throughput:
    """The counters of one task. `add` is called once a batch; `seconds` grows where the calls into the user's code are timed
    together, so not for asynchronous tasks, which have several messages in flight."""

    __slots__ = ("_batches", "_messages", "seconds")

    def __init__(self) -> None:
        self._messages: dict[SystemStreamPartition, int] = {}
        self._batches = 0
        self.seconds = 0.0

    def add(self, ssp: SystemStreamPartition, messages: int) -> None:
        """Count a batch of messages of one partition."""
        self._messages[ssp] = self._messages.get(ssp, 0) + messages
        self._batches += 1

    def publish(self, task_name: str, metrics: MetricsRegistry) -> None:
        """Set the task's gauges: `processed.STREAM`, `batch.count` and `.total` of messages, `process.count` and `.total-s`."""
        values: dict[str, float] = {"batch.count": self._batches, "batch.total": sum(self._messages.values())}
        for stream, count in self._by_stream().items():
            values[f"processed.{stream}"] = count
        if self.seconds:
            values |= {"process.count": values["batch.total"], "process.total-s": self.seconds}
        for name, value in values.items():
            metrics.gauge(task_name, name).set(value)

    def _by_stream(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for ssp, count in self._messages.items():
            stream = str(ssp.system_stream)
            found[stream] = found.get(stream, 0) + count
        return found
