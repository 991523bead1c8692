"""Ids for outputs, so that a receiver can tell a repetition from a new message.

In effectively-once every output carries the header `samzapy-id`: `topic/partition/offset/n`, the position of the input
it came from and its number among that input's outputs. A deterministic task that processes an input again sends the
same ids again. What `window` and the methods that begin with `on_` send comes from no input and has no id.

A broadcast partition is read by every task, so the ids of what comes from it end in `@task`: two tasks' outputs are two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote

from samzapy.api.collector import MessageCollector
from samzapy.api.control import ControlMessage
from samzapy.api.coordinator import TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.identity import ID_HEADER
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import StreamTask
from samzapy.container.collector import no_envelope


class OutputIds:
    """The ids of one task's outputs."""

    __slots__ = ("_suffixes",)

    def __init__(self, task_name: str, broadcast: Iterable[SystemStreamPartition] = ()) -> None:
        """`broadcast`: the partitions that every task reads."""
        self._suffixes = dict.fromkeys(broadcast, f"@{quote(task_name, safe='')}".encode())

    def around(self, envelope: IncomingMessageEnvelope) -> tuple[bytes, bytes]:
        """What stands before and behind the number in the ids of this input's outputs."""
        ssp = envelope.ssp
        return f"{ssp.stream}/{ssp.partition}/{envelope.offset}/".encode(), self._suffixes.get(ssp, b"")


class IdentifyingCollector(MessageCollector):
    """Adds the id of the input at hand to what passes through to the task's collector."""

    __slots__ = ("_collector", "_ids", "_input", "_number", "_task")

    def __init__(self, collector: MessageCollector, ids: OutputIds) -> None:
        self._collector = collector
        self._ids = ids
        self._input = self._task = b""
        self._number = 0

    def begin(self, envelope: IncomingMessageEnvelope) -> None:
        """The outputs from here on come from this input."""
        self._input, self._task = self._ids.around(envelope)
        self._number = 0

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        header = (ID_HEADER, self._input + str(self._number).encode() + self._task)
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

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        # What it says is the same however often it is said: it needs no id.
        self._collector.send_control(stream, message)


class IdentifiedProcess:
    """Calls a task's `process` with a collector that knows which input it is called for."""

    __slots__ = ("_collector", "_process")

    def __init__(self, task: StreamTask, collector: MessageCollector, ids: OutputIds) -> None:
        self._process: Callable[..., object] = task.process
        self._collector = IdentifyingCollector(collector, ids)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> object:
        """As the task's; returns what it returned."""
        self._collector.begin(envelope)
        return self._process(envelope, self._collector, coordinator)
