"""Puts records into librdkafka's queue, and keeps what becomes of them.

1. `NativeQueue`: columns go into the queue in one call of the compiled extension, which notes the outcomes on
   librdkafka's threads.
2. `ReportedQueue`, without the extension: a call of confluent-kafka's `produce` for each record, with a callback,
   because a record without one fails silently. The callback is a dict's own `__setitem__`: librdkafka calls it with
   (error, message), so the dict holds the last delivered message under None and one failed message for each kind of
   error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingColumns
from samzapy.errors import ProducerError, SamzapyError, UnknownPartition
from samzapy.system.base import KeyHashes
from samzapy.system.kafka.client import Connection, extension, with_extension
from samzapy.system.kafka.errors import TOO_LARGE, delivery_error, error_of, transaction_error

Callback = Callable[[Any, Any], None]


class Failure(NamedTuple):
    """A record that was not acknowledged, and its size in bytes."""

    error: KafkaError
    stream: str
    partition: int
    size: int


#: The most seconds that sending waits for room in a full queue.
_QUEUE_S = 60.0
_FULL_PAUSE_S = 0.05
#: librdkafka's default for `message.max.bytes`.
LARGEST_RECORD = 1_000_000
_CHOSEN_BY_KEY = -1
#: A property of the client library, not of librdkafka.
_ONLY_FAILURES = "delivery.report.only.error"


class RecordQueue(ABC):
    """Puts records into one client's queue, in order; waits while the queue is full. `serve` lets librdkafka work."""

    def __init__(self, client: Any, connection: Connection, serve: Callable[[float], None]) -> None:
        self._client = client
        self._connection = connection
        self._serve = serve
        self._clock = connection.clock
        self._partitions: dict[str, int] = {}
        #: Streams with records since the last flush.
        self.streams: set[str] = set()
        self._hashes = KeyHashes()

    def send(self, columns: OutgoingColumns) -> None:
        """Queue records. Raises RecordTooLarge, UnknownStream, ProducerError, or the error for a fatal one."""
        self._put(columns, self._numbers(columns))
        self._serve(0)

    @abstractmethod
    def _put(self, columns: OutgoingColumns, numbers: int | Sequence[int]) -> None:
        """Queue records, each for the partition of its number, or all for one."""

    @abstractmethod
    def pause(self, *, on: bool) -> None:
        """Keep back what waits for the partitions of these streams, or send it again."""

    @abstractmethod
    def failures(self) -> Iterator[Failure]:
        """Some of the records that were not acknowledged since the last `settle` or `clear`."""

    @abstractmethod
    def settle(self) -> Mapping[tuple[str, int], int]:
        """The last offset of each partition with new records, as far as it is known; called after a flush without
        failures."""

    @abstractmethod
    def clear(self) -> None:
        """Forget failures, and offsets that are not settled."""

    def _numbers(self, columns: OutgoingColumns) -> int | Sequence[int]:
        """The partitions of the records, as numbers for librdkafka. Raises UnknownStream, UnknownPartition."""
        stream, partitions, deciding = columns.stream, columns.partitions, columns.partition_keys
        if isinstance(partitions, int) or (partitions is None and deciding is None):
            return self._known(stream, partitions)
        chosen: list[int | None] = [None] * columns.size if partitions is None else list(partitions)
        count, hashes = self._partition_count(stream), self._hashes
        for at, partition_key in enumerate(deciding or ()):
            if partition_key is not None and chosen[at] is None:
                chosen[at] = hashes[partition_key] % count
        numbers = {partition: self._known(stream, partition) for partition in set(chosen)}
        return [numbers[partition] for partition in chosen]

    def _known(self, stream: str, partition: int | None) -> int:
        """The partition's number for librdkafka. Raises UnknownStream, UnknownPartition."""
        count = self._partition_count(stream)
        if partition is None:
            return _CHOSEN_BY_KEY
        if not 0 <= partition < count:
            raise UnknownPartition(self._connection.system, stream, partition, count)
        return partition

    def _partition_count(self, stream: str) -> int:
        self.streams.add(stream)
        count = self._partitions.get(stream)
        if count is None:
            first = SystemStreamPartition(self._connection.system, stream, 0)
            ask = partial(self._connection.all_counts, self._client)
            self._partitions = self._connection.partition_counts(self._client, [first], ask)
            count = self._partitions[stream]
        return count

    def _wait_for_room(self, deadline: float) -> None:
        """Let the full queue send something. Raises ProducerError after the monotonic time `deadline`."""
        if self._clock.monotonic() > deadline:
            servers = self._connection.servers
            text = f"the queue to {servers} stayed full for {_QUEUE_S:.0f} s, is it up?"
            raise ProducerError(text, outage=True)
        self._serve(_FULL_PAUSE_S)

    def _refused(
        self, error: KafkaError, stream: str, partition: int, key: bytes | None, value: bytes | None
    ) -> SamzapyError:
        where = f"{self._connection.system}.{stream}" + (f"[{partition}]" if partition >= 0 else "")
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001
            return transaction_error(error, where, self._connection.who)
        limit = int(self._connection.properties.get("message.max.bytes", LARGEST_RECORD))
        if error.code() in TOO_LARGE:
            where += f": key {key and key[:64]!r}"
        size = len(value or b"") + len(key or b"")
        return delivery_error(error, self._connection.system, where, size, limit, self._connection.who)


class NativeQueue(RecordQueue):
    """Calls the compiled extension."""

    def __init__(self, native: Any, *others: Any) -> None:
        """`native`: the extension's queue of the client."""
        super().__init__(*others)
        self._native = native

    def _put(self, columns: OutgoingColumns, numbers: int | Sequence[int]) -> None:
        stream, keys, values = columns.stream, columns.keys, columns.values
        done, code = 0, KafkaError._QUEUE_FULL  # noqa: SLF001
        deadline, waiting = 0.0, 0
        while code == KafkaError._QUEUE_FULL:  # noqa: SLF001
            done, code = self._native.put(stream, done, numbers, keys, values, columns.timestamps, columns.headers)
            if code == KafkaError._QUEUE_FULL:  # noqa: SLF001
                if not deadline or waiting != done:
                    deadline, waiting = self._clock.monotonic() + _QUEUE_S, done
                self._wait_for_room(deadline)
        if code:
            number = numbers if isinstance(numbers, int) else numbers[done]
            raise self._refused(KafkaError(code), stream, number, keys[done] if keys else None, values[done])

    def pause(self, *, on: bool) -> None:
        self._native.pause({stream: self._partitions.get(stream, 0) for stream in self.streams}, on)

    def failures(self) -> Iterator[Failure]:
        for code, stream, partition, size in self._native.failures():
            yield Failure(KafkaError(code), stream, partition, size)

    def settle(self) -> Mapping[tuple[str, int], int]:
        last = {(stream, partition): offset for stream, partition, offset in self._native.offsets()}
        self._native.clear()
        return last

    def clear(self) -> None:
        self._native.clear()


class ReportedQueue(RecordQueue):
    """Calls confluent-kafka's `produce`. Of records whose partition librdkafka chooses (None), the delivery is known,
    and the last offset is not."""

    def __init__(self, *others: Any) -> None:
        super().__init__(*others)
        self._reports: dict[tuple[str, int | None], dict[Any, Any]] = {}

    def report(self, topic: str, partition: int | None) -> Callback:
        """The callback for the records of a partition."""
        return self._reports.setdefault((topic, partition), {}).__setitem__

    def _put(self, columns: OutgoingColumns, numbers: int | Sequence[int]) -> None:
        absent, stream = repeat(None), columns.stream
        produce, report = self._client.produce, self.report
        rows = zip(
            repeat(numbers) if isinstance(numbers, int) else numbers,
            absent if columns.keys is None else columns.keys,
            columns.values,
            absent if columns.headers is None else columns.headers,
            absent if columns.timestamps is None else columns.timestamps,
            strict=False,
        )
        for number, key, value, headers, time_ms in rows:
            callback = report(stream, None if number < 0 else number)
            # librdkafka takes a time of 0 for now. on_delivery stays out: it is another name for the callback.
            arguments: tuple[Any, ...] = (stream, value, key, number, callback)
            if headers is not None or time_ms is not None:
                arguments += (None, 0 if time_ms is None else time_ms or 1, None if headers is None else list(headers))
            try:
                produce(*arguments)
            except (BufferError, KafkaException) as cause:
                self._try_again(arguments, cause)

    def _try_again(self, arguments: tuple[Any, ...], cause: Exception) -> None:
        """Wait for room in the queue and produce the record that did not fit; translate and raise any other `cause`."""
        deadline = self._clock.monotonic() + _QUEUE_S
        while isinstance(cause, BufferError):
            self._wait_for_room(deadline)
            try:
                self._client.produce(*arguments)
            except (BufferError, KafkaException) as again:
                cause = again
            else:
                return
        stream, value, key, partition = arguments[:4]
        raise self._refused(error_of(cause), stream, partition, key, value) from cause

    def pause(self, *, on: bool) -> None:
        """confluent-kafka pauses consumers only."""

    def failures(self) -> Iterator[Failure]:
        for reports in self._reports.values():
            for error, message in reports.items():
                if error is not None:
                    size = len(message.value() or b"") + len(message.key() or b"")
                    yield Failure(error, message.topic(), message.partition(), size)

    def settle(self) -> Mapping[tuple[str, int], int]:
        delivered = {target: reports[None] for target, reports in self._reports.items() if reports}
        self.clear()
        return {
            (topic, partition): message.offset()
            for (topic, partition), message in delivered.items()
            if partition is not None
        }

    def clear(self) -> None:
        for reports in self._reports.values():
            reports.clear()


def open_producer(
    connection: Connection, serve: Callable[[float], None], *, with_offsets: bool
) -> tuple[Any, RecordQueue]:
    """A producer and its queue. `with_offsets`: `settle` has to know last offsets. Raises ConfigError as
    `Connection.handle`."""
    properties = connection.properties
    if extension is None:
        client = connection.handle(Producer, {**properties, _ONLY_FAILURES: not with_offsets})
        return client, ReportedQueue(client, connection, serve)
    client = connection.handle(Producer, with_extension(properties))
    return client, NativeQueue(extension.ProduceQueue(client, with_offsets), client, connection, serve)
