"""Records on their way into an embedded log, by partition, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.clock import Clock
from samzapy.errors import ProducerError, RecordTooLarge, UnknownPartition
from samzapy.system.embedded.topic import Topic
from samzapy.system.partitioner import KeyHashes


class Columns:
    """Records of one partition in order: columns of equal length."""

    __slots__ = ("headers", "keys", "timestamps", "values")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers | None] = []

    def __len__(self) -> int:
        return len(self.keys)


Batches = Mapping[SystemStreamPartition, Columns]


class PendingRecords:
    """Checks records, chooses their partitions and holds them until `take`. One thread.

    Null keys are spread round robin; a record without a timestamp gets the time at which it was added.
    """

    def __init__(self, system: str, topic_of: Callable[[str], Topic], clock: Clock) -> None:
        self._system = system
        self._topic_of = topic_of
        self._clock = clock
        self._topics: dict[str, Topic] = {}
        self._hashes = KeyHashes()
        self._spread = count()
        self._columns: dict[SystemStreamPartition, Columns] = {}
        self.records = 0
        self.size = 0

    def add(self, records: Iterable[OutgoingRecord]) -> None:
        """Queue records. Raises UnknownStream, RecordTooLarge, or ProducerError; some may be queued already then."""
        hashes, spread = self._hashes, self._spread
        groups: dict[tuple[str, int], list[OutgoingRecord]] = {}
        stream, partitions = None, 0
        for record in records:
            if record[0] != stream:
                stream = record[0]
                partitions = self._topic(stream).partitions
            partition = record[3]
            if partition is None:
                key = record[4] if record[4] is not None else record[1]
                partition = (hashes[key] if key is not None else next(spread)) % partitions
            target = (record[0], partition)
            group = groups.get(target)
            if group is None:
                groups[target] = [record]
            else:
                group.append(record)
        now = self._clock.wall_ms()
        for (name, partition), group in groups.items():
            _, keys, values, _, _, headers, times = zip(*group, strict=True)
            stamps = [now if time is None else time for time in times] if None in times else times
            self._extend(SystemStreamPartition(self._system, name, partition), keys, values, stamps, headers)

    def add_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None
    ) -> None:
        """Queue (key, value) pairs for one partition. Raises as `add` does."""
        pairs = list(changes)
        if pairs:
            keys, values = zip(*pairs, strict=True)
            times = [self._clock.wall_ms()] * len(keys)
            self._extend(
                SystemStreamPartition(self._system, stream, partition), keys, values, times, [headers] * len(keys)
            )

    def take(self) -> dict[SystemStreamPartition, Columns]:
        """Everything queued, in order per partition; the queue is empty afterwards."""
        taken, self._columns = self._columns, {}
        self.records = self.size = 0
        return taken

    def _extend(
        self,
        target: SystemStreamPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None],
    ) -> None:
        topic = self._topic(target.stream)
        if not 0 <= target.partition < topic.partitions:
            raise UnknownPartition(self._system, target.stream, target.partition, topic.partitions)
        if topic.compacted and None in keys:
            raise ProducerError(f"{target}: a record of a compacted stream needs a key, got None")
        sizes = list(map(_size, keys, values, headers)) if any(headers) else list(map(_plain_size, keys, values))
        if max(sizes) > topic.max_message_bytes:
            raise RecordTooLarge(str(target), max(sizes), topic.max_message_bytes)
        columns = self._columns.get(target)
        if columns is None:
            columns = self._columns[target] = Columns()
        columns.keys.extend(keys)
        columns.values.extend(values)
        columns.timestamps.extend(timestamps)
        columns.headers.extend(headers)
        self.records += len(keys)
        self.size += sum(sizes)

    def _topic(self, stream: str) -> Topic:
        found = self._topics.get(stream)
        if found is None:
            found = self._topics[stream] = self._topic_of(stream)
        return found


def _plain_size(key: bytes | None, value: bytes | None) -> int:
    return (len(key) if key else 0) + (len(value) if value else 0)


def _size(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    size = _plain_size(key, value)
    if headers:
        size += sum(len(name.encode()) + len(content or b"") for name, content in headers)
    return size
