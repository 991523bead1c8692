"""Rewrites a store in its changelog, so that the next start of its job restores it in the new form.

    1  refuse a job that runs; plan, and check that the serdes, classes and function can be loaded
    2  become the job's owner, as `take_over` does; no run writes to the changelog from now on
    3  take the ends of the changelog's partitions; refuse records of other writers
    4  convert every entry; if one does not fit, end here, and nothing has changed
    5  write the migration down beside the checkpoints: from now on every start of the job, and every tool that would read
       the store, refuses
    6  partition by partition: send its records, write down that it is done
    7  write the new serdes and changelog offsets into the checkpoints, and drop the record of step 5

Where transactions carry the job's state, steps 5 and 7 are one transaction each, and step 6 is one for each partition.
So a crash leaves the old store before step 5 is committed, and the new one after step 7. In between the same command
goes on with the partitions that are not done. A run that takes the job over fences these transactions.

Without transactions a partition may be half done after a crash; it is then converted again, from the records before the
end of step 3. An old key is deleted only after all new records are there. So nothing is lost, whatever was compacted: a
record is only dropped because a new one, or the tombstone behind it, has its key. The function must give the same
result again.

A failure (no crash) before the first partition is done takes step 5 back, where transactions allow it. Local stores are
not touched: the next start sets stores with other serdes aside, and others read the new records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import final

from samzapy.admin.migration.plan import MigrationPlan, conversion_of
from samzapy.admin.migration.recorded import RecordedStore
from samzapy.admin.migration.report import Misfit, PartitionMigrated, StoreMigrated
from samzapy.admin.migration.rewriting import (
    MOST_SHOWN,
    EntryRewriter,
    RewrittenPartition,
    located,
    rewrite_partition,
)
from samzapy.admin.migration.writing import Awaited, InTransactions, StateUnits, send_partition
from samzapy.admin.positions import must_keep_checkpoints
from samzapy.admin.running import refuse_if_running
from samzapy.admin.take_over import take_over_by_tool
from samzapy.admin.user_code import make_importable
from samzapy.api.checkpoint import CheckpointManager, JobRecord
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.checkpoint.records import Migration, Migrations, read_owner
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.outputs.producers import RecordLimits
from samzapy.container.supervision.job_records import Ownership, open_job
from samzapy.errors import SamzapyError, SerdeError
from samzapy.failpoints import reach
from samzapy.job.files import TemporaryFolder
from samzapy.job.transactions import state_transactions, transactional_id
from samzapy.storage.changelog.end import ChangelogEnd
from samzapy.storage.changelog.restore import ProgressCallback
from samzapy.storage.changelog.topic import changelog_of
from samzapy.storage.inspection import ChangelogReader, Selection, key_value_store
from samzapy.system.clients import SystemClients, job_clients
from samzapy.system.factories import has_transactions

#: The migration's name among the members that write the job's state.
MEMBER = "migration"
_PURPOSE = "migrate"
#: The time limit of a partition's transaction, unless its system grants less: the default of Kafka's own limit.
_LONGEST_MS = 900_000


@dataclass(frozen=True)
class MigrationRequest:
    """`source`, `target`: keys below the store (`key.serde`, `key.type`, `msg.serde`, `msg.type`) that differ from the
    checkpoints and the job file. `convert`: the path of a function (key, value) -> (key, value), or None to delete the
    entry. `take_over`: also if a run may be active on another machine. `dry_run`: stop after step 4, and own
    nothing."""

    source: Mapping[str, str] = field(default_factory=dict)
    target: Mapping[str, str] = field(default_factory=dict)
    convert: str = ""
    take_over: bool = False
    dry_run: bool = False


def _say_nothing(_what: str, _done: int, _total: int) -> None:
    """The default of `on_progress`."""


def migrate_store(
    config: JobConfig,
    name: str,
    request: MigrationRequest,
    wait: Callable[[float], object],
    on_progress: ProgressCallback = _say_nothing,
    clock: Clock = SYSTEM_CLOCK,
) -> StoreMigrated:
    """Rewrite a store of a job that does not run, or go on with a migration that was interrupted.

    `wait` waits for seconds. Raises ConfigError for a store without a changelog, for a view, and for a plan that cannot
    be; SerdeError for an entry that does not fit, unless `dry_run`; EnvironmentFailure for a job that runs;
    ForeignRecords, StateLost, JobTakenOver, ProducerError.
    """
    must_keep_checkpoints(config.task.checkpoint)
    store = migratable(config, name)
    make_importable(config)
    asked = (request.source, request.target, request.convert)
    with ExitStack() as opened:
        clients, checkpoints = opened.enter_context(open_job(config, _PURPOSE))
        folder = opened.enter_context(TemporaryFolder("migrate")).path
        # 1  a run, and the plan
        owner = read_owner(checkpoints)
        unseen = refuse_if_running(config, owner, take_over=request.take_over, anyway=request.dry_run)
        recorded = RecordedStore.look(config, store, clients, checkpoints)
        plan = recorded.plan(*asked)
        state = state_transactions(config, has_transactions)
        if request.dry_run:
            with Rewriting(recorded, plan, clients, folder, clock, on_progress) as rewriting:
                rewriting.convert(recorded.before(clients.offsets(recorded.ssps)), apart=state.system is None)
                return rewriting.report()
        conversion_of(config, store, plan)
        reach("migrate.1")
        # 2  the owner
        tasks = list(recorded.owners.values())
        claim = take_over_by_tool(config, clients, checkpoints, [MEMBER], tasks, wait, unseen=bool(unseen), clock=clock)
        reach("migrate.2")
        # 3  the ends of the records that the last run has left
        recorded = RecordedStore.look(config, store, clients, checkpoints)
        plan, logs = recorded.plan(*asked), clients.offsets(recorded.ssps)
        recorded.refuse_lost(logs)
        recorded.refuse_foreign(logs, clients, clock)
        reach("migrate.3")
        # 4  every entry
        rewriting = opened.enter_context(Rewriting(recorded, plan, clients, folder, clock, on_progress))
        before = recorded.before(logs)
        rewriting.convert(before, apart=claim.state.system is None)
        rewriting.refuse_misfits()
        reach("migrate.4")
        # 5 to 7  the changelog
        ownership = opened.enter_context(closing(Ownership.of(config, claim.run.id)))
        units = opened.enter_context(_Units(config, changelog_of(store).system, claim.state.system, clients, ownership))
        writing = _Writing(recorded, plan, checkpoints, units, clients, clock)
        writing.write(rewriting.results, before)
        return rewriting.report()


def migratable(config: JobConfig, name: str) -> StoreConfig:
    """The store, if it can be migrated. Raises ConfigError."""
    return key_value_store(
        config,
        name,
        changelog_for="a store without a changelog has nothing that outlives its serdes",
        engine_for="have serdes to change",
    )


@final
class Rewriting:
    """Step 4: the entries of the changelog's partitions, converted. Its files are removed with their folder."""

    def __init__(
        self,
        recorded: RecordedStore,
        plan: MigrationPlan,
        clients: SystemClients,
        folder: Path,
        clock: Clock,
        on_progress: ProgressCallback,
    ) -> None:
        config, store = recorded.config, recorded.store
        conversion = conversion_of(config, store, plan)
        self._rewriter = EntryRewriter(plan, conversion, RecordLimits(clients).of(changelog_of(store)).record_bytes)
        self._recorded = recorded
        self._plan = plan
        self._clients = clients
        self._folder = folder
        self._clock = clock
        self._on_progress = on_progress
        # A transaction that a crashed writer has left open ends after its time-out.
        stall_s = 30 + config.task.transaction_timeout_ms / 1000
        self._reader = ChangelogReader(clients.admin, clients.consumer, clock, folder, on_progress, stall_s)
        self._opened = ExitStack()
        self._misfits: list[Misfit] = []
        #: By partition, the records that are not rewritten in the changelog yet.
        self.results: dict[int, RewrittenPartition] = {}

    def convert(self, before: Mapping[SystemStreamPartition, OffsetRange], *, apart: bool) -> None:
        """Convert the changelog's records in these ranges; `apart` as in `rewrite_partition`."""
        store = self._recorded.store
        for ssp, log in before.items():
            entries = log.upcoming - log.oldest
            result = RewrittenPartition(store.name, ssp.partition, entries, self._folder, len(before))
            self._opened.callback(result.close)
            self.results[ssp.partition] = result
            tell = partial(self._converted, ssp, entries)
            with self._reader.read(store, [ssp.partition], Selection(), {ssp: log}) as contents:
                misfits = rewrite_partition(contents, ssp, self._rewriter, result, tell, apart=apart)
            left = misfits[: MOST_SHOWN - len(self._misfits)]
            self._misfits += located(left, log, self._clients.consumer, self._clock)

    def _converted(self, ssp: SystemStreamPartition, entries: int, done: int) -> None:
        self._on_progress(f"{ssp} converted", done, entries)

    def refuse_misfits(self) -> None:
        """Raise SerdeError if an entry does not fit."""
        count = sum(result.counts.misfits for result in self.results.values())
        if count:
            others = f" (the first of {count:,} entries that do not fit; --dry-run lists more)" if count > 1 else ""
            left = "nothing was changed" if self._recorded.unfinished is None else "the migration is still not complete"
            raise SerdeError(f"{self._misfits[0]}{others}; {left}", store=self._recorded.store.name)

    def report(self) -> StoreMigrated:
        """The numbers."""
        partitions = [
            PartitionMigrated(
                ssp.partition,
                self._recorded.owners.get(ssp.partition),
                self.results[ssp.partition].counts if ssp.partition in self.results else None,
            )
            for ssp in self._recorded.ssps
        ]
        return StoreMigrated(self._plan, partitions, self._misfits)

    def __enter__(self) -> Rewriting:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


@final
class _Units:
    """Makes the units of steps 5 to 7, and new ones after a failure."""

    def __init__(
        self, config: JobConfig, changelog: str, transactions: str | None, clients: SystemClients, ownership: Ownership
    ) -> None:
        """`changelog`: the system of the changelog; `transactions`: the system of the job's state, None for none."""
        self.atomic = transactions is not None
        self._config = config
        self._system = changelog
        self._clients = clients
        self._ownership = ownership
        granted_ms = clients.admin(changelog).longest_transaction_ms() if self.atomic else None
        self._transactional = job_clients(config, _PURPOSE, min(granted_ms or _LONGEST_MS, _LONGEST_MS))

    def open(self) -> StateUnits:
        """Begin new units and fence the earlier ones."""
        if not self.atomic:
            return Awaited(self._clients, self._system, self._ownership.look)
        producer = self._transactional.transactional(self._system, transactional_id(self._config.job_name, MEMBER))
        return InTransactions(producer, self._ownership.look)

    def __enter__(self) -> _Units:
        return self

    def __exit__(self, *_: object) -> None:
        self._transactional.close()


class _Writing:
    """Steps 5 to 7 of one migration."""

    def __init__(
        self,
        recorded: RecordedStore,
        plan: MigrationPlan,
        checkpoints: CheckpointManager,
        units: _Units,
        clients: SystemClients,
        clock: Clock,
    ) -> None:
        self._recorded = recorded
        self._plan = plan
        self._checkpoints = checkpoints
        self._units = units
        self._clients = clients
        self._clock = clock
        self._store = recorded.store.name

    def write(
        self, results: Mapping[int, RewrittenPartition], before: Mapping[SystemStreamPartition, OffsetRange]
    ) -> None:
        """Write the results; `before`: where the old entries are."""
        try:
            units = self._units.open()
            migration = self._begun(units, before)
            for ssp, log in before.items():
                migration = self._partition(units, migration, ssp, log, results[ssp.partition])
            self._finish(units, migration)
        except (SamzapyError, KeyboardInterrupt):
            if self._units.atomic:
                with suppress(SamzapyError):
                    self._take_back()
            raise

    def _begun(self, units: StateUnits, before: Mapping[SystemStreamPartition, OffsetRange]) -> Migration:
        # 5  the record
        if self._recorded.unfinished is not None:
            return self._recorded.unfinished
        migration = Migration(
            str(changelog_of(self._recorded.store)),
            self._recorded.topic.stream_id,
            self._clock.wall_ms(),
            self._plan.source.leaves,
            self._plan.target.leaves,
            self._plan.convert,
            {ssp.partition: log.upcoming for ssp, log in before.items()},
            {},
        )
        with units.unit():
            self._record(units, self._recorded.migrations.having(self._store, migration))
            reach("migrate.5a")
        reach("migrate.5")
        return migration

    def _partition(
        self,
        units: StateUnits,
        migration: Migration,
        ssp: SystemStreamPartition,
        log: OffsetRange,
        result: RewrittenPartition,
    ) -> Migration:
        # 6  the records of a partition
        end = ChangelogEnd(self._store, ssp, units.end(ssp, log.upcoming), self._clients.consumer, self._clock)
        with units.unit():
            last = send_partition(result, self._store, ssp, units, end)
            reach("migrate.6a")
            migration = migration.with_done(ssp.partition, last)
            self._record(units, self._recorded.migrations.having(self._store, migration))
            reach("migrate.6b")
        reach("migrate.6")
        return migration

    def _finish(self, units: StateUnits, migration: Migration) -> None:
        # 7  the checkpoints
        now = self._clock.wall_ms()
        checkpoints = self._recorded.checkpoints(self._plan, migration.done, now, atomic=self._units.atomic)
        with units.unit():
            self._checkpoints.write(checkpoints, units.joined)
            reach("migrate.7a")
            self._record(units, self._recorded.migrations.without(self._store))
        reach("migrate.7")

    def _record(self, units: StateUnits, migrations: Migrations) -> None:
        self._checkpoints.write_record(JobRecord.MIGRATION, migrations.to_json(), units.joined)

    def _take_back(self) -> None:
        """Drop the record of step 5 if no partition is rewritten: the store is as it was."""
        units = self._units.open()
        migrations = Migrations.read(self._checkpoints)
        begun = migrations.stores.get(self._store)
        if begun is not None and not begun.done:
            with units.unit():
                self._record(units, migrations.without(self._store))
