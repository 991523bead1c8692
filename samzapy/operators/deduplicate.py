"""Dropping repetitions: the receiving side of effectively-once.

What was seen is kept in a store, so it is restored with the task and committed with its offsets. By the ids that an
effectively-once job puts on its outputs one high mark per source partition (and task, of a broadcast one) is enough, as
a producer repeats the ids of a partition in order; by a key of the user's own (a message's UUID) the last `capacity` keys are kept.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from samzapy.api.collector import MessageCollector
from samzapy.api.context import Context
from samzapy.api.coordinator import TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.identity import OutputId
from samzapy.api.kv import KeyValueStore
from samzapy.api.task import InitableTask, StreamTask

_COUNT = "count"


class Deduplicator:
    """Tells new messages from repeated ones. `store` has string keys and json (or msgpack) values, and is used for
    nothing else; it holds one entry per source partition, and two per remembered key."""

    def __init__(self, store: KeyValueStore[str, Any], capacity: int = 100_000) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._store = store
        self._capacity = capacity

    def is_new_id(self, envelope: IncomingMessageEnvelope) -> bool:
        """Whether the message's output id was not seen before on its partition; a message without an id is new."""
        output = OutputId.of(envelope.headers)
        if output is None:
            return True
        source = f"id/{envelope.ssp}/{output.stream}/{output.partition}"
        if output.task:
            source += f"@{output.task}"
        position = [output.offset, output.number]
        mark = self._store.get(source)
        if mark is not None and position <= mark:
            return False
        self._store.put(source, position)
        return True

    def is_new_key(self, key: str) -> bool:
        """Whether `key` is not among the last `capacity` different keys."""
        store = self._store
        seen = f"key/{key}"
        if store.get(seen) is not None:
            return False
        count = store.get(_COUNT) or 0
        store.put(seen, count)
        store.put(f"at/{count}", key)
        store.put(_COUNT, count + 1)
        if count >= self._capacity:
            oldest = f"at/{count - self._capacity}"
            store.delete(f"key/{store.get(oldest)}")
            store.delete(oldest)
        return True


class DeduplicatingTask(StreamTask, InitableTask):
    """A task whose `process_new` sees every message once; repetitions are dropped and counted.

    By default a message is known by its output id; override `message_key` to know it by a key of your own. The job
    needs the store named by `deduplication_store`, with string keys and json values. A subclass that has an `init` of
    its own calls this one's.
    """

    deduplication_store = "deduplication"
    deduplication_capacity = 100_000

    def init(self, context: Context) -> None:
        """Find the store; the counter is `deduplication.dropped` in the task's metrics."""
        store = context.get_store(self.deduplication_store)
        self._deduplicator = Deduplicator(store, self.deduplication_capacity)
        self._dropped = context.task.metrics.counter("deduplication", "dropped")

    def message_key(self, envelope: IncomingMessageEnvelope) -> str | None:
        """The key by which repetitions are known; None (the default) for the output id."""
        return None

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Drop a repetition, pass on anything else."""
        key = self.message_key(envelope)
        new = self._deduplicator.is_new_id(envelope) if key is None else self._deduplicator.is_new_key(key)
        if new:
            self.process_new(envelope, collector, coordinator)
        else:
            self._dropped.count += 1

    @abstractmethod
    def process_new(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """As `StreamTask.process`, for messages that were not seen before."""
