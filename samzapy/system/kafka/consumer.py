"""Reads assigned partitions as columns, without a Python frame for each message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, pairwise
from operator import itemgetter, ne
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.errors import EnvironmentFailure, OffsetOutOfRange, SamzapyError
from samzapy.system.kafka.client import ClientErrors, counts_of, make_client, partition_counts
from samzapy.system.kafka.errors import error_of, general_error

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


def _times(records: Sequence[Any]) -> list[int]:
    """The times of records, read now, even if nothing looks at them later.

    A time costs as much as any three other columns. But a column for later would keep librdkafka's objects, and that costs
    more: released at once, they leave their memory, still in the processor's cache, to the next ones."""
    return list(map(_milliseconds, map(_timestamp, records)))


def split_errors(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """Separate the records from the error events among them."""
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
    """One batch for each run of records of one partition. `only`: the partition of all records, if just one is assigned.
    `coarse`: every record of a batch gets the time of its last one, and no headers."""
    if only is not None:
        yield _batch(only, messages, coarse)
        return
    partitions = list(map(_partition, messages))
    for start, end in pairwise(_cuts(messages, partitions, one_topic=one_topic)):
        run = messages if end - start == len(messages) else messages[start:end]
        yield _batch(SystemStreamPartition(system, run[0].topic(), partitions[start]), run, coarse)


def _batch(ssp: SystemStreamPartition, run: Sequence[Any], coarse: bool) -> RecordBatch:
    offsets, keys, values = _offsets(run), list(map(_key, run)), list(map(_value, run))
    if coarse:
        return RecordBatch(ssp, offsets, keys, values, [run[-1].timestamp()[1]] * len(run))
    headers = list(map(_headers, run)) if any(map(_headers, run)) else None
    return RecordBatch(ssp, offsets, keys, values, _times(run), headers)


def _offsets(run: Sequence[Any]) -> Sequence[int]:
    """The offsets of a run. They only grow: if there are as many as lie between the first and the last, they are a range."""
    first, last = run[0].offset(), run[-1].offset()
    return range(first, last + 1) if last - first + 1 == len(run) else list(map(_offset, run))


def _cuts(messages: Sequence[Any], partitions: list[int], *, one_topic: bool) -> list[int]:
    """The indexes between runs, with 0 and the number of messages."""
    count = len(messages)
    cuts = set() if partitions.count(partitions[0]) == count else _changes(partitions)
    if not one_topic:
        cuts |= _changes(list(map(_topic, messages)))
    return [0, *sorted(cuts), count]


def _changes(column: Sequence[Any]) -> set[int]:
    return set(compress(range(1, len(column)), map(ne, column[1:], column)))


#: Messages become columns in slices: the garbage collector tracks librdkafka's objects, and runs whenever 700 new ones (by
#: default) are alive. With fewer at a time it never runs, which saves a third of the time.
_SLICE = 500
_WATERMARKS_S = 5.0


class KafkaConsumer(SystemConsumer):
    """A consumer without a group's rebalances: `assign` only.

    While a broker is away, librdkafka waits for it, and polls return nothing.
    """

    def __init__(self, properties: Mapping[str, str], client_errors: ClientErrors) -> None:
        self._properties = properties
        self._client_errors = client_errors
        self._client: Any = None
        self._positions: dict[SystemStreamPartition, int] = {}
        self._paused: set[SystemStreamPartition] = set()
        self._one_topic = True
        self._only: SystemStreamPartition | None = None
        self._failure: SamzapyError | None = None

    def register(self, ssp: SystemStreamPartition, offset: int) -> None:
        if self._client is not None:
            raise EnvironmentFailure(f"{ssp}: partitions are registered before start")
        self._positions[ssp] = offset

    def start(self) -> None:
        self._client = make_client(Consumer, self._properties, self._client_errors)
        topics = {ssp.stream for ssp in self._positions}
        ask = partial(counts_of, self._client, self._client_errors, topics)
        partition_counts(self._client, self._client_errors, self._positions, ask)
        self._one_topic = len(topics) < 2
        self._only = next(iter(self._positions)) if len(self._positions) == 1 else None
        self._call(lambda client: client.assign([_at(ssp, offset) for ssp, offset in self._positions.items()]))

    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        client = self._client
        if client is None or self._failure is not None:
            raise self._why_not()
        found: list[RecordBatch] = []
        try:
            messages = client.consume(min(max_records, _SLICE), 0) or self._first(timeout_s, max_records)
            while messages:
                found.extend(self._batches(messages))
                taken = len(messages)
                messages = []  # so that they are gone before there are others
                max_records -= taken
                if taken < _SLICE or max_records <= 0 or self._failure is not None:
                    break
                messages = client.consume(min(max_records, _SLICE), 0)
        except KafkaException as cause:
            raise general_error(error_of(cause), self._client_errors.system, self._client_errors.servers) from cause
        if self._failure is not None and not found:
            raise self._failure
        return found

    def position(self, ssp: SystemStreamPartition) -> int:
        known = self._positions[ssp]
        if self._client is None:
            return known
        # librdkafka's position also passes records that it never delivers: control records, aborted transactions.
        found: int = self._call(lambda client: client.position([_at(ssp)]))[0].offset
        return max(known, found)

    def seek(self, ssp: SystemStreamPartition, offset: int) -> None:
        if ssp not in self._positions:
            raise EnvironmentFailure(f"{ssp}: not registered with this consumer")
        self._positions[ssp] = offset
        # Other failures stay: the seek does not mend them.
        if isinstance(self._failure, OffsetOutOfRange) and self._failure.ssp == ssp:
            self._failure = None
        if self._client is None:
            return
        # librdkafka's seek fails on a partition that has not begun to fetch. A new assignment always works: it drops the
        # fetched records and the old position.
        self._call(lambda client: client.incremental_unassign([_at(ssp)]))
        self._call(lambda client: client.incremental_assign([_at(ssp, offset)]))
        if ssp in self._paused:
            self.pause([ssp])

    def pause(self, ssps: Iterable[SystemStreamPartition]) -> None:
        chosen = list(ssps)
        self._paused.update(chosen)
        self._call(lambda client: client.pause(list(map(_at, chosen))))

    def resume(self, ssps: Iterable[SystemStreamPartition]) -> None:
        chosen = [ssp for ssp in ssps if ssp in self._paused]
        self._paused.difference_update(chosen)
        self._call(lambda client: client.resume(list(map(_at, chosen))))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def metrics(self) -> Mapping[str, float]:
        return self._client_errors.statistics.metrics()

    def _first(self, timeout_s: float, max_records: int) -> list[Any]:
        """Wait for one record and take the records that came with it. consume(n, t) would wait the whole t for n records."""
        first = self._client.poll(timeout_s)
        if first is None:
            self._client_errors.check()
            return []
        rest = min(max_records, _SLICE) - 1
        return [first, *self._client.consume(rest, 0)] if rest else [first]

    def _batches(self, messages: list[Any]) -> list[RecordBatch]:
        """The records as columns; an error among them is raised after they have been returned."""
        records, errors = split_errors(messages)
        if errors:
            self._failure = self._error(errors[0])
        positions, found = self._positions, list[RecordBatch]()
        if records:
            system, one_topic, coarse = self._client_errors.system, self._one_topic, self.coarse
            found = list(batches(system, records, one_topic=one_topic, only=self._only, coarse=coarse))
        for batch in found:
            positions[batch.ssp] = batch.offsets[-1] + 1
        return found

    def _error(self, event: Any) -> SamzapyError:
        error = event.error()
        ssp = SystemStreamPartition(self._client_errors.system, event.topic() or "", event.partition())
        if error.code() == KafkaError._AUTO_OFFSET_RESET and ssp in self._positions:  # noqa: SLF001
            low, high = self._call(lambda client: client.get_watermark_offsets(_at(ssp), timeout=_WATERMARKS_S))
            return OffsetOutOfRange(ssp, self._positions[ssp], low, high)
        return general_error(
            error, self._client_errors.system, str(ssp) if event.topic() else self._client_errors.servers
        )

    def _call(self, call: Any) -> Any:
        if self._client is None:
            raise self._why_not()
        try:
            return call(self._client)
        except KafkaException as cause:
            raise general_error(error_of(cause), self._client_errors.system, self._client_errors.servers) from cause

    def _why_not(self) -> SamzapyError:
        if self._failure is not None:
            return self._failure
        return EnvironmentFailure(f"the consumer of system '{self._client_errors.system}' is not started, or closed")


def _at(ssp: SystemStreamPartition, offset: int | None = None) -> Any:
    return TopicPartition(ssp.stream, ssp.partition) if offset is None else TopicPartition(*ssp[1:], offset)
