"""Puts records into librdkafka's queue, and keeps their delivery reports.

1. Every record carries a callback, because a record without one fails silently. The callback is a dict's own
   `__setitem__`: librdkafka calls it with (error, message), so the dict holds the last delivered message under None and
   one failed message for each kind of error, and no Python frame runs for a record.
2. `produce` is mapped over columns. One call costs no more than one record's share of `produce_batch`, which needs a dict
   for each record, and supports neither headers nor timestamps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import length_hint
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingColumns, OutgoingRecord
from samzapy.clock import Clock
from samzapy.errors import ProducerError, SamzapyError, UnknownPartition
from samzapy.system.kafka.client import ClientErrors, all_counts, partition_counts
from samzapy.system.kafka.errors import delivery_error, error_of, transaction_error
from samzapy.system.partitioner import KeyHashes

Callback = Callable[[Any, Any], None]


class DeliveryReports:
    """Reports by topic and partition; `callback` is the argument for `produce`. The partition None stands for records with a
    partition of librdkafka's choice: their delivery is known, their last offsets are not."""

    __slots__ = ("_last", "_reports")

    def __init__(self) -> None:
        self._reports: dict[tuple[str, int | None], dict[Any, Any]] = {}
        self._last: dict[tuple[str, int], int] = {}

    def callback(self, topic: str, partition: int | None) -> Callback:
        """The callback for records of one partition, or of None."""
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
        """Keep the last offsets and forget the messages; called after a flush without failures."""
        for (topic, partition), reports in self._reports.items():
            if reports and partition is not None:
                self._last[topic, partition] = reports[None].offset()
            reports.clear()

    def clear(self) -> None:
        """Forget the reports; the last offsets of earlier flushes stay."""
        for reports in self._reports.values():
            reports.clear()

    def last_offset(self, topic: str, partition: int) -> int | None:
        """The last offset in the partition as of the last `settle`."""
        return self._last.get((topic, partition))


class RecordColumns(NamedTuple):
    """Records as columns of equal length, in the order of `OutgoingRecord`."""

    streams: Sequence[str]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    partitions: Sequence[int | None]
    partition_keys: Sequence[bytes | None]
    headers: Sequence[Headers | None]
    timestamps: Sequence[int | None]

    @classmethod
    def of(cls, records: Sequence[OutgoingRecord]) -> RecordColumns:
        """The columns of at least one record."""
        return cls(*zip(*records, strict=True))

    @classmethod
    def of_columns(cls, columns: OutgoingColumns) -> RecordColumns:
        """Build them from columns that a task has sent."""
        none = (None,) * columns.size
        others: list[Any] = [none if each is None else each for each in columns[1:]]
        return cls((columns.stream,) * columns.size, *others)

    @property
    def free(self) -> bool:
        """Whether librdkafka chooses the partition of every record."""
        count = len(self.streams)
        return self.partitions.count(None) == count and self.partition_keys.count(None) == count


#: The most seconds that sending waits for room in a full queue.
_QUEUE_S = 60.0
_FULL_PAUSE_S = 0.05
#: librdkafka's default for `message.max.bytes`.
LARGEST_RECORD = 1_000_000
_CHOSEN_BY_KEY = -1
#: The number of a commit's changes that become columns at a time.
_PART = 5_000


class RecordQueue:
    """Puts records into one client's queue, in order; waits while the queue is full. `serve` delivers its reports."""

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
        self._partitions: dict[str, int] = {}
        self._hashes = KeyHashes()

    def send(self, records: RecordColumns) -> None:
        """Queue records. Raises RecordTooLarge, UnknownStream, ProducerError, or the error for a fatal one."""
        streams, keys, values, _, _, headers, timestamps = records
        numbers, reports = self._targets(records)
        columns: list[Sequence[Any]] = [streams, values, keys, numbers, reports]
        count = len(streams)
        if headers.count(None) < count or timestamps.count(None) < count:
            carried = [None if held is None else list(held) for held in headers]
            # on_delivery stays out: it is another name for the callback.
            # librdkafka takes 0 for now.
            times = [0 if time_ms is None else time_ms or 1 for time_ms in timestamps]
            columns += [(None,) * count, times, carried]
        self._produce(columns)
        self._serve(0)

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None
    ) -> None:
        """Queue the pairs for one partition; raises as `send` does."""
        number, report = self._target(stream, partition)
        rest, carried = iter(changes), list(headers) if headers else None
        while part := list(islice(rest, _PART)):
            keys, values = zip(*part, strict=True)
            constants = (stream, number, report) if carried is None else (stream, number, report, None, 0, carried)
            streams, *others = ((each,) * len(part) for each in constants)
            self._produce([streams, values, keys, *others])
        self._serve(0)

    def _produce(self, columns: Sequence[Sequence[Any]]) -> None:
        """Call `produce` with the rows of the columns."""
        first, *others = columns
        rest = iter(first)
        calls = map(self._client.produce, rest, *others)
        while True:
            try:
                # Draining a map needs no Python frame for each record; after an exception it continues behind it.
                deque(calls, maxlen=0)
            except (BufferError, KafkaException) as cause:
                at = len(first) - length_hint(rest) - 1
                self._try_again(tuple(column[at] for column in columns), cause)
            else:
                return

    def _targets(self, records: RecordColumns) -> tuple[Sequence[int], Sequence[Callback]]:
        """The partition of each record, as a number for librdkafka, and the callback of its report."""
        streams, partitions = records.streams, records.partitions
        count = len(streams)
        if records.free and streams.count(streams[0]) == count:
            number, report = self._target(streams[0], None)
            return (number,) * count, (report,) * count
        chosen = list(partitions)
        for at, partition_key in enumerate(records.partition_keys):
            if partition_key is not None and partitions[at] is None:
                chosen[at] = self._hashes[partition_key] % self._partition_count(streams[at])
        targets = {target: self._target(*target) for target in dict.fromkeys(zip(streams, chosen, strict=True))}
        numbers, reports = zip(*map(targets.__getitem__, zip(streams, chosen, strict=True)), strict=True)
        return numbers, reports

    def _try_again(self, arguments: tuple[Any, ...], cause: Exception) -> None:
        """Wait for room in the queue and produce the record that did not fit; translate and raise any other `cause`."""
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
            ask = partial(all_counts, self._client, self._client_errors, self._clock)
            self._partitions = partition_counts(self._client, self._client_errors, [first], ask, self._clock)
            count = self._partitions[stream]
        return count
