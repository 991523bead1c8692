"""Drops repeated messages: the receiving side of effectively-once.

1. A store keeps the ids that were seen. It is restored with the task and committed with its offsets, so the receiver
   itself needs `task.guarantee=effectively-once` or `exactly-once`.
2. By default the output id of an effectively-once job identifies a message. For each source and receiving partition
   the store has the greatest (offset, number) so far, and the last `window` ids one by one. A greater id is new. A
   lower id that is not among the remembered ids is also new, unless more than `window` messages of its source came
   after the first greater one. An id below all remembered ones is a repetition.
3. A sender of this version sends in order, so the window matters only where order is lost: see
   `samzapy.container.outputs.output_ids`. The store remembers received ids, so inputs without outputs cost nothing.
4. With a key of the user's choice (a message's UUID) the store keeps the last `capacity` keys. `key/K` has the number
   of key K, `at/N` the key of number N, and `count` the next number and the smallest number that may have an entry.
   After a smaller capacity each new key takes out a few of the surplus ones; they do not count as seen meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutputId
from samzapy.api.kv import K, KeyValueStore, V
from samzapy.api.task import InitableTask, StreamTask

_COUNT = "count"
#: The entries that one new key takes out of the store at most.
_DROPPED = 10
#: The ids that are written again with every message; older ones lie in entries of this size.
_CHUNK = 32
#: A source's entry is [greatest offset, its number, floor's offset, its number, first chunk, next chunk, *recent ids].
_HEAD = 6


class SeenIds:
    """The ids that came, by source: bounded for each.

    The source's entry has the last 32 ids at most; numbered chunks have the earlier ones. When a chunk is dropped the
    floor rises to its greatest id, and an id that is not above the floor counts as seen. Every change puts new objects,
    so the store can undo it if the message fails.
    """

    def __init__(self, store: KeyValueStore[str, Any], window: int) -> None:
        self._store = store
        self._chunks = -(-window // _CHUNK)

    def add(self, source: str, offset: int, number: int) -> bool:
        """Remember an id; whether it is new."""
        key = f"id/{source}"
        entry = self._store.get(key)
        if entry is None:
            self._store.put(key, [offset, number, None, 0, 0, 0, offset, number])
            return True
        if len(entry) < _HEAD:  # from a receiver of the version before: an id that is not greater was seen
            entry = [*entry, *entry, 0, 0]
        position = [offset, number]
        if position > entry[:2]:
            entry = [*position, *entry[2:], *position]
        elif self._was_seen(source, entry, position):
            return False
        else:
            entry = [*entry, *position]
        if len(entry) >= _HEAD + 2 * _CHUNK:
            entry = self._sealed(source, entry)
        self._store.put(key, entry)
        return True

    def _was_seen(self, source: str, entry: list[Any], position: list[int]) -> bool:
        if entry[2] is not None and position <= entry[2:4]:
            return True
        first, end = entry[4:_HEAD]
        chunks = (self._store.get(_chunk(source, number)) or () for number in range(end - 1, first - 1, -1))
        pair = (position[0], position[1])
        return pair in _pairs(entry[_HEAD:]) or any(pair in _pairs(chunk) for chunk in chunks)

    def _sealed(self, source: str, entry: list[Any]) -> list[Any]:
        """The entry with its ids moved into a new chunk, and without the chunks beyond the window."""
        store, (first, end) = self._store, entry[4:_HEAD]
        floor = None if entry[2] is None else (entry[2], entry[3])
        store.put(_chunk(source, end), entry[_HEAD:])
        while end + 1 - first > self._chunks:
            forgotten = _pairs(store.get(_chunk(source, first)) or ())
            floor = max([floor, *forgotten] if floor else forgotten, default=None)
            store.delete(_chunk(source, first))
            first += 1
        return [*entry[:2], *(floor or (None, 0)), first, end + 1]


def _chunk(source: str, number: int) -> str:
    return f"ids/{number}/{source}"


def _pairs(flat: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(flat[::2], flat[1::2], strict=True)


class Deduplicator:
    """Distinguishes new messages from repeated ones. `store` has string keys and json (or msgpack) values, and is used
    for nothing else; it holds the last `window` ids of each source, 32 an entry, and two entries per remembered key."""

    def __init__(self, store: KeyValueStore[str, Any], capacity: int = 100_000, window: int = 1_000) -> None:
        for name, value in (("capacity", capacity), ("window", window)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self._store = store
        self._capacity = capacity
        self._ids = SeenIds(store, window)

    def is_new_id(self, envelope: IncomingMessageEnvelope) -> bool:
        """Whether the message's output id was not seen before on its partition; a message without an id is new.

        Raises ValueError for an id that is malformed or of a later version.
        """
        output = OutputId.of(envelope.headers)
        return output is None or self._ids.add(f"{envelope.ssp}/{output.source}", output.offset, output.number)

    def is_new_key(self, key: str) -> bool:
        """Whether `key` is not among the last `capacity` different keys."""
        store = self._store
        seen = f"key/{key}"
        number = store.get(seen)
        state = store.get(_COUNT)
        # A receiver of the version before has the next number only.
        count, oldest = state if type(state) is list else (state or 0, None)
        if number is not None and number >= count - self._capacity:
            return False
        if oldest is None:
            oldest = self._smallest_number(count)
        store.put(seen, count)
        store.put(f"at/{count}", key)
        count += 1
        kept = min(count - self._capacity, oldest + _DROPPED)
        while oldest < kept:
            self._drop(oldest)
            oldest += 1
        store.put(_COUNT, [count, oldest])
        return True

    def _smallest_number(self, count: int) -> int:
        """The smallest number with an entry; there may be gaps after it, since its version took no changed capacity."""
        with self._store.all() as entries:
            numbers = (int(name[3:]) for name, _ in entries if name.startswith("at/"))
            return min(numbers, default=count)

    def _drop(self, number: int) -> None:
        store, place = self._store, f"at/{number}"
        key = store.get(place)
        if key is None:
            return
        store.delete(place)
        # The key may have come again since, with a greater number.
        if store.get(f"key/{key}") == number:
            store.delete(f"key/{key}")


class DeduplicatingTask(StreamTask[K, V], InitableTask):
    """A task that gets every message once, in `process_new`. It drops and counts repetitions.

    By default the output id identifies a message; override `message_key` for another key. The job needs the store
    named by `deduplication_store`, with string keys and json values. A subclass with an `init` must call this class's
    `init`.
    """

    deduplication_store = "deduplication"
    deduplication_capacity = 100_000
    deduplication_window = 1_000

    def init(self, context: Context) -> None:
        """Find the store; the counter is `deduplication.dropped` in the task's metrics."""
        store = context.get_store(self.deduplication_store)
        self._deduplicator = Deduplicator(store, self.deduplication_capacity, self.deduplication_window)
        self._dropped = context.task.metrics.counter("deduplication", "dropped")

    def message_key(self, envelope: IncomingMessageEnvelope[K, V]) -> str | None:
        """The key that identifies repetitions; None (the default) for the output id."""
        return None

    def process(
        self, envelope: IncomingMessageEnvelope[K, V], collector: MessageCollector, coordinator: TaskCoordinator
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
        self, envelope: IncomingMessageEnvelope[K, V], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Like `StreamTask.process`, for messages that were not seen before."""
