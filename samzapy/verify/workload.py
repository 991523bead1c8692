"""The workload: seeded events, their partitions, and the task that processes them.

Events are deposits into accounts that are closed now and then, "bank and append" in one.

Accounts follow Zipf's law. Amounts are positive, so that a sum can only be too large if something was applied twice.
Each account is also a hash chain over the ids of its deposits, h = H(h, id): one number that proves no loss, no
repetition and no reordering since the account was opened.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate
from typing import Any, NamedTuple

from samzapy.api.batch import BatchTask, MessageBatch
from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask

KEYS = 1_000
EXPONENT = 1.1
#: The share of events that close their account.
CLOSING = 0.05
#: The number of ids of an account's newest deposits that are kept beside the hash.
TAIL = 8
#: The stores: an account's balance, the number of its deposits, and their chain.
STORES = ("sum", "count", "chain")

_LARGEST = 100
_CHUNK = 5_000


class Event(NamedTuple):
    """Event `id` pays `delta` into the account `key`; None closes it."""

    id: int
    key: str
    delta: int | None

    def encode(self) -> tuple[bytes, bytes]:
        """The record's key and value."""
        delta = "null" if self.delta is None else str(self.delta)
        return self.key.encode(), f'{{"id":{self.id},"delta":{delta}}}'.encode()

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Event:
        """The inverse of `encode`."""
        event = json.loads(value)
        return cls(event["id"], key.decode(), event["delta"])


class Chain(NamedTuple):
    """The deposits into one account: their hash chain, their number, and the ids of the newest `TAIL`."""

    hash: str = ""
    length: int = 0
    tail: tuple[int, ...] = ()

    def link(self, number: int) -> Chain:
        """The chain with one more deposit."""
        digest = blake2b(f"{self.hash}/{number}".encode(), digest_size=8).hexdigest()
        return Chain(digest, self.length + 1, (*self.tail, number)[-TAIL:])


def events(count: int, seed: str) -> Iterator[Event]:
    """`count` events with the ids 0, 1, ...; the same ones for the same seed."""
    chance = random.Random(seed)
    weights = list(accumulate(1.0 / rank**EXPONENT for rank in range(1, KEYS + 1)))
    names = [f"account-{number:04d}" for number in range(KEYS)]
    chance.shuffle(names)
    for first in range(0, count, _CHUNK):
        keys = chance.choices(names, cum_weights=weights, k=min(_CHUNK, count - first))
        for number, key in enumerate(keys, first):
            closes = chance.random() < CLOSING
            yield Event(number, key, None if closes else chance.randint(1, _LARGEST))


_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """`toPositive(murmur2(key)) % partitions`, byte by byte as Kafka's Java client does it.

    It shares no code with the product's partitioner, which it checks.
    """
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = (key[i] | key[i + 1] << 8 | key[i + 2] << 16 | key[i + 3] << 24) * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    rest = key[whole:]
    for i in reversed(range(len(rest))):
        h ^= rest[i] << 8 * i
    if rest:
        h = h * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return ((h ^ h >> 15) & 0x7FFFFFFF) % partitions


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
            self._chains.put(key, _linked(self._chains.get(key), number))
        echo = {"id": number, "sum": total, "count": count}
        collector.send(OutgoingMessageEnvelope(self._output, echo, key))


class AccountsBatchTask(BatchTask[str, dict[str, Any]], InitableTask):
    """Like AccountsTask, a batch at a time: each store is read once and written once for it."""

    def init(self, context: Context) -> None:
        self._stores: list[KeyValueStore[str, Any]] = [context.get_store(name) for name in STORES]
        self._output = SystemStream.parse(context.job.config[OUTPUT_KEY])

    def process_batch(
        self, batch: MessageBatch[str, dict[str, Any]], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        keys = set(batch.keys)
        sums, counts, chains = kept = [dict(store.get_all(keys)) for store in self._stores]
        echoes = []
        for key, event in zip(batch.keys, batch.messages, strict=True):
            number, delta = event["id"], event["delta"]
            if delta is None:
                sums[key] = counts[key] = chains[key] = None
            else:
                sums[key] = (sums[key] or 0) + delta
                counts[key] = (counts[key] or 0) + 1
                chains[key] = _linked(chains[key], number)
            echoes.append({"id": number, "sum": sums[key] or 0, "count": counts[key] or 0})
        for store, entries in zip(self._stores, kept, strict=True):
            store.put_all({key: value for key, value in entries.items() if value is not None})
            store.delete_all([key for key, value in entries.items() if value is None])
        collector.send_batch(self._output, batch.keys, echoes, inputs=batch.offsets)


def _linked(kept: list[Any] | None, number: int) -> list[object]:
    """A kept chain with one more deposit."""
    chain = Chain() if kept is None else Chain(kept[0], kept[1], tuple(kept[2]))
    digest, length, tail = chain.link(number)
    return [digest, length, list(tail)]


#: The task by `samzapy verify --task`.
TASKS = {
    kind: f"{task.__module__}:{task.__name__}"
    for kind, task in (("message", AccountsTask), ("batch", AccountsBatchTask))
}
