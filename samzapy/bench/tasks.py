"""The tasks of `configs/bench/`."""

from __future__ import annotations

import time
from array import array

from samzapy.api.collector import MessageCollector, RequestScope, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import ClosableTask, InitableTask, StreamTask, WindowableTask
from samzapy.bench.marks import CLOSED, FIRST, MARKS_KEY, READY, append_mark


class Marked(InitableTask, WindowableTask, ClosableTask):
    """A task of one input partition that marks when it is ready and closed, in the file that `bench.marks` names, and
    notes every window how far it has got. It keeps the message it is at in `at`."""

    at: IncomingMessageEnvelope | None = None
    _marks: str | None = None

    def init(self, context: Context) -> None:
        self._timeline: list[tuple[float, int, int]] = []
        self._marks = context.job.config.get(MARKS_KEY)
        if self._marks:
            append_mark(self._marks, READY)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        if self.at is not None:
            self._timeline.append((time.monotonic(), self.at.ssp.partition, self.at.offset + 1))

    def close(self) -> None:
        if self._marks:
            if self.at is not None:
                self._timeline.append((time.monotonic(), self.at.ssp.partition, self.at.offset + 1))
            append_mark(self._marks, CLOSED, self._timeline, self.take_latencies())

    def take_latencies(self) -> list[int]:
        """The latencies in nanoseconds that were noted since the last call; none here."""
        return []


class PassThroughTask(Marked, StreamTask):
    """Adds one field and sends the event on, to the `system.stream` that `bench.output` names."""

    _output: SystemStream

    def init(self, context: Context) -> None:
        self._output = SystemStream.parse(context.job.config["bench.output"])
        super().init(context)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.at = envelope
        event = envelope.message
        event["seen"] = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))


class KeyedCountTask(Marked, StreamTask):
    """Counts events by their `user` in the store `counts`."""

    _counts: KeyValueStore[str, int]

    def init(self, context: Context) -> None:
        self._counts = context.get_store("counts")
        super().init(context)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.at = envelope
        counts = self._counts
        user = envelope.message["user"]
        counts.put(user, (counts.get(user) or 0) + 1)


class FirstMessageTask(KeyedCountTask):
    """The keyed count; marks the end of its first message, too."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        is_first = self.at is None
        super().process(envelope, collector, coordinator)
        if is_first and self._marks:
            append_mark(self._marks, FIRST)


class LatencyTask(KeyedCountTask):
    """The keyed count of events that say when they were written (`at_ns`); notes how long ago that was.

    The container stops when its tasks have seen `bench.expected` events.
    """

    #: Of all tasks in the process.
    latencies_ns = array("q")

    def init(self, context: Context) -> None:
        self._expected = int(context.job.config["bench.expected"])
        super().init(context)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        super().process(envelope, collector, coordinator)
        self.latencies_ns.append(time.time_ns() - envelope.message["at_ns"])

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        super().window(collector, coordinator)
        if len(self.latencies_ns) >= self._expected:
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)

    def take_latencies(self) -> list[int]:
        taken = self.latencies_ns.tolist()
        del self.latencies_ns[:]
        return taken
