"""Fetches the records of a consumer's partitions, as columns, without a Python frame for each record.

1. `NativeFetch`: from librdkafka's queues into columns, in one call of the compiled extension.
2. `MessageFetch`, without the extension: confluent-kafka makes a `Message` for each record, and the columns come from
   these.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from math import ceil
from threading import Lock
from time import sleep
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.system.kafka.client import Connection, extension, with_extension


class Event(NamedTuple):
    """An error that librdkafka reports among the records. `stream` is empty for one that is not of a partition."""

    error: KafkaError
    stream: str
    partition: int


Taken = tuple[list[RecordBatch], list[Event]]


class Fetch(ABC):
    """The records of one consumer's partitions."""

    @abstractmethod
    def follow(self, ssps: Iterable[SystemStreamPartition]) -> None:
        """Prepare for these partitions; called once, before they are assigned."""

    @abstractmethod
    def take(self, timeout_s: float, most: int) -> Taken:
        """At most `most` records, in order, one batch for each run of records of one partition, and the events among
        them. Waits up to `timeout_s` for the first one."""

    @abstractmethod
    def close(self) -> None:
        """Drop what was fetched; called before the consumer is closed."""


def open_consumer(connection: Connection, *, headers: bool) -> tuple[Any, Fetch]:
    """A consumer, and the fetch of its records. Without `headers` they may be left out. Raises ConfigError as
    `Connection.handle`."""
    if extension is None:
        client = connection.handle(Consumer)
        return client, MessageFetch(client, connection.system)
    client = connection.handle(Consumer, {**with_extension(connection.properties), **_OWN_ERRORS})
    found = list[Event]()
    queue = extension.FetchQueue(client, _noted(connection, found), headers)
    return client, NativeFetch(client, queue, connection.system, found)


#: A property of the extension: errors outside of calls go to its queue's `on_error`.
_OWN_ERRORS = {"samzapy.errors": "queue"}
#: The beginning of librdkafka's text about an error of a partition.
_PLACE = re.compile(r"(\S+) \[(-?\d+)\]: ")


def _noted(connection: Connection, found: list[Event]) -> Callable[[int, str], None]:
    """What the extension calls for an error outside of calls: one of a partition is added to `found`."""

    def note(code: int, text: str) -> None:
        error, place = KafkaError(code, text), _PLACE.match(text)
        if place is None:
            connection.note(error)
        else:
            found.append(Event(error, place[1], int(place[2])))

    return note


def _event_of(message: Any) -> Event:
    return Event(message.error(), message.topic() or "", message.partition())


class NativeFetch(Fetch):
    """Has a queue of its own, to which librdkafka forwards the records and events of the partitions."""

    def __init__(self, client: Any, queue: Any, system: str, found: list[Event]) -> None:
        """`found`: the queue appends errors of partitions."""
        self._client = client
        self._queue = queue
        self._found = found
        # The queue must not go while another thread waits for it.
        self._lock = Lock()
        self._system = system
        self._ssps: dict[tuple[str, int], SystemStreamPartition] = {}

    def follow(self, ssps: Iterable[SystemStreamPartition]) -> None:
        for ssp in ssps:
            self._ssps[ssp.stream, ssp.partition] = ssp
            self._queue.follow(ssp.stream, ssp.partition)

    def take(self, timeout_s: float, most: int) -> Taken:
        with self._lock:
            runs, reports = self._queue.take(most, ceil(timeout_s * 1_000))
        # Calls the callbacks, of which the own queue has none. Events of no partition come here, and no records. After
        # the records: what librdkafka has logged before it fetched them is known when they are returned.
        other = self._client.poll(0)
        ssps = self._ssps
        result = [RecordBatch(ssps[topic, partition], *columns) for topic, partition, *columns in runs]
        events = [Event(KafkaError(code, text), *place) for code, text, *place in reports] + self._found
        self._found.clear()
        if other is not None:
            assert other.error() is not None, "a record has not come by the queue of its partition"
            events.insert(0, _event_of(other))
        return result, events

    def close(self) -> None:
        with self._lock:
            self._queue.close()


def batches(system: str, messages: Iterable[Any]) -> Iterator[RecordBatch]:
    """One batch for each run of records of one partition. It keeps none of the messages."""
    for (topic, partition), group in groupby(messages, lambda message: (message.topic(), message.partition())):
        rows = [(m.offset(), m.key(), m.value(), m.timestamp()[1], m.headers()) for m in group]
        offsets, keys, values, times, headers = zip(*rows, strict=True)
        ssp = SystemStreamPartition(system, topic, partition)
        yield RecordBatch(ssp, offsets, keys, values, times, headers if any(headers) else None)


#: Messages become columns in slices: the garbage collector tracks librdkafka's objects, and runs whenever 700 new ones
#: (by default) are alive. With fewer at a time it never runs, which saves a third of the time.
_SLICE = 500
_PAUSE_S = 0.002  # between two polls for a first record


class MessageFetch(Fetch):
    """Takes the records from confluent-kafka's Messages."""

    def __init__(self, client: Any, system: str) -> None:
        self._client = client
        self._system = system

    def follow(self, ssps: Iterable[SystemStreamPartition]) -> None:
        """Do nothing: the consumer's own queue has everything."""

    def take(self, timeout_s: float, most: int) -> Taken:
        client, result, events = self._client, list[RecordBatch](), list[Event]()
        messages = client.consume(min(most, _SLICE), 0) or self._first(timeout_s, most)
        while messages:
            records = [message for message in messages if message.error() is None]
            events.extend(_event_of(message) for message in messages if message.error() is not None)
            taken = len(messages)
            messages = []  # so that they are gone before there are others
            result.extend(batches(self._system, records))
            records = []
            most -= taken
            if taken < _SLICE or most <= 0 or events:
                break
            messages = client.consume(min(most, _SLICE), 0)
        return result, events

    def _first(self, timeout_s: float, most: int) -> list[Any]:
        """Wait for a record, and take those with it. A wait of librdkafka's would end at a time of the wall clock."""
        for _ in range(ceil(timeout_s / _PAUSE_S)):
            sleep(_PAUSE_S)
            if (first := self._client.poll(0)) is not None:
                return [first, *self._client.consume(min(most, _SLICE) - 1, 0)]
        return []

    def close(self) -> None:
        """Do nothing: the consumer drops everything."""
