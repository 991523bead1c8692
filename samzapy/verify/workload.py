"""The workload: seeded events, their partitions, and the task that processes them.

Events are deposits into accounts that are closed now and then, "bank and append" in one.

Accounts follow Zipf's law. Amounts are positive, so that a sum can only be too large if something was applied twice.
Each account is also a hash chain over the ids of its deposits, h = H(h, id): one number that proves no loss, no
repetition and no reordering since the account was opened.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from typing import Any, NamedTuple

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import BatchTask, InitableTask, StreamTask
from samzapy.pipeline import Handle, Pipeline
from samzapy.pipeline.task import PipelineTask

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
            yield Event(number, key, None if chance.random() < CLOSING else chance.randint(1, _LARGEST))


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


class _Accounts(InitableTask):
    """Keeps sum, count and chain of each account, and echoes every id with the sum and the count it led to."""

    def init(self, context: Context) -> None:
        self._stores: list[KeyValueStore[str, Any]] = [context.get_store(name) for name in STORES]
        self._output = SystemStream.parse(context.job.config[OUTPUT_KEY])


class AccountsTask(_Accounts, StreamTask):
    """The accounts, message by message."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        key, event = envelope.key, envelope.message
        after = _after(event, [store.get(key) for store in self._stores])
        for store, value in zip(self._stores, after, strict=True):
            if value is None:
                store.delete(key)
            else:
                store.put(key, value)
        collector.send(OutgoingMessageEnvelope(self._output, _echo(event, after), key))


class AccountsBatchTask(_Accounts, BatchTask[str, dict[str, Any]]):
    """The accounts, a batch at a time: each store is read once and written once for it."""

    def process_batch(
        self, batch: MessageBatch[str, dict[str, Any]], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        keys = set(batch.keys)
        kept = [dict(store.get_all(keys)) for store in self._stores]
        echoes = []
        for key, event in zip(batch.keys, batch.messages, strict=True):
            after = _after(event, [values[key] for values in kept])
            for values, value in zip(kept, after, strict=True):
                values[key] = value
            echoes.append(_echo(event, after))
        for store, entries in zip(self._stores, kept, strict=True):
            store.put_all({key: value for key, value in entries.items() if value is not None})
            store.delete_all([key for key, value in entries.items() if value is None])
        collector.send_batch(self._output, batch.keys, echoes, inputs=batch.offsets)


def _after(event: dict[str, Any], kept: Sequence[Any]) -> Sequence[Any]:
    """Sum, count and chain of an account after an event; None for each of a closed one."""
    if event["delta"] is None:
        return (None, None, None)
    total, count, chain = kept
    return ((total or 0) + event["delta"], (count or 0) + 1, _linked(chain, event["id"]))


def _echo(event: dict[str, Any], after: Sequence[Any]) -> dict[str, Any]:
    return {"id": event["id"], "sum": after[0] or 0, "count": after[1] or 0}


def _linked(kept: list[Any] | None, number: int) -> list[object]:
    """A kept chain with one more deposit."""
    chain = Chain() if kept is None else Chain(kept[0], kept[1], tuple(kept[2]))
    digest, length, tail = chain.link(number)
    return [digest, length, list(tail)]


def accounts(name: str, system: str) -> Pipeline:
    """The accounts in two stages: events are counted under another key, in other partitions, and come back."""
    pipeline = Pipeline(name)
    (
        pipeline.stream(f"{system}.{name}-in")
        .key_by(_turned, name="away")
        .process(partial(_folded, "count", lambda count, _: (count or 0) + 1), name="number")
        .key_by(_turned, name="back")
        .process(partial(_folded, "count", lambda _, event: event["count"]), name="count")
        .process(partial(_folded, "sum", lambda total, event: (total or 0) + event["delta"]), name="sum")
        .process(partial(_folded, "chain", lambda chain, event: _linked(chain, event["id"])), name="chain")
        .map(lambda event: {field: event[field] for field in ("id", "sum", "count")})
        .to(f"{system}.{name}-out")
    )
    return pipeline


def _turned(key: str, _: Any) -> str:
    return key[::-1]


def _folded(field: str, add: Callable[[Any, dict[str, Any]], Any], event: dict[str, Any], handle: Handle) -> None:
    """Keep what `add` makes of the key's value, and pass it on as a field; it is 0 for a closed account."""
    value = 0 if event["delta"] is None else add(handle.state.get(handle.key), event)
    if event["delta"] is None:
        handle.state.delete(handle.key)
    else:
        handle.state.put(handle.key, value)
    handle.send({**event, field: value})


class AccountsPipelineTask(PipelineTask):
    """Runs `accounts`, of the job's name and system."""

    plan = accounts("verify", "kafka").plan  # for the page, which sees the class alone

    def init(self, context: Context) -> None:
        type(self).plan = accounts(*map(context.job.config.__getitem__, ("job.name", "job.default.system"))).plan
        super().init(context)


#: The task by `samzapy verify --task`.
TASKS = {
    kind: f"{task.__module__}:{task.__name__}"
    for kind, task in (("message", AccountsTask), ("batch", AccountsBatchTask), ("pipeline", AccountsPipelineTask))
}
