"""The way of records into librdkafka's queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.clock import Clock
from samzapy.errors import ProducerError, SamzapyError, UnknownPartition
from samzapy.system.kafka.batching import Message, change_batch, plain_batch
from samzapy.system.kafka.client import Alarms
from samzapy.system.kafka.errors import delivery_error, error_of, transaction_error
from samzapy.system.kafka.reports import Callback, DeliveryReports
from samzapy.system.kafka.topics import partition_counts
from samzapy.system.partitioner import KeyHashes

#: How long sending may wait for room in a full queue.
_QUEUE_S = 60.0
_FULL_PAUSE_S = 0.05
#: librdkafka's default for `message.max.bytes`.
_LARGEST_RECORD = 1_000_000
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
        alarms: Alarms,
        reports: DeliveryReports,
        serve: Callable[[float], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._properties = properties
        self._alarms = alarms
        self._reports = reports
        self._serve = serve
        self._clock = clock
        self._size = int(properties.get("queue.buffering.max.messages", 100_000))
        self._partitions: dict[str, int] = {}
        self._hashes = KeyHashes()

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        """Queue records. Raises RecordTooLarge, UnknownStream, ProducerError, or what a fatal error means."""
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
                servers = self._alarms.servers
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
        where = f"{self._alarms.system}.{stream}" + (f"[{partition}]" if partition >= 0 else "")
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001
            return transaction_error(error, where)
        limit = int(self._properties.get("message.max.bytes", _LARGEST_RECORD))
        return delivery_error(error, self._alarms.system, where, size, limit)

    def _target(self, stream: str, partition: int | None) -> tuple[int, Callback]:
        """The partition's number for librdkafka, and the callback of its records; raises UnknownStream."""
        count = self._partition_count(stream)
        if partition is None:
            return _CHOSEN_BY_KEY, self._reports.callback(stream, None)
        if not 0 <= partition < count:
            raise UnknownPartition(self._alarms.system, stream, partition, count)
        return partition, self._reports.callback(stream, partition)

    def _partition_count(self, stream: str) -> int:
        count = self._partitions.get(stream)
        if count is None:
            first = SystemStreamPartition(self._alarms.system, stream, 0)
            self._partitions = partition_counts(self._client, self._alarms, [first], self._clock)
            count = self._partitions[stream]
        return count
