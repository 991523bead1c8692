"""Brings rewritten partitions to the changelog, and the progress to the records beside the checkpoints.

A unit of work is durable as a whole where transactions carry the job's state (`InTransactions`); else its records are
awaited one after the other (`Awaited`). Before each unit the tool looks whether it still owns the job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice

from samzapy.admin.migration.rewriting import RewrittenPartition
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.container.outputs.transaction import TransactionOnDemand
from samzapy.errors import SamzapyError, StoreError
from samzapy.storage.changelog.end import ChangelogEnd
from samzapy.system.clients import SystemClients

_CHUNK = 5_000


class StateUnits(ABC):
    """Writes changelogs and checkpoints in units."""

    #: The producer of changelog records.
    producer: SystemProducer
    #: The producer with the transaction that records of checkpoints join, None if they are written by themselves.
    joined: SystemProducer | None

    @abstractmethod
    def unit(self) -> AbstractContextManager[None]:
        """Records that are written inside the context are durable after it. Raises JobTakenOver if another run owns
        the job."""

    @abstractmethod
    def end(self, ssp: SystemStreamPartition, before: int) -> int:
        """The offset from which on all committed records of a partition belong to this unit; `before`: where the old
        entries end."""


class InTransactions(StateUnits):
    """One transaction for each unit.

    1. A crash in a unit leaves nothing of it. A run that takes the job over fences the transactional id, because the
       owner's record names it; one that has done so already is found by `must_own`.
    2. After an error that the tool survives the transaction is aborted, or readers would wait for its time-out.
    """

    def __init__(self, producer: SystemProducer, must_own: Callable[[], object]) -> None:
        """`producer` was made with a transactional id. Aborts the open transaction of an earlier producer with this
        id."""
        must_own()
        self._must_own = must_own
        producer.report_offsets()
        self.producer = self.joined = TransactionOnDemand(producer, must_own)
        self.producer.init_transactions()

    @contextmanager
    def unit(self) -> Iterator[None]:
        self._must_own()
        try:
            yield
            self.producer.commit()
        except (SamzapyError, KeyboardInterrupt):
            with suppress(SamzapyError):
                self.producer.abort()
            raise

    def end(self, ssp: SystemStreamPartition, before: int) -> int:
        return before


class Awaited(StateUnits):
    """Units without transactions: a crash may leave part of a unit."""

    def __init__(self, clients: SystemClients, system: str, must_own: Callable[[], object]) -> None:
        self.joined = None
        self.producer = clients.producer(system)
        self.producer.report_offsets()
        self._clients = clients
        self._must_own = must_own

    @contextmanager
    def unit(self) -> Iterator[None]:
        self._must_own()
        yield

    def end(self, ssp: SystemStreamPartition, before: int) -> int:
        # An earlier call may have left a part of its records there.
        return self._clients.offsets([ssp])[ssp].upcoming


def send_partition(
    result: RewrittenPartition, store: str, ssp: SystemStreamPartition, units: StateUnits, end: ChangelogEnd
) -> int:
    """Send the records of a partition inside a unit, and wait until they are acknowledged; returns the last one's
    offset, -1 for none.

    The old keys are deleted after all new records are there. `end` is where the first record must stand. Raises
    ForeignRecords if another writer is there, ProducerError.
    """
    producer, count = units.producer, 0
    values = result.values()
    while chunk := list(islice(values, _CHUNK)):
        if chunk[0][2] is None:
            producer.send_changes(ssp.stream, ssp.partition, [(key, value) for key, value, _ in chunk])
        else:
            # In a store with a time to live, an entry keeps the time of its put.
            producer.send(
                [OutgoingRecord(ssp.stream, key, value, ssp.partition, timestamp=at) for key, value, at in chunk]
            )
        count += len(chunk)
    producer.flush()
    keys = result.tombstones()
    while gone := list(islice(keys, _CHUNK)):
        producer.send_changes(ssp.stream, ssp.partition, [(key, None) for key in gone])
        count += len(gone)
    producer.flush()
    if not count:
        return -1
    last = producer.last_offset(ssp.stream, ssp.partition)
    if last is None:
        raise StoreError(f"store '{store}': changelog {ssp} acknowledged none of {count:,} records")
    end.sent(last, count)
    return last
