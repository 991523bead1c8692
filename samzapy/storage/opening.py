"""From a job's configuration to one task's open and restored stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from samzapy.api.engine import EngineSettings, StorageEngine, StorageEngineFactory
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, SystemAdmin, SystemConsumer
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.sources import StoreSource
from samzapy.config.tasks.error_policy import Stage
from samzapy.errors import EnvironmentFailure
from samzapy.storage.backup import TaskBackups
from samzapy.storage.changelog.end import ChangelogEnd
from samzapy.storage.changelog.reading import ChangelogOrigin, Tail
from samzapy.storage.changelog.restore import RestoreRead, RestoreResult, StoreRestore
from samzapy.storage.changelog.topic import (
    Changelogs,
    check_beginning,
    check_end,
    delete_retention_ms,
    max_record_bytes,
)
from samzapy.storage.engines import entry_serde_names, entry_serdes
from samzapy.storage.kv.expiring import Expiry
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.local.files import LocalStore, LocalStores, take_over_standby
from samzapy.storage.local.marker import Acceptance, StoreIdentity
from samzapy.storage.side_inputs import SourcePlan, SourceTask, StoreFilling
from samzapy.storage.task_store import TaskStore
from samzapy.storage.views.engine import changes_in_place, view_of

#: Of a changelog that is followed: larger than any offset.
_NO_END = 2**63 - 1

#: What was read, by changelog partition.
Restored = Mapping[SystemStreamPartition, RestoreRead]


def _nothing_adopted(ssp: SystemStreamPartition, topic_id: str) -> int:  # noqa: ARG001
    return 0


@dataclass(frozen=True)
class TaskSettings:
    """The task whose stores are opened, its share of the container, and, by store, the changelog offset that its state
    must reach, since the checkpoint says that its inputs up to there are done. `ssps` and `starts`: the task's partitions
    and where it starts in them, for the stores that are filled from streams. `own_ends`: by store, the offset after the
    last changelog record that the task has written, None where that is not known; `adopted_end`: up to where the partition
    of a changelog, with the topic's id, holds what else is its own."""

    name: str
    changelog_partition: int
    tasks_in_container: int
    committed: Mapping[str, int] = field(default_factory=dict)
    ssps: frozenset[SystemStreamPartition] = frozenset()
    starts: Mapping[SystemStreamPartition, int] = field(default_factory=dict)
    own_ends: Mapping[str, int] | None = None
    adopted_end: Callable[[SystemStreamPartition, str], int] = _nothing_adopted

    def known_end(self, store: str, ssp: SystemStreamPartition, topic: StreamDescription) -> int | None:
        """The offset from which on no record of the changelog is the task's own; None if that is not known."""
        if self.own_ends is None:
            return None
        return max(self.own_ends.get(store, 0), self.adopted_end(ssp, topic.stream_id))


@dataclass
class _Opened:
    """A store between the opening of its engine and the end of its restore."""

    config: StoreConfig
    engine: StorageEngine
    identity: StoreIdentity
    ssp: SystemStreamPartition | None = None
    start: int = 0
    bound: int = 0
    kept: bool = False
    snapshot: bool = False
    reason: str = ""
    taken_over: bool = False
    doubt: str | None = None
    max_record_bytes: int | None = None
    filling: StoreFilling | None = None
    known_end: int | None = None

    @property
    def first(self) -> int:
        """Where the reading of the changelog begins: a store that is further has to see nobody else's records either."""
        return self.start if self.known_end is None else min(self.start, self.known_end)


class StoreOpener:
    """Opens the stores of one task and, once they are restored, builds their stacks."""

    def __init__(
        self,
        config: JobConfig,
        task: TaskSettings,
        admin_of: Callable[[str], SystemAdmin],
        engines: Mapping[str, StorageEngineFactory],
        serdes: Mapping[str, Serde],
        clock: Clock,
        lock_wait_s: float = 10.0,
        changelogs: Changelogs | None = None,
    ) -> None:
        """`changelogs`: those of the container; by default the task asks for its own."""
        self._changelogs = changelogs or Changelogs(admin_of, [task.changelog_partition])
        self._config = config
        self._task = task
        self._admin_of = admin_of
        self._engines = engines
        self._serdes = serdes
        self._clock = clock
        self._job = config.job_name
        self._backups = TaskBackups(self._job, task.name, clock)
        self._logged = LocalStores(config.logged_store_base_dir, self._job, task.name, lock_wait_s)
        self._opened: list[_Opened] = []
        self._cleanup = ExitStack()
        self._non_logged = LocalStores(config.non_logged_store_base_dir, self._job, task.name, lock_wait_s)

    def begin(self, *, provisional: bool = False) -> None:
        """Open the engines and take the changelogs' ends. If one fails, none stays open. With `provisional` a store of
        which only its age is held against it stays open until `settle`."""
        for config in self._config.stores.values():
            try:
                opened = self._open(config, provisional=provisional)
            except BaseException:
                self.abandon()
                raise
            self._cleanup.callback(opened.engine.close)
            self._opened.append(opened)

    def doubtful(self) -> list[Tail]:
        """The changelogs' tails in which there must be no record, or a store is too old to be used."""
        return [Tail(store.ssp, store.start, store.bound) for store in self._opened if store.ssp and store.doubt]

    def settle(self, changed: Collection[SystemStreamPartition]) -> None:
        """There are records in the tails `changed`: set the doubtful stores of these aside, and go on with empty ones."""
        for index, store in enumerate(self._opened):
            if store.doubt and store.ssp in changed:
                store.engine.close()
                self._opened[index] = self._open(store.config, provisional=False)
                self._cleanup.callback(self._opened[index].engine.close)

    def behind(self) -> list[StoreRestore]:
        """What has to be read from changelogs."""
        return [
            self._restore(store, store.ssp, store.bound)
            for store in self._opened
            if store.ssp is not None and store.first < store.bound
        ]

    def following(self) -> list[StoreRestore]:
        """Every store with a changelog, to be read from there without an end."""
        return [self._restore(store, store.ssp, _NO_END) for store in self._opened if store.ssp is not None]

    def _restore(self, store: _Opened, ssp: SystemStreamPartition, bound: int) -> StoreRestore:
        expiry = None if store.config.ttl_ms is None else Expiry(store.config.ttl_ms, self._clock)
        gathered = store.config.local_files.restore_max_bytes
        return StoreRestore(
            store.engine,
            store.identity,
            ssp,
            store.first if bound == store.bound else store.start,
            bound,
            gathered,
            task=self._task.name,
            expiry=expiry,
            known_end=store.known_end if bound == store.bound else None,
        )

    def finish(
        self, read: Restored, consumer_of: Callable[[str], SystemConsumer]
    ) -> tuple[dict[str, TaskStore], dict[str, RestoreResult]]:
        """Every store of the task, and how it got its contents: from what was `read` of its changelog. `consumer_of` is
        kept, to find records that cannot be read."""
        stores = {store.config.name: self._task_store(store, consumer_of) for store in self._opened}
        self._cleanup.pop_all()
        return stores, {store.config.name: _result(store, read) for store in self._opened}

    def abandon(self) -> None:
        """Close what `begin` has opened, unless `finish` has given it away."""
        self._cleanup.close()

    def _open(self, config: StoreConfig, *, provisional: bool) -> _Opened:
        factory = self._engines[config.name]
        settings = EngineSettings(config.name, config.properties, self._task.tasks_in_container)
        if config.source is not None:
            return self._open_sourced(config, config.source, factory, settings)
        if config.changelog is None:
            identity = StoreIdentity(
                self._job, config.name, self._task.changelog_partition, stamped=config.ttl_ms is not None
            )
            engine = self._non_logged.open_empty(factory, settings, self._clock.wall_ms())
            return _Opened(config, engine, identity)
        return self._open_logged(config, factory, settings, provisional=provisional)

    def _open_sourced(
        self, config: StoreConfig, source: StoreSource, factory: StorageEngineFactory, settings: EngineSettings
    ) -> _Opened:
        task = SourceTask(self._task.name, self._task.ssps, self._task.starts)
        plan = SourcePlan(config.name, source, task, self._admin_of)
        identity = StoreIdentity(self._job, config.name, self._task.changelog_partition, plan.stamp)
        now_ms = self._clock.wall_ms()
        if config.clean_on_start:
            local = LocalStore(self._non_logged.open_empty(factory, settings, now_ms), None)
        else:
            local = self._non_logged.open_kept(
                factory, settings, lambda marker: plan.refusal(marker, identity, now_ms), now_ms
            )
        kept = local.marker is not None
        return _Opened(
            config, local.engine, identity, kept=kept, reason=local.reason, filling=plan.filling(local.marker)
        )

    def _open_logged(
        self, config: StoreConfig, factory: StorageEngineFactory, settings: EngineSettings, *, provisional: bool
    ) -> _Opened:
        partition = self._task.changelog_partition
        stream = config.changelog
        assert stream is not None
        ssp = SystemStreamPartition(stream.system, stream.stream, partition)
        topic, log = self._changelogs.look(config, ssp)
        serdes = entry_serde_names(self._config, config, factory)
        identity = StoreIdentity(self._job, config.name, partition, topic.stream_id, config.ttl_ms is not None, *serdes)
        committed = self._task.committed.get(config.name, -1)
        check_end(ssp, log, committed)
        accepted = Acceptance(config, identity, log, delete_retention_ms(topic, config), self._clock.wall_ms())
        local, taken_over = self._local(factory, settings, accepted, provisional=provisional)
        kept = local.marker is not None
        if not kept and config.ttl_ms is None:
            # Where entries expire, the beginning of the changelog is deleted as they do.
            try:
                check_beginning(ssp, log, committed)
            except EnvironmentFailure:
                local.engine.close()
                raise
        return _Opened(
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
            doubt=None if local.marker is None else accepted.doubt(local.marker),
            max_record_bytes=max_record_bytes(topic),
            known_end=self._known_end(config.name, ssp, topic, log),
        )

    def _known_end(
        self, store: str, ssp: SystemStreamPartition, topic: StreamDescription, log: OffsetRange
    ) -> int | None:
        known = self._task.known_end(store, ssp, topic)
        return None if known is None else max(known, log.oldest)

    def _local(
        self, factory: StorageEngineFactory, settings: EngineSettings, accepted: Acceptance, *, provisional: bool
    ) -> tuple[LocalStore, bool]:
        """The best there is to begin with: files of this machine, a snapshot, or nothing; and whether a standby's were
        taken over."""
        config, log, now_ms = accepted.config, accepted.log, accepted.now_ms
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

    def _task_store(self, store: _Opened, consumer_of: Callable[[str], SystemConsumer]) -> TaskStore:
        config, factory = store.config, self._engines[store.config.name]
        settings = EngineSettings(config.name, config.properties, self._task.tasks_in_container)
        key_serde, msg_serde = entry_serdes(config, factory, settings, self._serdes)
        if changes_in_place(factory) and not self._config.task.errors.policies[Stage.PROCESS].only_fails:
            # What a failed message changed is undone by putting back what was there, which must then be unchanged.
            config = replace(config, object_cache_mode="copy")
        end = None if store.ssp is None else ChangelogEnd(config.name, store.ssp, store.bound, consumer_of)
        origin = None if store.ssp is None else ChangelogOrigin(store.ssp, self._admin_of, consumer_of, self._clock)
        stack = build_stack(config, store.engine, key_serde, msg_serde, store.max_record_bytes, self._clock, origin)
        offset = max(store.bound, store.start) - 1
        view = view_of(factory, settings)
        return TaskStore(
            stack,
            store.engine,
            store.identity,
            store.ssp,
            offset,
            self._clock,
            config.local_files,
            view=view,
            filling=store.filling,
            backup=self._backups.maker(config, store.engine, factory, settings, self._logged.directory(config.name)),
            end=end,
            own=None if store.known_end is None else store.known_end - 1,
            directory=self._logged.directory(config.name) if factory.persistent else None,
        )


def _result(store: _Opened, read: Restored) -> RestoreResult:
    found = None if store.ssp is None else read.get(store.ssp)
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
