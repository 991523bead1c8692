"""A joining task that sends what comes out, one message for each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from samzapy.api.collector import MessageCollector
from samzapy.api.context import Context
from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import CopartitionedTask, InitableTask, StreamTask
from samzapy.operators.joins import Joined


class SendingTask(StreamTask, InitableTask, CopartitionedTask):
    """`join.output` in the job file names the output as `system.stream`."""

    _output: SystemStream

    def init(self, context: Context) -> None:
        """Find the output; a subclass makes its join and calls this one."""
        self._output = SystemStream.parse(context.job.config["join.output"])

    @abstractmethod
    def message(self, joined: Joined) -> dict[str, Any]:
        """What is sent, under the key of both sides."""

    def send(self, found: Iterable[Joined], collector: MessageCollector) -> None:
        """Send one message for each."""
        for joined in found:
            collector.send(OutgoingMessageEnvelope(self._output, self.message(joined), key=joined.key))


def inputs(context: Context, *streams: str) -> tuple[SystemStream, SystemStream]:
    """Two streams of the job's default system."""
    system = context.job.config["job.default.system"]
    left, right = (SystemStream(system, stream) for stream in streams)
    return left, right
