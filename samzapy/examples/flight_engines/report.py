"""A task that says what it knows when its inputs have ended."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import EndOfStreamListenerTask, InitableTask, StreamTask


class ReportingTask(StreamTask, InitableTask, EndOfStreamListenerTask):
    """Sends its report to `report.output` (`system.stream`) of the job file."""

    _output: SystemStream

    def init(self, context: Context) -> None:
        self._output = SystemStream.parse(context.job.config["report.output"])

    @abstractmethod
    def report(self) -> Iterator[tuple[str, Any]]:
        """The messages to send, each with its key."""

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        for key, message in self.report():
            collector.send(OutgoingMessageEnvelope(self._output, message, key=key))
