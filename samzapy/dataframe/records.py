"""Makes changelog records of the rows of a frame: serializes them, finds their partition, keeps one for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import types as sql

from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.dataframe.columns import written
from samzapy.dataframe.job import KeyPlacement, TravellingJob
from samzapy.errors import ConfigError, ConfigProblem, SamzapyError, StoreRefused
from samzapy.serializers import encode_failure, serde_registry
from samzapy.storage.inspection import store_of

#: (changelog partition, key, order), value: sorted by the first, kept apart by it, too. The order is (False, None) for none.
Record = tuple[tuple[int, bytes, tuple[bool, Any]], bytes]

_WHOLE = (sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType)
_NO_ORDER = (False, None)


class FrameColumns(NamedTuple):
    """The columns of a frame that count, each with its type: the key, the value, what says where a row belongs (None: its
    key does) and what says which of a key's rows is the last (None: each has one)."""

    key: sql.DataType
    value: sql.DataType
    place_by: str | None
    place_type: sql.DataType | None
    order_by: str | None

    @classmethod
    def of(cls, schema: sql.StructType, place_by: str | None, order_by: str | None) -> FrameColumns:
        """Those of a frame. Raises ConfigError for one that is missing, or of the wrong type."""
        types = {field.name: field.dataType for field in schema.fields}
        for name in filter(None, ("key", "value", place_by, order_by)):
            if name not in types:
                raise ConfigError([ConfigProblem("df", name, f"no such column; the frame has {', '.join(types)}")])
        place = None if place_by is None else types[place_by]
        if place is not None and not isinstance(place, (*_WHOLE, sql.StringType)):
            message = "must be a whole number (the changelog's partition) or a string (the task's name)"
            raise ConfigError([ConfigProblem(f"place_by {place_by}", place.simpleString(), message)])
        return cls(types["key"], types["value"], place_by, place, order_by)

    @property
    def names(self) -> list[str]:
        """The columns, in the order in which `RecordMaker` takes them."""
        return ["key", "value", *filter(None, (self.place_by, self.order_by))]


@dataclass(frozen=True)
class RecordMaker:
    """Makes records of rows; it travels. `tasks`: the tasks' names by changelog partition."""

    job: TravellingJob
    store: str
    columns: FrameColumns
    tasks: Mapping[int, str]
    placement: KeyPlacement | None
    max_record_bytes: int | None

    def check(self, config: JobConfig, store: StoreConfig) -> None:
        """Raise ConfigError for columns that the store's serdes do not take."""
        self._makers(config, store)

    def records(self, rows: Iterable[Any]) -> Iterator[Record]:
        """One record a row. Raises SerdeError or StoreRefused that names the key."""
        with self.job.arrived() as config:
            store = store_of(config, self.store)
            to_key, to_value = self._makers(config, store)
            partition_of = self._placer(store)
            ordered = -1 if self.columns.order_by is not None else None
            for row in rows:
                key = to_key(row[0], row[0])
                value = to_value(row[0], row[1])
                self._check_size(row[0], len(key) + len(value))
                order = _NO_ORDER if ordered is None or row[ordered] is None else (True, row[ordered])
                yield (partition_of(row, key), key, order), value

    def _makers(self, config: JobConfig, store: StoreConfig) -> tuple[_ToBytes, _ToBytes]:
        serdes = serde_registry(config)
        return (
            _to_bytes(store, "key", store.key_serde, serdes[store.key_serde], self.columns.key),
            _to_bytes(store, "value", store.msg_serde, serdes[store.msg_serde], self.columns.value),
        )

    def _placer(self, store: StoreConfig) -> Callable[[Any, bytes], int]:
        placement = self.placement
        if placement is not None:
            return lambda _row, key: placement.of(key)
        by_name = isinstance(self.columns.place_type, sql.StringType)
        known: dict[Any, int] = {task if by_name else number: number for number, task in self.tasks.items()}
        allowed = ", ".join(map(str, known))

        def place(row: Any, _key: bytes) -> int:
            found = known.get(row[2])
            if found is None:
                raise StoreRefused(
                    f"store '{store.name}': key {row[0]!r:.100}: {self.columns.place_by} is {row[2]!r:.100}, "
                    f"expected one of {allowed}"
                )
            return found

        return place

    def _check_size(self, key: object, size: int) -> None:
        limit = self.max_record_bytes
        if limit is not None and size > limit:
            raise StoreRefused(
                f"store '{self.store}': key {key!r:.100}: record of {size:,} B > max.message.bytes {limit:,} of the changelog"
            )


#: (the row's key, what is to be serialized) to bytes.
_ToBytes = Callable[[Any, Any], bytes]


def _to_bytes(store: StoreConfig, what: str, name: str, serde: Any, given: sql.DataType) -> _ToBytes:
    to_object, to_bytes = written(f"df.{what}", serde, given), serde.to_bytes

    def make(key: Any, value: Any) -> bytes:
        if value is None:
            part = "key" if what == "key" else f"value of key {key!r:.100}"
            raise StoreRefused(f"store '{store.name}': {part} is null; leave such rows out")
        try:
            return bytes(to_bytes(to_object(value)))
        except Exception as cause:
            raise encode_failure(name, f"store '{store.name}'", f"{what} of key {key!r:.100}", value, cause) from cause

    return make


def last_of_each(store: str, records: Iterable[Record]) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of the last record of each key; `records` are sorted. Raises StoreRefused when that is not clear."""
    last: Record | None = None
    for record in records:
        if last is not None:
            if last[0][1] != record[0][1]:
                yield last[0][1], last[1]
            elif last[0] == record[0]:
                raise _twice(store, record)
        last = record
    if last is not None:
        yield last[0][1], last[1]


def _twice(store: str, record: Record) -> SamzapyError:
    order = record[0][2]
    what = "is in the frame twice; say order_by, a column of which each key's greatest is taken"
    if order != _NO_ORDER:
        what = f"is in the frame twice with the same order {order[1]!r:.100}"
    return StoreRefused(f"store '{store}': key {record[0][1]!r:.100} {what}")
