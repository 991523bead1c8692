"""The tasks of the curves."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import StreamTask
from samzapy.bench.tasks import Marked

#: Keys of the job file: the bytes of a value, the number of stores.
BYTES_KEY, STORES_KEY = "bench.bytes", "bench.stores"


class ValuesTask(Marked, StreamTask):
    """Reads the value of each message's key, and writes another of the same size."""

    def init(self, context: Context) -> None:
        self._store = context.get_store("values")
        self._value = bytes(int(context.job.config[BYTES_KEY]))
        super().init(context)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self._store.get(envelope.key)
        self._store.put(envelope.key, self._value)


class StoresTask(Marked, StreamTask):
    """Counts by key; the messages go to the stores in turn."""

    def init(self, context: Context) -> None:
        names = (f"counts-{number}" for number in range(int(context.job.config[STORES_KEY])))
        self._stores = cycle([context.get_store(name) for name in names])
        super().init(context)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        store: Any = next(self._stores)
        store.put(envelope.key, (store.get(envelope.key) or 0) + 1)


class PassOnTask(Marked, StreamTask):
    """Passes messages on as they are."""

    def init(self, context: Context) -> None:
        self._output = SystemStream.parse(context.job.config["bench.output"])
        super().init(context)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        collector.send(OutgoingMessageEnvelope(self._output, envelope.message, envelope.key))
