"""Makes the state of a commit durable: changelogs and checkpoints in one transaction, or one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemAdmin, SystemProducer
from samzapy.container.outputs.producers import TransactionOnDemand
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import ForeignRecords


@dataclass(frozen=True)
class StateRecords:
    """The places that state is written to. `producer_of` gives the producer of changelogs and checkpoints on a system;
    `changelog_systems` hold the changelogs of the job's stores. `confirm` asks the coordinator for the container's
    owner, and raises if that is another attempt."""

    checkpoints: CheckpointManager
    producer_of: Callable[[str], SystemProducer]
    changelog_systems: frozenset[str]
    admin_of: Callable[[str], SystemAdmin]
    confirm: Callable[[], object]


class StateWriter(ABC):
    """Steps 4 and 5 of a commit."""

    #: Whether changelog records and checkpoint become visible together.
    atomic = False

    def __init__(self, records: StateRecords) -> None:
        self._records = records
        self._checkpoints = records.checkpoints
        self._changelog_systems = sorted(records.changelog_systems)

    def acknowledge_changes(self, tasks: Sequence[TaskInstance]) -> None:
        """Send the tasks' changes to their changelogs and wait for every ack. Raises ForeignRecords when another
        writer is there."""
        try:
            self._check_ends(tasks)
            for task in tasks:
                task.stores.send_changes(self._records.producer_of)
            sent = {system: self._records.producer_of(system).flush() for system in self._changelog_systems}
            last_of = self._last_records([ssp for task in tasks for ssp in task.stores.changed()], sent)
            for task in tasks:
                task.changelog_offsets = task.stores.changelog_offsets(last_of)
        except ForeignRecords as found:
            # Records of a successor are not foreign: `confirm` raises then, and this attempt ends.
            self._records.confirm()
            for task in tasks:
                task.stores.refuse(found.ssp, found)
            raise

    def _check_ends(self, tasks: Sequence[TaskInstance]) -> None:
        for system in self._changelog_systems:
            ends = [end for task in tasks for end in task.stores.changelog_ends(system)]
            logs = self._records.admin_of(system).offsets([end.ssp for end in ends]) if ends else {}
            for end in ends:
                end.check(logs[end.ssp])

    @abstractmethod
    def _last_records(
        self, changelogs: Sequence[SystemStreamPartition], sent: Mapping[str, Mapping[tuple[str, int], int]]
    ) -> Callable[[SystemStreamPartition], int | None]:
        """Returns the offset of the last acknowledged record of each changelog partition. `sent`: by system, the
        offsets that the flush of its producer has returned."""

    @abstractmethod
    def write_checkpoints(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Make the checkpoints, by task name, part of the transaction, or durable."""

    def write_ahead(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        self._checkpoints.write(checkpoints)

    @abstractmethod
    def commit(self, tasks: Sequence[TaskInstance]) -> None:
        """Make everything durable and visible."""


class TransactionalState(StateWriter):
    """One transaction of one producer holds changelog and checkpoint records of all tasks of the container.

    Only the task writes to its changelog partition, so its last record in the open transaction is where the partition
    ends. One request for all partitions finds that; the report of each single record would cost half as much as the
    record. Records of another writer in between or behind show as a gap before the task's first one
    (`ChangelogEnd.sent`).
    """

    atomic = True

    def __init__(self, records: StateRecords, transaction: TransactionOnDemand) -> None:
        super().__init__(records)
        self._transaction = transaction

    def _last_records(
        self, changelogs: Sequence[SystemStreamPartition], sent: Mapping[str, Mapping[tuple[str, int], int]]
    ) -> Callable[[SystemStreamPartition], int | None]:
        ends: dict[SystemStreamPartition, int] = {}
        for system in self._changelog_systems:
            wanted = [ssp for ssp in changelogs if ssp.system == system]
            if wanted:
                logs = self._records.admin_of(system).offsets(wanted)
                ends.update((ssp, log.upcoming) for ssp, log in logs.items())
        return lambda ssp: ends[ssp] - 1

    def write_checkpoints(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        self._checkpoints.write(checkpoints, self._transaction)

    def commit(self, tasks: Sequence[TaskInstance]) -> None:
        self._transaction.commit()
        for task in tasks:
            task.stores.changes_committed(1)


class AwaitedState(StateWriter):
    """Without transactions: a crash between steps 4 and 5 leaves changes without their positions, so state may hold
    inputs twice; and an earlier run that is still at work may overwrite this run's records."""

    def _last_records(
        self, changelogs: Sequence[SystemStreamPartition], sent: Mapping[str, Mapping[tuple[str, int], int]]
    ) -> Callable[[SystemStreamPartition], int | None]:
        return lambda ssp: sent[ssp.system].get((ssp.stream, ssp.partition))

    def write_checkpoints(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        self._checkpoints.write(checkpoints)

    def commit(self, tasks: Sequence[TaskInstance]) -> None:
        for task in tasks:
            task.stores.changes_committed(0)
