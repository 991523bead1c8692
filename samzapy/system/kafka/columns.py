"""librdkafka's messages as columns, without a Python frame a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, pairwise
from operator import itemgetter, ne
from typing import Any

from confluent_kafka import Message

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch

# Looked up once: each is a method in C.
_error, _topic, _partition = Message.error, Message.topic, Message.partition
_offset, _key, _value, _timestamp, _headers = (
    Message.offset,
    Message.key,
    Message.value,
    Message.timestamp,
    Message.headers,
)
_milliseconds = itemgetter(1)


def split_errors(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """The records, and the error events that came among them."""
    if not any(map(_error, messages)):
        return messages, []
    return [m for m in messages if m.error() is None], [m for m in messages if m.error() is not None]


def batches(
    system: str,
    messages: list[Any],
    *,
    one_topic: bool,
    only: SystemStreamPartition | None = None,
    coarse: bool = False,
) -> Iterator[RecordBatch]:
    """One batch for each run of records of one partition. `only`: the one partition that they can be of, if there is but
    one. `coarse`: the time of a batch's last record for each of them, and no headers."""
    if only is not None:
        yield _batch(only, messages, coarse)
        return
    partitions = list(map(_partition, messages))
    for start, end in pairwise(_cuts(messages, partitions, one_topic=one_topic)):
        run = messages if end - start == len(messages) else messages[start:end]
        yield _batch(SystemStreamPartition(system, run[0].topic(), partitions[start]), run, coarse)


def _batch(ssp: SystemStreamPartition, run: Sequence[Any], coarse: bool) -> RecordBatch:
    keys, values = list(map(_key, run)), list(map(_value, run))
    if coarse:
        # A record's time costs as much as the rest of it.
        return RecordBatch(ssp, _offsets(run), keys, values, [run[-1].timestamp()[1]] * len(run))
    headers = list(map(_headers, run))
    times = list(map(_milliseconds, map(_timestamp, run)))
    return RecordBatch(ssp, list(map(_offset, run)), keys, values, times, headers if any(headers) else None)


def _offsets(run: Sequence[Any]) -> Sequence[int]:
    """They only grow, so as many as lie between the first and the last are all of those."""
    first, last = run[0].offset(), run[-1].offset()
    return range(first, last + 1) if last - first + 1 == len(run) else list(map(_offset, run))


def _cuts(messages: Sequence[Any], partitions: list[int], *, one_topic: bool) -> list[int]:
    """Where one run ends and the next begins, both ends included."""
    count = len(messages)
    cuts = set() if partitions.count(partitions[0]) == count else _changes(partitions)
    if not one_topic:
        cuts |= _changes(list(map(_topic, messages)))
    return [0, *sorted(cuts), count]


def _changes(column: Sequence[Any]) -> set[int]:
    return set(compress(range(1, len(column)), map(ne, column[1:], column)))
