"""samzapy's own tasks among the peers: the same work, and the same marks at the first and the last message."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from benchmarks.peers.programs.run import COMMITTED, FIRST, LAST, mark
from samzapy import (
    ClosableTask,
    Context,
    IncomingMessageEnvelope,
    InitableTask,
    KeyValueStore,
    MessageCollector,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
    TaskCoordinator,
)

#: The number of the next message that a task of this process processes.
_number = count(1).__next__


class _Marking(StreamTask, InitableTask, ClosableTask):
    """Marks the process's first and last message. A container commits before it closes its tasks."""

    def init(self, context: Context) -> None:
        self._marks = Path(context.job.config["peer.marks"])
        self._last = int(context.job.config["peer.events"])

    def close(self) -> None:
        mark(self._marks, COMMITTED)

    def _mark(self, number: int) -> None:
        mark(self._marks, FIRST if number == 1 else LAST)


class KeyedCount(_Marking):
    """Counts by the event's user."""

    _counts: KeyValueStore[str, int]

    def init(self, context: Context) -> None:
        super().init(context)
        self._counts = context.get_store("counts")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        counts = self._counts
        user = envelope.message["user"]
        counts.put(user, (counts.get(user) or 0) + 1)
        number = _number()
        if number == 1 or number == self._last:  # noqa: PLR1714  # the quickest that there is
            self._mark(number)


class PassThrough(_Marking):
    """Adds a field and sends the event on."""

    def init(self, context: Context) -> None:
        super().init(context)
        self._output = SystemStream.parse(context.job.config["bench.output"])

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        event = envelope.message
        event["seen"] = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))
        number = _number()
        if number == 1 or number == self._last:  # noqa: PLR1714
            self._mark(number)
