"""Ids for outputs, so that a receiver can tell a repetition from a new message.

In effectively-once every output carries the header `samzapy-id`: `topic/partition/offset/n`, the position of the input
it came from and its number among that input's outputs. A deterministic task that processes an input again sends the
same ids again. What `window` and `on_end_of_stream` send comes from no input and has no id.
"""

from __future__ import annotations

from collections.abc import Callable

from samzapy.api.collector import MessageCollector
from samzapy.api.coordinator import TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.identity import ID_HEADER
from samzapy.api.task import StreamTask


class IdentifyingCollector(MessageCollector):
    """Adds the id of the input at hand to what passes through to the task's collector."""

    __slots__ = ("_collector", "_input", "_number")

    def __init__(self, collector: MessageCollector) -> None:
        self._collector = collector
        self._input = b""
        self._number = 0

    def begin(self, envelope: IncomingMessageEnvelope) -> None:
        """The outputs from here on come from this input."""
        ssp = envelope.ssp
        self._input = f"{ssp.stream}/{ssp.partition}/{envelope.offset}/".encode()
        self._number = 0

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        header = (ID_HEADER, self._input + str(self._number).encode())
        self._number += 1
        headers = (header, *envelope.headers) if envelope.headers else (header,)
        self._collector.send(
            OutgoingMessageEnvelope(
                envelope.system_stream,
                envelope.message,
                envelope.key,
                envelope.partition_key,
                headers,
                envelope.timestamp,
            )
        )


class IdentifiedProcess:
    """Calls a task's `process` with a collector that knows which input it is called for."""

    __slots__ = ("_collector", "_process")

    def __init__(self, task: StreamTask, collector: MessageCollector) -> None:
        self._process: Callable[..., object] = task.process
        self._collector = IdentifyingCollector(collector)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> object:
        """As the task's; returns what it returned."""
        self._collector.begin(envelope)
        return self._process(envelope, self._collector, coordinator)
