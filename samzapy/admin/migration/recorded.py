"""Reads a job's records about a store, and checks that its changelog still holds the job's last records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from samzapy.admin.migration.plan import MigrationPlan, plan_migration
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription
from samzapy.checkpoint.records import Adopted, Migration, Migrations, read_changelog_partitions
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.inputs.starting_offsets import own_changelog_ends
from samzapy.errors import EnvironmentFailure
from samzapy.storage.changelog.end import STALL_S, foreign_records
from samzapy.storage.changelog.reading import Tail, first_records
from samzapy.storage.changelog.topic import changelog_of, check_beginning, check_end, usable
from samzapy.system.clients import SystemClients


@dataclass(frozen=True)
class RecordedStore:
    """One store of a job. `owners`: the task of each changelog partition that has one; `committed`: the tasks'
    checkpoints;
    `migrations`: the unfinished ones of the job; `topic`: the changelog."""

    config: JobConfig
    store: StoreConfig
    owners: Mapping[int, str]
    committed: Mapping[str, Checkpoint | None]
    migrations: Migrations
    adopted: Adopted
    topic: StreamDescription

    @classmethod
    def look(
        cls, config: JobConfig, store: StoreConfig, clients: SystemClients, checkpoints: CheckpointManager
    ) -> RecordedStore:
        """Raises EnvironmentFailure for a job without state, and for a changelog that cannot be used."""
        with checkpoints.one_pass():
            owners = {number: task for task, number in read_changelog_partitions(checkpoints).items()}
            committed = checkpoints.read(owners.values())
            migrations = Migrations.read(checkpoints)
            adopted = Adopted.from_json(checkpoints.read_record(JobRecord.ADOPTED).newest)
        if not owners:
            line = (
                f"job {config.name} (id {config.id}) has never started, so store '{store.name}' has nothing to migrate"
            )
            raise EnvironmentFailure(line)
        stream = changelog_of(store)
        topic = usable(clients.admin(stream.system).describe(stream.stream), store, max(owners))
        found = cls(config, store, owners, committed, migrations, adopted, topic)
        found._refuse_another_changelog(stream)
        return found

    def _refuse_another_changelog(self, stream: SystemStream) -> None:
        began = self.unfinished
        if began is not None and (began.changelog, began.topic_id) != (str(stream), self.topic.stream_id):
            raise EnvironmentFailure(
                f"stores.{self.store.name}.changelog: a migration of {began.changelog} (id {began.topic_id}) is not complete, "
                f"this is {stream} (id {self.topic.stream_id}): give the store that changelog again"
            )

    @property
    def unfinished(self) -> Migration | None:
        """The migration of the store that was interrupted, None for none."""
        return self.migrations.stores.get(self.store.name)

    @property
    def ssps(self) -> list[SystemStreamPartition]:
        """The partitions of the changelog."""
        return [SystemStreamPartition(*changelog_of(self.store), number) for number in range(self.topic.partitions)]

    def plan(self, source: Mapping[str, str], target: Mapping[str, str], convert: str) -> MigrationPlan:
        """Raises ConfigError."""
        asked = (source, target, convert)
        return plan_migration(self.config, self.store, asked, self.unfinished, self.committed.values())

    def before(self, logs: Mapping[SystemStreamPartition, OffsetRange]) -> dict[SystemStreamPartition, OffsetRange]:
        """The offsets of the old entries, of every partition that is not rewritten yet; `logs` are the changelog's
        current ranges."""
        began = self.unfinished
        if began is None:
            return dict(logs)
        return {
            ssp: OffsetRange(log.oldest, began.ends.get(ssp.partition, log.upcoming))
            for ssp, log in logs.items()
            if ssp.partition not in began.done
        }

    def refuse_lost(self, logs: Mapping[SystemStreamPartition, OffsetRange]) -> None:
        """Raise StateLost if the changelog does not have all that the checkpoints count, EnvironmentFailure if a run
        has committed to the store since its migration began."""
        for ssp, log in self.before(logs).items():
            last = self._last_offset(ssp)
            check_end(ssp, logs[ssp], last)
            if self.store.ttl_ms is None:
                check_beginning(ssp, log, last)
            if last >= log.upcoming:
                raise EnvironmentFailure(
                    f"{ssp}@{last}: a run has committed to store '{self.store.name}' since its migration began at offset "
                    f"{log.upcoming}: the old and the new entries cannot be told apart; restore the changelog from a copy"
                )

    def _last_offset(self, ssp: SystemStreamPartition) -> int:
        checkpoint = self._checkpoint(ssp)
        return -1 if checkpoint is None else checkpoint.changelog_offsets.get(self.store.name, -1)

    def _checkpoint(self, ssp: SystemStreamPartition) -> Checkpoint | None:
        task = self.owners.get(ssp.partition)
        return None if task is None else self.committed[task]

    def refuse_foreign(
        self, logs: Mapping[SystemStreamPartition, OffsetRange], clients: SystemClients, clock: Clock
    ) -> None:
        """Raise ForeignRecords if there are records that no task of the job has written, as a start would."""
        tails = [
            Tail(ssp, max(end, log.oldest), log.upcoming)
            for ssp, log in self.before(logs).items()
            if (end := self._known_end(ssp)) is not None and end < log.upcoming
        ]
        if not tails:
            return
        with closing(clients.consumer(tails[0].ssp.system)) as consumer:
            found = first_records(tails, consumer, clock, STALL_S, open_counts=True)
        for tail in tails:
            if tail.ssp in found:
                raise foreign_records(self.store.name, tail.ssp, tail.start, found[tail.ssp])

    def _known_end(self, ssp: SystemStreamPartition) -> int | None:
        """The offset after the last record of the job, None if that is not known."""
        if ssp.partition not in self.owners:
            return None
        ends = own_changelog_ends(self.config, self._checkpoint(ssp))
        return None if ends is None else max(ends.get(self.store.name, 0), self.adopted.end(ssp, self.topic.stream_id))

    def checkpoints(
        self, plan: MigrationPlan, last_offsets: Mapping[int, int], time_ms: int, *, atomic: bool
    ) -> dict[str, Checkpoint]:
        """The tasks' checkpoints with the new serdes, and the offsets of the last records by partition (-1: none was
        written). A task that has neither committed nor entries has none. `atomic`: the records and the checkpoints are
        written in transactions."""
        return dict(self._updated(plan, last_offsets, time_ms, Checkpoint({}, atomic=atomic)))

    def _updated(
        self, plan: MigrationPlan, last_offsets: Mapping[int, int], time_ms: int, first: Checkpoint
    ) -> Iterator[tuple[str, Checkpoint]]:
        for number, task in self.owners.items():
            old, last = self.committed[task], last_offsets.get(number, -1)
            if old is None and last < 0:
                continue
            old = old or first
            written = {self.store.name: last} if last >= 0 else {}
            yield (
                task,
                replace(
                    old,
                    changelog_offsets={**old.changelog_offsets, **written},
                    serdes={**old.serdes, self.store.name: plan.serdes},
                    time_ms=time_ms,
                ),
            )
