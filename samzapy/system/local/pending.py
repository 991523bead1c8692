"""The records that a producer holds until a flush writes them together, as columns by partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from operator import add
from typing import Any

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingColumns
from samzapy.clock import Clock
from samzapy.errors import ProducerError, RecordTooLarge, UnknownPartition
from samzapy.system.local.topic import Topic
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
        self._hashes = KeyHashes()
        self._spread = count()
        self._columns: dict[SystemStreamPartition, Columns] = {}
        self.records = 0
        self.size = 0

    def add(self, columns: OutgoingColumns) -> None:
        """Queue records. Raises UnknownStream, RecordTooLarge, or ProducerError; some may be queued already then."""
        stream, values, absent = columns.stream, columns.values, (None,) * columns.size
        if not values:
            return
        keys, headers = columns.keys or absent, columns.headers or absent
        now = self._clock.wall_ms()
        stamps = [now if time is None else time for time in columns.timestamps or absent]
        if isinstance(columns.partitions, int):
            self._extend(stream, columns.partitions, keys, values, stamps, headers)
            return
        places: dict[int, list[int]] = {}
        for place, partition in enumerate(self._partitions(columns, keys, absent)):
            places.setdefault(partition, []).append(place)
        for partition, chosen in places.items():
            parts: list[list[Any]] = [[column[place] for place in chosen] for column in (keys, values, stamps, headers)]
            self._extend(stream, partition, *parts)

    def take(self) -> dict[SystemStreamPartition, Columns]:
        """Take all queued records, in order per partition."""
        taken, self._columns = self._columns, {}
        self.records = self.size = 0
        return taken

    def _partitions(
        self, columns: OutgoingColumns, keys: Sequence[bytes | None], absent: Sequence[None]
    ) -> Sequence[int]:
        """The partition of each record."""
        count, hashes, spread = self._topic_of(columns.stream).partitions, self._hashes, self._spread
        named, deciding = columns.partitions, columns.partition_keys
        if deciding is not None:
            keys = [key if chosen is None else chosen for key, chosen in zip(keys, deciding, strict=True)]
        assert not isinstance(named, int)
        return [
            number if number is not None else (next(spread) if key is None else hashes[key]) % count
            for number, key in zip(absent if named is None else named, keys, strict=True)
        ]

    def _extend(
        self,
        stream: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None],
    ) -> None:
        topic, target = self._topic_of(stream), SystemStreamPartition(self._system, stream, partition)
        if not 0 <= partition < topic.partitions:
            raise UnknownPartition(self._system, stream, partition, topic.partitions)
        if topic.compacted and None in keys:
            raise ProducerError(f"{target}: a record of a compacted stream needs a key, got None")
        sizes = _sizes(keys, values, headers)
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


def _sizes(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[Headers | None]
) -> list[int]:
    if any(headers):
        return list(map(_size, keys, values, headers))
    try:
        return list(map(add, map(len, keys), map(len, values)))  # type: ignore[arg-type]
    except TypeError:  # a null
        return list(map(_size, keys, values, headers))


def _size(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    size = (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers or ():
        size += len(name) if name.isascii() else len(name.encode())
        if content:
            size += len(content)
    return size
