"""Writes one changelog partition, by one attempt of one Spark task, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, islice

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.supervision.job_records import Ownership
from samzapy.dataframe.job import TravellingJob
from samzapy.dataframe.parts import PURPOSE, ChangelogPart
from samzapy.dataframe.records import Record, last_of_each
from samzapy.job.transactions import transactional_id
from samzapy.storage.inspection import Selection, store_of
from samzapy.system.clients import SystemClients, job_clients

_CHUNK = 5_000


def writer_member(number: int) -> str:
    """Who writes partition `number` of a changelog, among those that write a job's state."""
    return f"partition~{number}"


def writer_id(config: JobConfig, number: int) -> str:
    """The transactional id of that writer."""
    return transactional_id(config.job_name, writer_member(number))


@dataclass(frozen=True)
class PartitionWritten:
    """The numbers of one partition: records with values, tombstones, and the last offset (-1 if nothing was written)."""

    partition: int
    records: int
    tombstones: int
    last_offset: int


@dataclass(frozen=True)
class PartitionWriter:
    """Writes a Spark partition's records to the changelog partition of the same number; it travels.

    1  see that this write still owns the job
    2  take over the transactional id of the partition's writer: the transaction of an earlier attempt is aborted, and that
       attempt cannot go on
    3  look at the owner again: a run that has started since then either fences this attempt, because the owner's record
       names its id, or is found here
    4  read the keys that are there, if they are to be replaced
    5  write
    6  commit

    An attempt that is repeated after its commit writes the same records once more.
    """

    job: TravellingJob
    store: str
    tasks: Mapping[int, str]
    run_id: str
    overwrite: bool
    timeout_ms: int

    def write(self, number: int, records: Iterable[Record]) -> Iterator[PartitionWritten]:
        """The function for `mapPartitionsWithIndex`. Raises StoreRefused, JobTakenOver, ProducerError."""
        with self.job.arrived() as config, ExitStack() as cleanup:
            store = store_of(config, self.store)
            changes: Iterator[tuple[bytes, bytes | None]] = last_of_each(self.store, records)
            if number not in self.tasks:
                # Of a task the job has no longer: nothing of the frame belongs there.
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
        clients = cleanup.enter_context(closing(write_clients(config, self.timeout_ms)))
        producer = clients.transactional(ssp.system, writer_id(config, number))
        with closing(Ownership.of(config, self.run_id)) as ownership:
            ownership.look()
            producer.init_transactions()
            ownership.look()
        if self.overwrite:
            log = clients.admin(ssp.system).offsets([ssp])[ssp]
            changes = merged(changes, self._present(config, store, ssp, log, cleanup))
        first = next(changes, None)
        if first is None:
            return PartitionWritten(number, 0, 0, -1)
        producer.begin()
        records = tombstones = 0
        every = chain([first], changes)
        while chunk := list(islice(every, _CHUNK)):
            producer.send_changes(ssp.stream, number, chunk)
            gone = sum(value is None for _, value in chunk)
            records, tombstones = records + len(chunk) - gone, tombstones + gone
        producer.commit()
        last = producer.last_offset(ssp.stream, number)
        return PartitionWritten(number, records, tombstones, -1 if last is None else last)

    @staticmethod
    def _present(
        config: JobConfig, store: StoreConfig, ssp: SystemStreamPartition, log: OffsetRange, cleanup: ExitStack
    ) -> Iterator[bytes]:
        contents = cleanup.enter_context(ChangelogPart(ssp, log).opened(config, store))
        return (entry.key for entry in contents.entries(Selection()))


def write_clients(config: JobConfig, timeout_ms: int) -> SystemClients:
    """Clients with transactions that may take that long."""
    return job_clients(config, PURPOSE, timeout_ms)


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
