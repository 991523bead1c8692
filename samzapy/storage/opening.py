"""Opens and restores the stores of a container's tasks.

1. `StoreOpener.open` takes the ends of the changelogs, which are the bounds of the restores, and opens the files of
   every task. No predecessor of the tasks writes by then.
2. `StoreOpener.restore` first reads the tails that decide whether a store is too old, then the missing records, with
   one consumer per system for all tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path

from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamDescription, SystemAdmin, SystemConsumer
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores.store import StoreSource
from samzapy.errors import ForeignRecords, StateLost
from samzapy.storage.backup.snapshot import open_backup, snapshot_reader
from samzapy.storage.changelog.restore import ProgressCallback, ShouldStop, run_restores
from samzapy.storage.changelog.topic import (
    ChangelogEnd,
    ChangelogOrigin,
    Changelogs,
    Tail,
    check_beginning,
    check_end,
    delete_retention_ms,
    first_records,
    max_record_bytes,
)
from samzapy.storage.kv.entries import CacheBudget
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.local.directory import LocalFiles, OpenedFiles, check_sample, standbys_in, store_directory
from samzapy.storage.local.marker import Acceptance, SideInputPlan, StoreIdentity
from samzapy.storage.spec import StoreSpec
from samzapy.storage.store import Store, TaskStores

#: Stores are opened in parallel, since an open waits for the disk a dozen times.
_MOST_OPENED_AT_ONCE = 8


@dataclass(frozen=True)
class StoreOwner:
    """A task that owns stores.

    - `committed`, `written_to`: by store, the changelog offset that its state must reach, since the inputs up to there
      are done, and the id of the stream that the offset is of, where it is known.
    - `ssps`, `starts`: the task's partitions and where it starts in them, for stores that are filled from streams.
    - `own_ends`: by store, the offset after the last changelog record that the task has written; None if not known.
    - `adopted_end`: the offset up to which other records of a changelog partition, with this topic id, were adopted.
    """

    name: str
    changelog_partition: int
    committed: Mapping[str, int] = field(default_factory=dict)
    written_to: Mapping[str, str] = field(default_factory=dict)
    _: KW_ONLY
    ssps: frozenset[SystemStreamPartition] = frozenset()
    starts: Mapping[SystemStreamPartition, int] = field(default_factory=dict)
    own_ends: Mapping[str, int] | None = None
    adopted_end: Callable[[SystemStreamPartition, str], int] = lambda _ssp, _topic_id: 0


#: One task's stores, by name. A store that turns out to be too old is replaced by a new one.
Stores = dict[str, Store]


class StoreOpener:
    """Opens the stores of a container's tasks, and makes them READY once they are restored."""

    def __init__(
        self,
        config: JobConfig,
        specs: Mapping[str, StoreSpec],
        serdes: Mapping[str, Serde],
        *,
        admin_of: Callable[[str], SystemAdmin],
        clock: Clock,
        tasks: int = 1,
        lock_wait_s: float = 10.0,
        record_limit_of: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        """`tasks` of the container share its memory. `lock_wait_s`: seconds to wait for a locked store.
        `record_limit_of`: the largest record that a system's producer sends, None for any."""
        self._config = config
        self._specs = {name: specs[name] for name in config.stores if name in specs}
        self._serdes = serdes
        self._admin_of = admin_of
        self._clock = clock
        self._tasks = tasks
        self._lock_wait_s = lock_wait_s
        self._record_limit_of = record_limit_of
        self._budget = CacheBudget(config.cache_max_bytes)
        self._owners: Sequence[StoreOwner] = ()
        self._changelogs = Changelogs(admin_of, (), ())
        self._standbys: Mapping[Path, Sequence[Path]] = {}

    def open(self, owners: Sequence[StoreOwner], *, provisional: bool = True) -> list[Stores]:
        """The stores of these tasks, OPENED. If one fails, none stays open. With `provisional` a store that may be too
        old is opened as well; `restore` replaces it if it is.

        If all engines keep files, several tasks' stores are opened at once, since any thread may open those. Raises
        StoreLocked when a store is still locked after `lock_wait_s` seconds, EnvironmentFailure when a changelog is
        missing or not compacted, StateLost when it does not have the committed state.
        """
        self._owners = owners
        partitions = [owner.changelog_partition for owner in owners]
        self._changelogs = Changelogs(self._admin_of, [spec.config for spec in self._specs.values()], partitions)
        folders = [self._directory(owner, spec).parent for owner in owners[:1] for spec in self._specs.values()]
        self._standbys = {path: copies for folder in folders for path, copies in standbys_in(folder).items()}
        tasks: list[Stores] = [{} for _ in owners]
        at_once = all(spec.persistent and spec.config.source is None for spec in self._specs.values())
        with ExitStack() as failing:
            failing.callback(close_all, tasks)
            if len(owners) > 1 and at_once:
                with ThreadPoolExecutor(_MOST_OPENED_AT_ONCE, thread_name_prefix="samzapy-open") as pool:
                    list(pool.map(partial(self._open_task, provisional), owners, tasks))
            else:
                for owner, stores in zip(owners, tasks, strict=True):
                    self._open_task(provisional, owner, stores)
            failing.pop_all()
        return tasks

    def _open_task(self, provisional: bool, owner: StoreOwner, stores: Stores) -> None:
        for name, spec in self._specs.items():
            stores[name] = self._open(owner, spec, provisional=provisional)

    def _open(self, owner: StoreOwner, spec: StoreSpec, *, provisional: bool) -> Store:
        if spec.config.source is not None:
            return self._open_sourced(owner, spec, spec.config.source)
        if spec.config.changelog is not None:
            return self._open_logged(owner, spec, spec.config.changelog, provisional=provisional)
        files = self._files(owner, spec).open_empty()
        return Store(owner.name, spec, files, self._identity(owner, spec), self._clock)

    def _files(self, owner: StoreOwner, spec: StoreSpec) -> LocalFiles:
        return LocalFiles(spec, self._directory(owner, spec), self._clock, self._tasks, self._lock_wait_s)

    def _directory(self, owner: StoreOwner, spec: StoreSpec) -> Path:
        config = self._config
        return store_directory(config.base_dir(spec.config), config.job_name, spec.config.name, owner.name)

    def _identity(self, owner: StoreOwner, spec: StoreSpec, source: str = "") -> StoreIdentity:
        stamped = spec.config.ttl_ms is not None
        partition = owner.changelog_partition
        return StoreIdentity(self._config.job_name, spec.config.name, partition, source, stamped, *spec.serde_names)

    def _open_sourced(self, owner: StoreOwner, spec: StoreSpec, source: StoreSource) -> Store:
        plan = SideInputPlan(spec.config.name, source, owner.name, owner.ssps, owner.starts, self._admin_of)
        identity, files = self._identity(owner, spec, plan.stamp), self._files(owner, spec)
        if spec.config.clean_on_start:
            opened = files.open_empty()
        else:
            opened = files.open_kept(lambda marker: plan.refusal(marker, identity, self._clock.wall_ms()))
        return Store(owner.name, spec, opened, identity, self._clock, filling=plan.filling(opened.marker))

    def _open_logged(self, owner: StoreOwner, spec: StoreSpec, stream: SystemStream, *, provisional: bool) -> Store:
        config = spec.config
        ssp = SystemStreamPartition(stream.system, stream.stream, owner.changelog_partition)
        topic, log = self._changelogs.get(config, ssp)
        identity = self._identity(owner, spec, topic.stream_id)
        committed = owner.committed.get(config.name, -1)
        adopted = owner.adopted_end(ssp, topic.stream_id)
        check_end(ssp, log, committed, owner.written_to.get(config.name), topic.stream_id, adopted)
        accepted = Acceptance(config, identity, log, delete_retention_ms(topic, config), self._clock)
        files = self._files(owner, spec)
        opened = self._furthest(owner, spec, files, accepted, provisional=provisional)
        own_ends = owner.own_ends
        own_end = None if own_ends is None else max(own_ends.get(config.name, 0), adopted, log.oldest)
        start = log.oldest if opened.marker is None else opened.marker.changelog_offset + 1
        store = Store(
            owner.name,
            spec,
            opened,
            accepted.identity_from(opened.marker),
            self._clock,
            tail=Tail(ssp, start, log.upcoming, own_end),
            doubt=None if opened.marker is None else partial(accepted.doubt, opened.marker),
        )
        if opened.marker is None and config.ttl_ms is None:
            # With expiring entries the beginning of the changelog is deleted as well.
            try:
                check_beginning(ssp, log, committed)
            except StateLost as lost:
                store.refuse(lost)
                store.close()
                raise
        return store

    def _furthest(
        self, owner: StoreOwner, spec: StoreSpec, files: LocalFiles, accepted: Acceptance, *, provisional: bool
    ) -> OpenedFiles:
        """The furthest store to begin with: files of this machine, a snapshot, or an empty one."""
        if spec.config.clean_on_start:
            return files.open_empty()
        taken_over = files.take_over_standby(self._standbys, accepted.refusal)
        opened = files.open_kept(
            accepted.misfit if provisional else accepted.refusal, "standby" if taken_over else "local store"
        )
        is_behind = opened.marker is None and accepted.log.upcoming > accepted.log.oldest
        if is_behind and (fetch := snapshot_reader(self._config.job_name, owner.name, spec.config, accepted.refusal)):
            return files.fetch(opened, fetch)
        return opened

    def restore(
        self,
        tasks: Sequence[Stores],
        consumer_of: Callable[[str], SystemConsumer],
        on_progress: ProgressCallback | None = None,
        should_stop: ShouldStop = lambda: False,
    ) -> list[TaskStores]:
        """Restore the opened stores, and make them READY; they keep `consumer_of`, to find unreadable records.

        `on_progress` gets `task/store`, offsets read, offsets to read. If one fails, none stays open. Raises
        RestoreError when a changelog cannot be read to its end, ForeignRecords when it has records of another writer,
        RestoreStopped once it `should_stop`, ConfigError if the class of a store cannot read its entries.
        """
        with ExitStack() as failing:
            failing.callback(close_all, tasks)
            self._replace_outdated(tasks, consumer_of)
            restores = [restore for store in _each(tasks) if (restore := store.restore()) is not None]
            try:
                for system in dict.fromkeys(restore.ssp.system for restore in restores):
                    of_system = [restore for restore in restores if restore.ssp.system == system]
                    with closing(consumer_of(system)) as consumer:
                        run_restores(of_system, consumer, self._clock, on_progress, should_stop=should_stop)
            except ForeignRecords as foreign:
                for store in _each(tasks):
                    if store.changelog == foreign.ssp:
                        store.refuse(foreign)
                raise
            for owner, stores in zip(self._owners, tasks, strict=True):
                for store in stores.values():
                    self._make_ready(owner, store, consumer_of)
            failing.pop_all()
        return list(map(TaskStores, tasks))

    def _replace_outdated(self, tasks: Sequence[Stores], consumer_of: Callable[[str], SystemConsumer]) -> None:
        """Open stores anew that are too old if their tails have any record, and do."""
        tails = [store.tail for store in _each(tasks) if store.tail is not None and store.is_doubtful()]
        changed = first_records(tails, consumer_of, self._clock)
        for owner, stores in zip(self._owners, tasks, strict=True):
            for name, store in stores.items():
                if store.changelog in changed:
                    store.engine.close()
                    stores[name] = self._open(owner, store.spec, provisional=False)

    def _make_ready(self, owner: StoreOwner, store: Store, consumer_of: Callable[[str], SystemConsumer]) -> None:
        spec, config, ssp = store.spec, store.spec.config, store.changelog
        serdes = spec.serdes(self._serdes)
        check_sample(config, store.engine, *serdes)
        origin = end = limit = None
        if ssp is not None and store.tail is not None:
            origin = ChangelogOrigin(ssp, self._admin_of, consumer_of, self._clock)
            end = ChangelogEnd(config.name, ssp, store.tail.bound, consumer_of)
            limit = self._largest_record(ssp.system, self._changelogs.get(config, ssp)[0])
        stack = build_stack(config, store.engine, *serdes, limit, self._clock, origin, self._budget)
        directory = self._directory(owner, spec)
        backup = open_backup(self._config.job_name, owner.name, spec, store.engine, directory, self._clock)
        store.ready(stack, end, backup)

    def _largest_record(self, system: str, topic: StreamDescription) -> int | None:
        limits = (max_record_bytes(topic), self._record_limit_of(system))
        return min((limit for limit in limits if limit is not None), default=None)


def close_all(tasks: Sequence[Stores]) -> None:
    """Close the stores of tasks, also when one of them fails."""
    with ExitStack() as closing_all:
        for store in _each(tasks):
            closing_all.callback(store.close)


def _each(tasks: Sequence[Stores]) -> Iterator[Store]:
    return (store for stores in tasks for store in stores.values())
