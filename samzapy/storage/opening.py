"""Opens the stores of one task: from the job's settings, by files and changelogs, to their stacks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path

from samzapy.api.engine import EngineSettings, StorageEngine, StorageEngineFactory
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, SystemAdmin, SystemConsumer
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.changelogs import StoreSource
from samzapy.errors import StateLost
from samzapy.storage.backup import TaskBackups
from samzapy.storage.changelog.reading import ChangelogEnd, ChangelogOrigin, Tail
from samzapy.storage.changelog.restore import RestoreRead, RestoreResult, StoreRestore
from samzapy.storage.changelog.topic import (
    Changelogs,
    check_beginning,
    check_end,
    delete_retention_ms,
    max_record_bytes,
)
from samzapy.storage.kv.cache_budget import CacheBudget
from samzapy.storage.kv.expiring import Expiry
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.local.files import LocalStore, LocalStores, take_over_standby
from samzapy.storage.local.marker import Acceptance, SerdePair, StoreIdentity
from samzapy.storage.local.sample import check_sample
from samzapy.storage.side_inputs import SideInputPlan
from samzapy.storage.spec import StoreSpec
from samzapy.storage.task_store import OpenedStore, TaskStore
from samzapy.storage.task_stores import TaskStores

#: The bound of a changelog that is followed: larger than any offset.
_NO_END = 2**63 - 1

#: The amounts read, by changelog partition.
Restored = Mapping[SystemStreamPartition, RestoreRead]


def _unlimited(system: str) -> int | None:  # noqa: ARG001
    return None


def _nothing_adopted(ssp: SystemStreamPartition, topic_id: str) -> int:  # noqa: ARG001
    return 0


@dataclass(frozen=True)
class TaskSettings:
    """A task that opens its stores.

    - `committed`: by store, the changelog offset that its state must reach, since the inputs up to there are done.
    - `ssps`, `starts`: the task's partitions and where it starts in them, for stores that are filled from streams.
    - `own_ends`: by store, the offset after the last changelog record that the task has written; None if not known.
    - `adopted_end`: the offset up to which other records of a changelog partition, with this topic id, were adopted.
    """

    name: str
    changelog_partition: int
    tasks_in_container: int
    committed: Mapping[str, int] = field(default_factory=dict)
    ssps: frozenset[SystemStreamPartition] = frozenset()
    starts: Mapping[SystemStreamPartition, int] = field(default_factory=dict)
    _: KW_ONLY
    own_ends: Mapping[str, int] | None = None
    adopted_end: Callable[[SystemStreamPartition, str], int] = _nothing_adopted

    def known_end(self, store: str, ssp: SystemStreamPartition, topic: StreamDescription) -> int | None:
        """The offset from which on no changelog record is the task's own; None if unknown."""
        if self.own_ends is None:
            return None
        return max(self.own_ends.get(store, 0), self.adopted_end(ssp, topic.stream_id))


@dataclass(frozen=True)
class JobStores:
    """The stores of a job, as every task of a container opens them.

    `job` names their folders below `logged_base` and `non_logged_base`. `written_with`: the serdes of each store that
    outlives its task, by their identities. `undoes_messages`: the changes of a failed message are undone. `budget`: the
    memory of the caches of all these tasks. `record_limit_of`: the largest record that a system's producer sends, None
    for any.
    """

    job: str
    configs: Mapping[str, StoreConfig]
    engines: Mapping[str, StoreSpec]
    serdes: Mapping[str, Serde]
    written_with: Mapping[str, SerdePair]
    _: KW_ONLY
    logged_base: Path
    non_logged_base: Path
    undoes_messages: bool
    admin_of: Callable[[str], SystemAdmin]
    clock: Clock
    budget: CacheBudget
    lock_wait_s: float = 10.0
    record_limit_of: Callable[[str], int | None] = _unlimited


def job_stores(
    config: JobConfig,
    *,
    serdes: Mapping[str, Serde],
    engines: Mapping[str, StoreSpec],
    admin_of: Callable[[str], SystemAdmin],
    clock: Clock,
    lock_wait_s: float = 10.0,
    record_limit_of: Callable[[str], int | None] = _unlimited,
) -> JobStores:
    """The stores that the job file names. `lock_wait_s`: the seconds to wait for a locked store."""
    kept = [store for store in config.stores.values() if store.changelog is not None or store.source is not None]
    return JobStores(
        config.job_name,
        config.stores,
        engines,
        serdes,
        {store.name: engines[store.name].serde_names for store in kept},
        logged_base=config.logged_store_base_dir,
        non_logged_base=config.non_logged_store_base_dir,
        undoes_messages=config.task.errors.undoes_changes,
        admin_of=admin_of,
        clock=clock,
        budget=CacheBudget(config.cache_max_bytes),
        lock_wait_s=lock_wait_s,
        record_limit_of=record_limit_of,
    )


class StoreOpener:
    """Opens the stores of one task, and builds their stacks once they are restored.

    1. `begin` opens the files of each store, or an empty store, and takes the end of its changelog.
    2. `settle` replaces stores that are too old; the tails that `doubtful` gives decide that.
    3. `behind` gives the parts of the changelogs that remain to be read.
    4. `finish` builds the stores. `abandon` closes the open files instead.
    """

    def __init__(self, job: JobStores, task: TaskSettings, changelogs: Changelogs | None = None) -> None:
        """`changelogs`: the container's; without them the task describes its changelogs itself."""
        self._job = job
        self._task = task
        self._changelogs = changelogs or Changelogs(job.admin_of, [task.changelog_partition])
        self._backups = TaskBackups(job.job, task.name, job.clock)
        self._logged = LocalStores(job.logged_base, job.job, task.name, job.lock_wait_s)
        self._non_logged = LocalStores(job.non_logged_base, job.job, task.name, job.lock_wait_s)
        self._opened: list[OpenedStore] = []
        self._cleanup = ExitStack()

    def begin(self, *, provisional: bool = False) -> None:
        """Open the engines and take the changelogs' ends. If one fails, none stays open. With `provisional` a store
        that may be too old stays open until `settle`."""
        for config in self._job.configs.values():
            try:
                opened = self._open(config, provisional=provisional)
            except BaseException:
                self.abandon()
                raise
            self._cleanup.callback(opened.engine.close)
            self._opened.append(opened)

    @property
    def engines(self) -> Mapping[SystemStreamPartition, tuple[str, StorageEngine]]:
        """The store and its open engine, by changelog partition."""
        return {store.changelog: (store.config.name, store.engine) for store in self._opened if store.changelog}

    def doubtful(self) -> list[Tail]:
        """The changelog tails that decide about doubtful stores: a store is too old if its tail has any record."""
        return [
            Tail(store.changelog, store.start, store.bound)
            for store in self._opened
            if store.changelog and store.doubt and store.doubt()
        ]

    def settle(self, changed: Collection[SystemStreamPartition]) -> None:
        """Set aside the files of the stores of the tails `changed`, which have records, and open the stores anew."""
        for index, store in enumerate(self._opened):
            if store.changelog in changed:
                store.engine.close()
                self._opened[index] = self._open(store.config, provisional=False)
                self._cleanup.callback(self._opened[index].engine.close)

    def behind(self) -> list[StoreRestore]:
        """The remaining restores, up to the ends that the changelogs had at the opening."""
        return [
            self._restore(store, store.changelog, store.bound)
            for store in self._opened
            if store.changelog is not None and store.first < store.bound
        ]

    def following(self) -> list[StoreRestore]:
        """A restore without an end for every store with a changelog."""
        return [self._restore(store, store.changelog, _NO_END) for store in self._opened if store.changelog is not None]

    def _restore(self, store: OpenedStore, ssp: SystemStreamPartition, bound: int) -> StoreRestore:
        expiry = None if store.config.ttl_ms is None else Expiry(store.config.ttl_ms, self._job.clock)
        return StoreRestore(
            store.engine,
            store.identity,
            ssp,
            store.first if bound == store.bound else store.start,
            bound,
            task=self._task.name,
            expiry=expiry,
            known_end=store.known_end if bound == store.bound else None,
            in_any_thread=self._job.engines[store.config.name].persistent,
        )

    def finish(self, read: Restored, consumer_of: Callable[[str], SystemConsumer]) -> TaskStores:
        """The stores, after everything `behind` was `read`. They keep `consumer_of`, to find unreadable records. Raises
        ConfigError if the class of a store cannot read its entries."""
        stores = {store.config.name: self._task_store(store, consumer_of) for store in self._opened}
        self._cleanup.pop_all()
        return TaskStores(stores, {store.config.name: _result(store, read) for store in self._opened})

    def abandon(self) -> None:
        """Close the files that `begin` has opened; does nothing after `finish`."""
        self._cleanup.close()

    def _open(self, config: StoreConfig, *, provisional: bool) -> OpenedStore:
        factory, settings = self._engine_of(config)
        if config.source is not None:
            return self._open_sourced(config, config.source, factory, settings)
        if config.changelog is not None:
            return self._open_logged(config, config.changelog, factory, settings, provisional=provisional)
        engine = self._non_logged.open_empty(factory, settings, self._job.clock.wall_ms())
        return OpenedStore(config, engine, self._identity(config, stamped=config.ttl_ms is not None))

    def _engine_of(self, config: StoreConfig) -> tuple[StorageEngineFactory, EngineSettings]:
        settings = EngineSettings(config.name, config.properties, self._task.tasks_in_container)
        return self._job.engines[config.name].factory, settings

    def _identity(self, config: StoreConfig, source: str = "", *, stamped: bool = False) -> StoreIdentity:
        serdes = self._job.written_with.get(config.name, ("", ""))
        return StoreIdentity(self._job.job, config.name, self._task.changelog_partition, source, stamped, *serdes)

    def _open_sourced(
        self, config: StoreConfig, source: StoreSource, factory: StorageEngineFactory, settings: EngineSettings
    ) -> OpenedStore:
        task = self._task
        plan = SideInputPlan(config.name, source, task.name, task.ssps, task.starts, self._job.admin_of)
        identity = self._identity(config, plan.stamp)
        clock = self._job.clock
        if config.clean_on_start:
            local = LocalStore(self._non_logged.open_empty(factory, settings, clock.wall_ms()), None)
        else:
            local = self._non_logged.open_kept(
                factory, settings, lambda marker: plan.refusal(marker, identity, clock.wall_ms()), clock.wall_ms()
            )
        kept = local.marker is not None
        return OpenedStore(
            config, local.engine, identity, kept=kept, reason=local.reason, filling=plan.filling(local.marker)
        )

    def _open_logged(
        self,
        config: StoreConfig,
        stream: SystemStream,
        factory: StorageEngineFactory,
        settings: EngineSettings,
        *,
        provisional: bool,
    ) -> OpenedStore:
        ssp = SystemStreamPartition(stream.system, stream.stream, self._task.changelog_partition)
        topic, log = self._changelogs.look(config, ssp)
        identity = self._identity(config, topic.stream_id, stamped=config.ttl_ms is not None)
        committed = self._task.committed.get(config.name, -1)
        check_end(ssp, log, committed)
        accepted = Acceptance(config, identity, log, delete_retention_ms(topic, config), self._job.clock)
        local, taken_over = self._local(factory, settings, accepted, provisional=provisional)
        kept = local.marker is not None
        if not kept and config.ttl_ms is None:
            # With expiring entries the beginning of the changelog is deleted as well.
            try:
                check_beginning(ssp, log, committed)
            except StateLost:
                local.engine.close()
                raise
        return OpenedStore(
            config,
            local.engine,
            accepted.identity_from(local.marker),
            ssp,
            start=log.oldest if local.marker is None else local.marker.changelog_offset + 1,
            bound=log.upcoming,
            kept=kept,
            snapshot=local.snapshot,
            reason=local.reason,
            taken_over=taken_over,
            doubt=None if local.marker is None else partial(accepted.doubt, local.marker),
            max_record_bytes=self._largest_record(stream, topic),
            known_end=self._known_end(config.name, ssp, topic, log),
        )

    def _largest_record(self, stream: SystemStream, topic: StreamDescription) -> int | None:
        limits = (max_record_bytes(topic), self._job.record_limit_of(stream.system))
        return min((limit for limit in limits if limit is not None), default=None)

    def _known_end(
        self, store: str, ssp: SystemStreamPartition, topic: StreamDescription, log: OffsetRange
    ) -> int | None:
        known = self._task.known_end(store, ssp, topic)
        return None if known is None else max(known, log.oldest)

    def _local(
        self, factory: StorageEngineFactory, settings: EngineSettings, accepted: Acceptance, *, provisional: bool
    ) -> tuple[LocalStore, bool]:
        """The furthest store to begin with: files of this machine, a snapshot, or an empty one; and whether a standby's
        files were taken over."""
        config, log, now_ms = accepted.config, accepted.log, accepted.clock.wall_ms()
        if config.clean_on_start:
            return LocalStore(self._logged.open_empty(factory, settings, now_ms), None), False
        taken_over = factory.persistent and take_over_standby(
            self._logged.directory(config.name), factory, settings, accepted.refusal, now_ms
        )
        refuse = accepted.misfit if provisional else accepted.refusal
        local = self._logged.open_kept(factory, settings, refuse, now_ms)
        if local.marker is None and log.upcoming > log.oldest:
            fetch = self._backups.reader(config, accepted.refusal)
            if fetch is not None:
                local = self._logged.replace_empty(factory, settings, local, fetch)
        return local, taken_over

    def _task_store(self, store: OpenedStore, consumer_of: Callable[[str], SystemConsumer]) -> TaskStore:
        """Builds the stack from the settings, and the store around it."""
        job, config = self._job, store.config
        spec = job.engines[config.name]
        factory, settings = self._engine_of(config)
        directory = self._logged.directory(config.name)
        serdes = job.engines[config.name].serdes(job.serdes)
        check_sample(config, store.engine, *serdes)
        return TaskStore(
            store,
            build_stack(
                config,
                store.engine,
                *serdes,
                store.max_record_bytes,
                job.clock,
                None
                if store.changelog is None
                else ChangelogOrigin(store.changelog, job.admin_of, consumer_of, job.clock),
                job.budget,
            ),
            job.clock,
            view=None if spec.view is None else spec.seen,
            end=None
            if store.changelog is None
            else ChangelogEnd(config.name, store.changelog, store.bound, consumer_of),
            backup=self._backups.maker(config, store.engine, factory, settings, directory),
            directory=directory if factory.persistent else None,
        )


def _result(store: OpenedStore, read: Restored) -> RestoreResult:
    found = None if store.changelog is None else read.get(store.changelog)
    records, seconds, size = found or (0, 0.0, 0)
    if store.snapshot:
        source = "snapshot + changelog" if records else "snapshot"
    elif store.kept:
        source = "standby" if store.taken_over else "local store"
        if records:
            source += " + changelog"
    else:
        source = "changelog" if records else "nothing"
    return RestoreResult(store.config.name, records, seconds, source, store.reason, size)
