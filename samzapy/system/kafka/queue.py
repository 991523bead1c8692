"""Puts records into librdkafka's queue, and keeps their delivery reports.

1. Every record carries a callback, because a record without one fails silently. The callback is a dict's own
   `__setitem__`: librdkafka calls it with (error, message), so the dict holds the last delivered message under None and
   one failed message for each kind of error, and no Python frame runs for a record.
2. `produce_batch` takes many records in one call, but neither headers nor time stamps. A record that does not fit its queue
   stays behind with an error. So only batches without headers and time stamps go that way, and only when all of them fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.clock import Clock
from samzapy.errors import ProducerError, SamzapyError, UnknownPartition
from samzapy.system.kafka.client import ClientErrors, partition_counts
from samzapy.system.kafka.errors import delivery_error, error_of, transaction_error
from samzapy.system.partitioner import KeyHashes

Callback = Callable[[Any, Any], None]


class DeliveryReports:
    """Reports by topic and partition; `callback` is what `produce` is given. A partition of None stands for records
    that librdkafka chooses the partition of: their delivery is known, their last offsets are not."""

    __slots__ = ("_last", "_reports")

    def __init__(self) -> None:
        self._reports: dict[tuple[str, int | None], dict[Any, Any]] = {}
        self._last: dict[tuple[str, int], int] = {}

    def callback(self, topic: str, partition: int | None) -> Callback:
        """For records of one partition, or of None."""
        target = (topic, partition)
        reports = self._reports.get(target)
        if reports is None:
            reports = self._reports[target] = {}
        return reports.__setitem__

    def failures(self) -> Iterator[tuple[Any, Any]]:
        """(error, message) of records that were not acknowledged since the last `settle`."""
        for reports in self._reports.values():
            if len(reports) > 1 or (reports and None not in reports):
                yield from ((error, message) for error, message in reports.items() if error is not None)

    def settle(self) -> None:
        """Keep the last offsets and forget the messages; after a flush without failures."""
        for (topic, partition), reports in self._reports.items():
            if reports and partition is not None:
                self._last[topic, partition] = reports[None].offset()
            reports.clear()

    def clear(self) -> None:
        """Forget the reports; the last offsets of earlier flushes stay."""
        for reports in self._reports.values():
            reports.clear()

    def last_offset(self, topic: str, partition: int) -> int | None:
        """As of the last `settle`."""
        return self._last.get((topic, partition))


#: Larger batches, in bytes of keys and values, go record by record, waiting for room as they go.
_MOST_BYTES = 8_388_608

Message = dict[str, Any]


def plain_batch(records: Sequence[OutgoingRecord]) -> list[Message] | None:
    """The messages, if all records go to one stream, where librdkafka chooses the partition, and carry nothing more."""
    if not records:
        return None
    streams, keys, values, partitions, partition_keys, headers, timestamps = zip(*records, strict=True)
    count = len(records)
    nothing = partitions.count(None) + partition_keys.count(None) + headers.count(None) + timestamps.count(None)
    if nothing != 4 * count or streams.count(streams[0]) != count:
        return None
    return _messages(zip(keys, values, strict=True), keys, values)


def change_batch(changes: Sequence[tuple[bytes, bytes | None]]) -> list[Message] | None:
    """The messages of a changelog's part of a commit."""
    if not changes:
        return None
    keys, values = zip(*changes, strict=True)
    return _messages(changes, keys, values)


def _messages(
    pairs: Iterable[tuple[Any, Any]], keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> list[Message] | None:
    size = sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
    if size > _MOST_BYTES:
        return None
    return [{"key": key, "value": value} for key, value in pairs]


#: How long sending may wait for room in a full queue.
_QUEUE_S = 60.0
_FULL_PAUSE_S = 0.05
#: librdkafka's default for `message.max.bytes`.
LARGEST_RECORD = 1_000_000
_CHOSEN_BY_KEY = -1
#: Records in one call of librdkafka.
_BATCH = 5_000


class RecordQueue:
    """Puts records into one client's queue, in order; a full queue is waited for. `serve` delivers its reports.

    Records that need nothing but a key and a value go in batches; those with headers, a time stamp or a partition of
    their own go one by one.
    """

    def __init__(
        self,
        client: Any,
        properties: Mapping[str, str],
        client_errors: ClientErrors,
        reports: DeliveryReports,
        serve: Callable[[float], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._properties = properties
        self._client_errors = client_errors
        self._reports = reports
        self._serve = serve
        self._clock = clock
        self._size = int(properties.get("queue.buffering.max.messages", 100_000))
        self._partitions: dict[str, int] = {}
        self._hashes = KeyHashes()

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        """Queue records. Raises RecordTooLarge, UnknownStream, ProducerError, or the error for a fatal one."""
        for first in range(0, len(records), _BATCH):
            part = records[first : first + _BATCH] if len(records) > _BATCH else records
            messages = plain_batch(part)
            if messages is None or not self._produce_batch(part[0].stream, None, messages):
                self._produce(part)
        self._serve(0)

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None
    ) -> None:
        """Queue the pairs for one partition; raises as `send` does."""
        rest, carried = iter(changes), list(headers) if headers else None
        while part := list(islice(rest, _BATCH)):
            messages = change_batch(part) if carried is None else None
            if messages is None or not self._produce_batch(stream, partition, messages):
                self._produce(OutgoingRecord(stream, key, value, partition, None, carried) for key, value in part)
        self._serve(0)

    def _produce(self, records: Iterable[OutgoingRecord]) -> None:
        produce = self._client.produce
        targets: dict[tuple[str, int | None], tuple[int, Callback]] = {}
        for stream, key, value, partition, partition_key, headers, timestamp in records:
            if partition is None and partition_key is not None:
                partition = self._hashes[partition_key] % self._partition_count(stream)  # noqa: PLW2901
            target = targets.get((stream, partition))
            if target is None:
                target = targets[stream, partition] = self._target(stream, partition)
            number, report = target
            carried = None if headers is None else list(headers)
            try:
                produce(stream, value, key, number, report, report, timestamp or 0, carried)
            except (BufferError, KafkaException) as cause:
                self._try_again((stream, value, key, number, report, report, timestamp or 0, carried), cause)

    def _produce_batch(self, stream: str, partition: int | None, messages: list[Message]) -> bool:
        """Queue all of them in one call; False, and nothing is queued, if there is no room for all."""
        client = self._client
        if len(client) + len(messages) > self._size:
            self._serve(0)
            if len(client) + len(messages) > self._size:
                return False
        number, report = self._target(stream, partition)
        taken = client.produce_batch(stream, messages, number, report)
        for at, message in enumerate(messages if taken < len(messages) else ()):
            if "_error" not in message:
                continue
            key, value, error = message["key"], message["value"], message["_error"]
            if at < taken or error.code() != KafkaError._QUEUE_FULL:  # noqa: SLF001
                raise self._refused(error, stream, number, len(value or b"") + len(key or b""))
            # The queue's bytes ran out before its slots: the rest, in order, waits for room.
            self._try_again((stream, value, key, number, report, report, 0, None), BufferError())
        return True

    def _try_again(self, arguments: tuple[Any, ...], cause: Exception) -> None:
        """Wait for room in the queue and produce what did not fit; any other `cause` is raised as one of ours."""
        client = self._client
        deadline = self._clock.monotonic() + _QUEUE_S
        while isinstance(cause, BufferError):
            if self._clock.monotonic() > deadline:
                servers = self._client_errors.servers
                raise ProducerError(f"the queue to {servers} stayed full for {_QUEUE_S:.0f} s, is it up?") from cause
            self._serve(_FULL_PAUSE_S)
            try:
                client.produce(*arguments)
            except (BufferError, KafkaException) as again:
                cause = again
            else:
                return
        stream, value, key, partition = arguments[:4]
        raise self._refused(error_of(cause), stream, partition, len(value or b"") + len(key or b"")) from cause

    def _refused(self, error: KafkaError, stream: str, partition: int, size: int) -> SamzapyError:
        where = f"{self._client_errors.system}.{stream}" + (f"[{partition}]" if partition >= 0 else "")
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001
            return transaction_error(error, where)
        limit = int(self._properties.get("message.max.bytes", LARGEST_RECORD))
        return delivery_error(error, self._client_errors.system, where, size, limit)

    def _target(self, stream: str, partition: int | None) -> tuple[int, Callback]:
        """The partition's number for librdkafka, and the callback of its records; raises UnknownStream."""
        count = self._partition_count(stream)
        if partition is None:
            return _CHOSEN_BY_KEY, self._reports.callback(stream, None)
        if not 0 <= partition < count:
            raise UnknownPartition(self._client_errors.system, stream, partition, count)
        return partition, self._reports.callback(stream, partition)

    def _partition_count(self, stream: str) -> int:
        count = self._partitions.get(stream)
        if count is None:
            first = SystemStreamPartition(self._client_errors.system, stream, 0)
            self._partitions = partition_counts(self._client, self._client_errors, [first], self._clock)
            count = self._partitions[stream]
        return count
