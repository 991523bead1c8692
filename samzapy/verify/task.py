"""The task that is verified."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask
from samzapy.verify.workload import Chain

#: The job's key that names the output.
OUTPUT_KEY = "verify.output"


class AccountsTask(StreamTask, InitableTask):
    """Keeps sum, count and chain of each account, and echoes every id with the sum and the count it led to."""

    _sums: KeyValueStore[str, int]
    _counts: KeyValueStore[str, int]
    _chains: KeyValueStore[str, list[object]]

    def init(self, context: Context) -> None:
        self._sums = context.get_store("sum")
        self._counts = context.get_store("count")
        self._chains = context.get_store("chain")
        self._output = SystemStream.parse(context.job.config[OUTPUT_KEY])

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        key, event = envelope.key, envelope.message
        number, delta = event["id"], event["delta"]
        if delta is None:
            total = count = 0
            self._sums.delete(key)
            self._counts.delete(key)
            self._chains.delete(key)
        else:
            total = (self._sums.get(key) or 0) + delta
            count = (self._counts.get(key) or 0) + 1
            self._sums.put(key, total)
            self._counts.put(key, count)
            self._chains.put(key, self._linked(key, number))
        echo = {"id": number, "sum": total, "count": count}
        collector.send(OutgoingMessageEnvelope(self._output, echo, key))

    def _linked(self, key: str, number: int) -> list[object]:
        kept = self._chains.get(key)
        chain = Chain() if kept is None else Chain(kept[0], kept[1], tuple(kept[2]))  # type: ignore[arg-type]
        digest, length, tail = chain.link(number)
        return [digest, length, list(tail)]
