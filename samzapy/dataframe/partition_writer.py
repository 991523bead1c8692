"""Writes one changelog partition, by one attempt of one Spark task, in one transaction.

`RecordMaker` makes the changelog records of the rows of a frame: it serializes them, and finds their partition
(`key_placement`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from pyspark.sql import types as sql

from samzapy.api.serde import Serde, hinted
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, SystemProducer, change_columns, send_columns
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.outputs.producers import transactional_id
from samzapy.container.supervision.job_records import Ownership
from samzapy.dataframe.columns import WHOLE, written
from samzapy.dataframe.reading import PURPOSE, ChangelogPart, JobTasks, TravellingJob, chunks
from samzapy.errors import ConfigError, EnvironmentFailure, StoreRefused
from samzapy.serializers import encode_failure, serde_registry
from samzapy.storage.inspection import Selection, store_of
from samzapy.storage.kv.expiring import put_time, unstamped
from samzapy.storage.spec import store_specs
from samzapy.system.base import partition_of
from samzapy.system.clients import job_clients

_SAY_WHERE = "say where each row belongs (place_by)"


#: Changelog partitions by the key's hash modulo their number: the state of a key is where producers send it.
KeyPlacement = tuple[int, ...]


def key_placement(config: JobConfig, store: StoreConfig, tasks: JobTasks) -> KeyPlacement:
    """The placement of a store's keys if they are the keys of the inputs' messages, hashed as producers do (murmur2).

    Raises ConfigError if that is ambiguous: keys whose bytes differ between input and store, and inputs that send one
    key to several tasks.
    """
    owned = [task.changelog_partition for task in tasks.model.tasks]
    if len(owned) == 1:
        return (owned[0],)
    result: dict[SystemStream, KeyPlacement] = {}
    for stream in config.task.inputs:
        count = tasks.inputs[stream].grouped
        ssps = [SystemStreamPartition(*stream, number) for number in range(count)]
        if config.task.broadcast_inputs.issuperset(ssps):
            continue
        _check_key_serde(config, store, stream)
        result[stream] = tuple(_owner(ssp, store, tasks) for ssp in ssps)
    if len(set(result.values())) > 1:
        shown = ", ".join(f"{stream} ({len(partitions)} partitions)" for stream, partitions in result.items())
        raise _problem(store, f"the inputs {shown} send a key to different tasks; {_SAY_WHERE}")
    if not result:
        raise _problem(store, f"every input is a broadcast one, so no task owns a key; {_SAY_WHERE}")
    return next(iter(result.values()))


def _owner(ssp: SystemStreamPartition, store: StoreConfig, tasks: JobTasks) -> int:
    owners = [task.changelog_partition for task in tasks.model.tasks if ssp in task.ssps]
    if len(owners) != 1:
        raise _problem(store, f"{ssp} is read by {len(owners)} tasks, so none owns its keys; {_SAY_WHERE}")
    return owners[0]


def _check_key_serde(config: JobConfig, store: StoreConfig, stream: SystemStream) -> None:
    serde = config.stream(stream).key_serde or "bytes"
    if config.serdes.get(serde) != config.serdes.get(store.key_serde):
        message = f"the keys of input {stream} are {serde}, so their hash is another one than the store's; {_SAY_WHERE}"
        raise _problem(store, message, store.key_serde)


def _problem(store: StoreConfig, message: str, value: str | None = None) -> ConfigError:
    return ConfigError.of(f"stores.{store.name}.key.serde", value, message)


#: (changelog partition, key), value: sorted by the first.
Record = tuple[tuple[int, bytes], bytes]


class FrameColumns(NamedTuple):
    """The used columns of a frame, each with its type: the key, the value, and the place of a row (None: the key
    decides)."""

    key: sql.DataType
    value: sql.DataType
    place_by: str | None
    place_type: sql.DataType | None

    @classmethod
    def of(cls, schema: sql.StructType, place_by: str | None) -> FrameColumns:
        """Find the columns in a frame's schema. Raises ConfigError for a missing column, or one of the wrong type."""
        types = {field.name: field.dataType for field in schema.fields}
        for name in filter(None, ("key", "value", place_by)):
            if name not in types:
                raise ConfigError.of("df", name, f"no such column; the frame has {', '.join(types)}")
        place = None if place_by is None else types[place_by]
        if place is not None and not isinstance(place, (*WHOLE, sql.StringType)):
            message = "must be a whole number (the changelog's partition) or a string (the task's name)"
            raise ConfigError.of(f"place_by {place_by}", place.simpleString(), message)
        return cls(types["key"], types["value"], place_by, place)

    @property
    def names(self) -> list[str]:
        """The columns, in the order in which `RecordMaker` takes them."""
        return ["key", "value", *filter(None, (self.place_by,))]


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
            store = store_of(config.stores, self.store)
            to_key, to_value = self._makers(config, store)
            partition_of = self._placer(store)
            for row in rows:
                key = to_key(row[0], row[0])
                value = to_value(row[0], row[1])
                check_size(self.store, row[0], len(key) + len(value), self.max_record_bytes)
                yield (partition_of(row, key), key), value

    def _makers(self, config: JobConfig, store: StoreConfig) -> tuple[_ToBytes, _ToBytes]:
        # A frame has plain values, not objects of the classes in the job file.
        plain = replace(store_specs(config)[store.name], config=replace(store, key_type=None, msg_type=None))
        key, value = plain.serdes(serde_registry(config))
        return (
            _to_bytes(store, "key", store.key_serde, key, self.columns.key),
            _to_bytes(store, "value", store.msg_serde, value, self.columns.value),
        )

    def _placer(self, store: StoreConfig) -> Callable[[Any, bytes], int]:
        placement = self.placement
        if placement is not None:
            return lambda _row, key: placement[partition_of(key, len(placement))]
        by_name = isinstance(self.columns.place_type, sql.StringType)
        known: dict[Any, int] = {task if by_name else number: number for number, task in self.tasks.items()}
        allowed = ", ".join(map(str, known))

        def place(row: Any, _key: bytes) -> int:
            result = known.get(row[2])
            if result is None:
                raise StoreRefused(
                    f"store '{store.name}': key {row[0]!r:.100}: {self.columns.place_by} is {row[2]!r:.100}, "
                    f"expected one of {allowed}"
                )
            return result

        return place


def check_size(store: str, key: object, size: int, limit: int | None) -> None:
    """Raise StoreRefused for an entry that is larger than the changelog accepts; None: unknown."""
    if limit is not None and size > limit:
        large = f"record of {size:,} B > max.message.bytes {limit:,} of the changelog"
        raise StoreRefused(f"store '{store}': key {key!r:.100}: {large}")


#: (the row's key, the object to serialize) to bytes.
_ToBytes = Callable[[Any, Any], bytes]


def _to_bytes(store: StoreConfig, what: str, name: str, serde: Serde, given: sql.DataType) -> _ToBytes:
    to_object, to_bytes, hints = written(f"df.{what}", serde, given), serde.to_bytes, hinted(serde)

    def make(key: Any, value: Any) -> bytes:
        if value is None:
            part = "key" if what == "key" else f"value of key {key!r:.100}"
            raise StoreRefused(f"store '{store.name}': {part} is null; leave such rows out")
        try:
            converted = to_object(value)
            data = bytes(to_bytes(converted))
            if hints.doubt is not None and hints.doubt in data:
                hints.check(converted)
        except EnvironmentFailure:
            raise
        except Exception as cause:
            raise encode_failure(name, f"store '{store.name}'", f"{what} of key {key!r:.100}", value, cause) from cause
        return data

    return make


def distinct(store: str, records: Iterable[Record]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of sorted records. Raises StoreRefused for a key that occurs twice."""
    last: tuple[int, bytes] | None = None
    for place, value in records:
        if place == last:
            raise StoreRefused(f"store '{store}': key {place[1]!r:.100} occurs twice: keep one row per key (max_by)")
        last = place
        yield place[1], value


_CHUNK = 5_000


def writer_member(number: int) -> str:
    """The name of the writer of partition `number` of a changelog, among the members that write a job's state."""
    return f"partition~{number}"


def writer_id(job_name: str, number: int) -> str:
    """The transactional id of that writer."""
    return transactional_id(job_name, writer_member(number))


@dataclass(frozen=True)
class PartitionWritten:
    """The numbers of one partition: records with values, tombstones, and the last offset (-1 if nothing was
    written)."""

    partition: int
    records: int
    tombstones: int
    last_offset: int


@dataclass(frozen=True)
class PartitionWriter:
    """Writes a Spark partition's records to the changelog partition of the same number; it travels.

    1  see that this write still owns the job
    2  take over the transactional id of the partition's writer: the transaction of an earlier attempt is aborted, and
       that attempt cannot go on
    3  look at the owner again: a run that has started since then either fences this attempt, because the owner's record
       names its id, or is found here
    4  read the present keys, if they are to be replaced
    5  write
    6  commit

    An attempt that is repeated after its commit writes the same records again. `timed`: the values begin with the times
    of their puts, which become the times of the records.
    """

    job: TravellingJob
    store: str
    tasks: Mapping[int, str]
    run_id: str
    overwrite: bool
    timeout_ms: int
    timed: bool = False

    def write(self, number: int, records: Iterable[Record]) -> Iterator[PartitionWritten]:
        """The function for `mapPartitionsWithIndex`. Raises StoreRefused, JobTakenOver, ProducerError."""
        with self.job.arrived() as config, ExitStack() as cleanup:
            store = store_of(config.stores, self.store)
            changes: Iterator[tuple[bytes, bytes | None]] = distinct(self.store, records)
            if number not in self.tasks:
                # The partition of a removed task: no row of the frame belongs there.
                assert next(changes, None) is None
                return
            yield self._write(config, store, number, changes, cleanup)

    def _write(
        self,
        config: JobConfig,
        store: StoreConfig,
        number: int,
        changes: Iterator[tuple[bytes, bytes | None]],
        cleanup: ExitStack,
    ) -> PartitionWritten:
        assert store.changelog is not None
        ssp = SystemStreamPartition(*store.changelog, number)
        clients = cleanup.enter_context(closing(job_clients(config, PURPOSE, self.timeout_ms)))
        producer = clients.transactional(ssp.system, writer_id(config.job_name, number))
        with closing(Ownership.of(config, self.run_id)) as ownership:
            ownership.poll()
            producer.init_transactions()
            ownership.poll()
        if self.overwrite:
            log = clients.admin(ssp.system).offsets([ssp])[ssp]
            contents = cleanup.enter_context(ChangelogPart(ssp, log).opened(config, store))
            changes = merged(changes, (entry.key for entry in contents.entries(Selection())))
        first = next(changes, None)
        if first is None:
            return PartitionWritten(number, 0, 0, -1)
        producer.begin()
        records = tombstones = 0
        sized = ((change, len(change[0]) + len(change[1] or b"")) for change in chain([first], changes))
        for chunk in chunks(sized, _CHUNK):
            self._send(producer, ssp, chunk)
            gone = sum(value is None for _, value in chunk)
            records, tombstones = records + len(chunk) - gone, tombstones + gone
        producer.flush()
        last = clients.ends([ssp])[ssp] - 1
        producer.commit()
        return PartitionWritten(number, records, tombstones, last)

    def _send(
        self, producer: SystemProducer, ssp: SystemStreamPartition, changes: Sequence[tuple[bytes, bytes | None]]
    ) -> None:
        if not self.timed:
            send_columns(producer, change_columns(ssp.stream, ssp.partition, changes))
            return
        producer.send(
            [
                OutgoingRecord(
                    ssp.stream,
                    key,
                    None if data is None else unstamped(data),
                    ssp.partition,
                    timestamp=None if data is None else put_time(data),
                )
                for key, data in changes
            ]
        )


def merged(
    changes: Iterable[tuple[bytes, bytes | None]], present: Iterable[bytes]
) -> Iterator[tuple[bytes, bytes | None]]:
    """The changes, and a deletion for each key that is present and not among them; both are in order of their keys."""
    old = iter(present)
    key = next(old, None)
    for change in changes:
        while key is not None and key < change[0]:
            yield key, None
            key = next(old, None)
        if key == change[0]:
            key = next(old, None)
        yield change
    while key is not None:
        yield key, None
        key = next(old, None)
