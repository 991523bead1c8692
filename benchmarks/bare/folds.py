"""The loops over what one `consume` brought: each counts the messages by user, and moves the positions on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import orjson
from confluent_kafka import Message

from benchmarks.bare.counts import BATCH_SIZE, CACHE_SIZE, BoundedCounts, Counts
from benchmarks.bare.events import decode

Positions = dict[int, int]
Fold = Callable[[Sequence[Message], Mapping[int, Counts], Positions], None]


def each_json(messages: Sequence[Message], counts: Mapping[int, Counts], positions: Positions) -> None:
    loads = orjson.loads
    for message in messages:
        partition = message.partition()
        of_partition = counts[partition]
        user = loads(message.value())["user"]
        values = of_partition.values
        of_partition.dirty[user] = values[user] = values.get(user, 0) + 1
        positions[partition] = message.offset() + 1


def each_typed(messages: Sequence[Message], counts: Mapping[int, Counts], positions: Positions) -> None:
    for message in messages:
        partition = message.partition()
        of_partition = counts[partition]
        user = decode(message.value()).user
        values = of_partition.values
        of_partition.dirty[user] = values[user] = values.get(user, 0) + 1
        positions[partition] = message.offset() + 1


def each_json_bounded(messages: Sequence[Message], counts: Mapping[int, BoundedCounts], positions: Positions) -> None:
    loads = orjson.loads
    for message in messages:
        partition = message.partition()
        of_partition = counts[partition]
        cache, dirty, user = of_partition.values, of_partition.dirty, loads(message.value())["user"]
        count = cache.get(user)
        cache[user] = dirty[user] = (of_partition.read(user) if count is None else count) + 1
        cache.move_to_end(user)
        if len(dirty) >= BATCH_SIZE:
            of_partition.serialize()
        if len(cache) > CACHE_SIZE:
            of_partition.evict()
        positions[partition] = message.offset() + 1


def batch_json(messages: Sequence[Message], counts: Mapping[int, Counts], positions: Positions) -> None:
    loads = orjson.loads
    _merge(messages, counts, positions, lambda run: [loads(message.value())["user"] for message in run])


def batch_typed(messages: Sequence[Message], counts: Mapping[int, Counts], positions: Positions) -> None:
    _merge(messages, counts, positions, lambda run: [decode(message.value()).user for message in run])


def batch_keys(messages: Sequence[Message], counts: Mapping[int, Counts], positions: Positions) -> None:
    _merge(messages, counts, positions, lambda run: [message.key().decode() for message in run])


def _merge(
    messages: Sequence[Message],
    counts: Mapping[int, Counts],
    positions: Positions,
    users_of: Callable[[list[Message]], list[str]],
) -> None:
    """Count each partition's run first, then add it to the counts."""
    for partition, of_run in groupby(messages, Message.partition):
        run = list(of_run)
        values, dirty = counts[partition].values, counts[partition].dirty
        for user, more in Counter(users_of(run)).items():
            dirty[user] = values[user] = values.get(user, 0) + more
        positions[partition] = run[-1].offset() + 1
