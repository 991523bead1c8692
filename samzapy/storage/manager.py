"""The stores of one task, as its container uses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

from samzapy.api.engine import EngineSettings, StorageEngineFactory, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemAdmin, SystemConsumer, SystemProducer
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig, backup
from samzapy.errors import ConfigError, ConfigProblem, StoreError
from samzapy.plugins import PluginError, load_class
from samzapy.storage.backup import BackupUnavailable, check_folder
from samzapy.storage.changelog import Changelogs
from samzapy.storage.changelog_end import ChangelogEnd
from samzapy.storage.kv.read_only import ReadOnlyStore
from samzapy.storage.opening import Restored, StoreOpener, TaskSettings
from samzapy.storage.restore import (
    ProgressCallback,
    RestoreRead,
    RestoreResult,
    ShouldStop,
    StoreRestore,
    never,
    run_restores,
)
from samzapy.storage.tails import Tail, with_records
from samzapy.storage.task_store import TaskStore
from samzapy.storage.views.engine import ViewEngineFactory, serde_problems

#: A store that is opened waits for the disk a dozen times.
_MOST_OPENED_AT_ONCE = 8


class TaskStores:
    """One task's stores between two commits.

    A commit calls `flush`, `send_changes`, (the producer's flush), `changelog_offsets`, (the checkpoint), `apply`; the
    task does not run in between. When one of them fails, what is where is not known any more: every later one raises
    StoreError, and the next attempt restores.
    """

    def __init__(self, stores: Mapping[str, TaskStore], restored: Mapping[str, RestoreResult]) -> None:
        self.stores: Mapping[str, KeyValueStore[Any, Any]] = {name: _visible(held) for name, held in stores.items()}
        self.restored = dict(restored)
        #: Those that are filled from streams, before the task starts and, if they are read-only, from then on.
        self.sourced: Mapping[str, TaskStore] = {
            name: held for name, held in stores.items() if held.filling is not None
        }
        #: Of each store with a changelog, what its keys and values are written with.
        self.serdes = {name: held.identity.serdes for name, held in stores.items() if held.changelog is not None}
        self._held = dict(stores)
        self._own = {name: held for name, held in stores.items() if not held.read_only}
        self._failure: BaseException | None = None

    def as_seen(self, stores: Mapping[str, KeyValueStore[Any, Any]]) -> dict[str, Any]:
        """What the task gets: each of `stores` (these ones, or wrapped), or its engine's view of it."""
        views = {name: held.view for name, held in self._held.items() if held.view is not None}
        return {name: views[name](store) if name in views else store for name, store in stores.items()}

    def flush(self) -> None:
        """Serialize what the object caches hold back, in every store."""
        with self._poisoned_by_failure():
            for held in self._own.values():
                held.stack.store.flush()

    def over_budget(self) -> bool:
        """Whether some store holds more uncommitted bytes than it may, so that the task should commit."""
        return any(held.stack.uncommitted.over_budget() for held in self._own.values())

    def send_changes(self, producer_of: Callable[[str], SystemProducer]) -> None:
        """Queue one changelog record per changed key of every store that has a changelog."""
        with self._poisoned_by_failure():
            for held in self._held.values():
                if held.changelog is not None and held.has_records:
                    held.send_changes(producer_of(held.changelog.system))

    def changelog_offsets(self, producer_of: Callable[[str], SystemProducer]) -> dict[str, int]:
        """Per store with a changelog, the offset of its last record, once the producers are flushed; -1: none ever."""
        with self._poisoned_by_failure():
            return {
                name: held.acknowledged_offset(producer_of(held.changelog.system))
                for name, held in self._held.items()
                if held.changelog is not None
            }

    def offsets(self) -> dict[str, int]:
        """Per store with a changelog, the offset of the last record that the task has written there; -1 for none."""
        return {name: held.own_offset for name, held in self._held.items() if held.changelog is not None}

    def changelog_ends(self, system: str) -> Iterator[ChangelogEnd]:
        """What sees that nobody else writes to the stores' changelogs on that system."""
        for held in self._held.values():
            if held.end is not None and held.end.ssp.system == system:
                yield held.end

    def distrust(self, changelog: object) -> None:
        """Set the files of the store with that changelog aside when it is closed."""
        for held in self._held.values():
            if held.changelog == changelog:
                held.distrust()

    def changes_committed(self, marker_offsets: int) -> None:
        """What `send_changes` has sent is durable; the end of its transaction took so many offsets more."""
        for held in self._held.values():
            if held.end is not None:
                held.end.committed(marker_offsets)

    def apply(self, changelog_offsets: Mapping[str, int], input_offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Write every store's changes and marker to its engine; afterwards nothing is uncommitted."""
        with self._poisoned_by_failure():
            for name, held in self._own.items():
                held.apply(changelog_offsets.get(name, held.offset), input_offsets)

    def discard(self) -> None:
        """Throw away everything since the last commit, cached objects included."""
        for held in self._own.values():
            held.discard()

    def flush_if_due(self) -> None:
        """Move to disk what has long been only in the engines' memory; a commit does so by itself, an idle task has none."""
        with self._poisoned_by_failure():
            for held in self._held.values():
                held.flush_if_due()

    def flush_engines(self) -> None:
        """Move what is only in the engines' memory to disk: at a graceful stop, so that the next start is quick."""
        with self._poisoned_by_failure():
            for held in self._held.values():
                held.flush_engine()
        for held in self._held.values():
            if held.backup is not None:
                held.backup.settle()

    def close(self) -> None:
        """Close every store, also when one of them fails; what was not committed is gone."""
        with ExitStack() as closing:
            for held in self._held.values():
                closing.callback(held.close)

    def metrics(self) -> dict[str, float]:
        """Every layer's counts and sizes, as `store.name`, and what was read of the changelog at the start."""
        found = {f"{name}.{key}": value for name, held in self._held.items() for key, value in held.metrics().items()}
        for name, result in self.restored.items():
            found[f"{name}.messages-restored"] = result.records
            found[f"{name}.messages-bytes"] = result.bytes
        return found

    @contextmanager
    def _poisoned_by_failure(self) -> Iterator[None]:
        if self._failure is not None:
            raise StoreError(f"the task's stores failed before: {self._failure}") from self._failure
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            raise


def _visible(held: TaskStore) -> KeyValueStore[Any, Any]:
    """What the task gets, apart from views."""
    if not held.read_only:
        return held.stack.store
    name = held.identity.store
    return ReadOnlyStore(held.stack.store, f"store '{name}' is filled by stores.{name}.side.inputs; the task reads it")


def load_engines(config: JobConfig) -> dict[str, StorageEngineFactory]:
    """A factory per store, to be shared by the tasks of a container. Raises ConfigError with every problem."""
    engines: dict[str, StorageEngineFactory] = {}
    problems: list[ConfigProblem] = []
    for name, store in config.stores.items():
        key = f"stores.{name}.factory"
        try:
            factory = _factory(store)
        except PluginError as cause:
            problems.append(ConfigProblem(key, store.factory, str(cause)))
            continue
        engines[name] = factory
        settings = EngineSettings(name, store.properties)
        for leaf, value, allowed in (*factory.check(settings), *serde_problems(store, factory, settings)):
            problems.append(ConfigProblem(f"stores.{name}.{leaf}", value, allowed))
        problems += _backup_problems(store, factory)
    if problems:
        raise ConfigError(problems)
    return engines


def _backup_problems(store: StoreConfig, factory: StorageEngineFactory) -> Iterator[ConfigProblem]:
    if store.backup is None:
        return
    key = backup.PATH.at(store=store.name)
    if not factory.makes_checkpoints:
        yield ConfigProblem(key, store.backup.path, f"is for engines that make checkpoints, not {store.factory}")
    try:
        check_folder(store.backup.path)
    except BackupUnavailable as cause:
        yield ConfigProblem(key, store.backup.path, str(cause))


def _factory(store: StoreConfig) -> StorageEngineFactory:
    found = load_class(store.factory)
    if issubclass(found, StoreViewFactory):
        below = load_class(store.base)
        if not issubclass(below, StorageEngineFactory):
            raise PluginError(f"its base {store.base} must be a StorageEngineFactory")
        return ViewEngineFactory(found(), below())
    if not issubclass(found, StorageEngineFactory):
        raise PluginError("must be a StorageEngineFactory or a StoreViewFactory")
    return found()


class OpeningStores:
    """One task's stores between the opening of their files and the end of their restore."""

    def __init__(self, opener: StoreOpener) -> None:
        self._opener = opener

    def doubtful(self) -> list[Tail]:
        """Tails of changelogs that decide whether a store is too old: see `settle`."""
        return self._opener.doubtful()

    def settle(self, changed: Collection[SystemStreamPartition]) -> None:
        """Before `behind`: set aside the stores that are too old, since there are records in the tails `changed`."""
        self._opener.settle(changed)

    def behind(self) -> list[StoreRestore]:
        """What has to be read from changelogs, up to the ends they had at the opening."""
        return self._opener.behind()

    def finish(self, read: Restored, consumer_of: Callable[[str], SystemConsumer]) -> TaskStores:
        """The stores, now that everything `behind` was read. They keep `consumer_of`, to find what cannot be read."""
        return TaskStores(*self._opener.finish(read, consumer_of))

    def abandon(self) -> None:
        """Close what is open, when the task will not be started; nothing happens after `finish` has returned."""
        self._opener.abandon()


def begin_task_stores(
    config: JobConfig,
    task: TaskSettings,
    *,
    serdes: Mapping[str, Serde],
    engines: Mapping[str, StorageEngineFactory],
    admin_of: Callable[[str], SystemAdmin],
    clock: Clock,
    lock_wait_s: float = 10.0,
) -> OpeningStores:
    """As `begin_all_stores`, of one task."""
    (opening,) = begin_all_stores(
        config, [task], serdes=serdes, engines=engines, admin_of=admin_of, clock=clock, lock_wait_s=lock_wait_s
    )
    return opening


def begin_all_stores(
    config: JobConfig,
    tasks: Sequence[TaskSettings],
    *,
    serdes: Mapping[str, Serde],
    engines: Mapping[str, StorageEngineFactory],
    admin_of: Callable[[str], SystemAdmin],
    clock: Clock,
    lock_wait_s: float = 10.0,
) -> list[OpeningStores]:
    """Open the stores of a container's tasks, to be restored. Stores without a changelog start empty.

    The changelogs exist (`ensure_changelog`) and no predecessor of the tasks writes to them any more: their ends, taken
    here, are the restore's bounds. Where the engines allow it, several tasks' stores are opened at once. If one fails, none
    stays open. Raises StoreLocked when a store is still locked after `lock_wait_s` seconds, EnvironmentFailure when a
    changelog is missing or not compacted.
    """
    changelogs = Changelogs(admin_of, [task.changelog_partition for task in tasks])
    openers = [StoreOpener(config, task, admin_of, engines, serdes, clock, lock_wait_s, changelogs) for task in tasks]
    with ExitStack() as failing:
        for opener in openers:
            failing.callback(opener.abandon)
        if len(openers) > 1 and _may_open_at_once(config, engines):
            changelogs.find(config.stores.values())
            with ThreadPoolExecutor(_MOST_OPENED_AT_ONCE, thread_name_prefix="samzapy-open") as pool:
                list(pool.map(partial(StoreOpener.begin, provisional=True), openers))
        else:
            for opener in openers:
                opener.begin(provisional=True)
        failing.pop_all()
    return [OpeningStores(opener) for opener in openers]


def _may_open_at_once(config: JobConfig, engines: Mapping[str, StorageEngineFactory]) -> bool:
    """Whether nothing that opens the stores is bound to a thread: neither an engine, nor an admin of streams that fill one."""
    return all(engines[name].opens_in_any_thread and store.source is None for name, store in config.stores.items())


def restore_together(
    openings: Sequence[OpeningStores],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    on_progress: ProgressCallback | None = None,
    should_stop: ShouldStop = never,
) -> list[TaskStores]:
    """Restore the stores of several tasks, in order, with one consumer a system for all of them.

    `on_progress` hears of `task/store`, offsets read, offsets to read. If one fails, none stays open. Raises
    RestoreError when a changelog cannot be read to its end, RestoreStopped once it `should_stop`.
    """
    with ExitStack() as failing:
        for opening in openings:
            failing.callback(opening.abandon)
        _settle(openings, consumer_of, clock)
        behind = [restore for opening in openings for restore in opening.behind()]
        read = _read(behind, consumer_of, clock, on_progress, should_stop)
        restored = []
        for opening in openings:
            restored.append(opening.finish(read, consumer_of))
            failing.callback(restored[-1].close)
        failing.pop_all()
    return restored


def _settle(openings: Sequence[OpeningStores], consumer_of: Callable[[str], SystemConsumer], clock: Clock) -> None:
    """Look into the tails that decide whether stores are too old, all those of a system with one consumer."""
    tails = [tail for opening in openings for tail in opening.doubtful()]
    changed: set[SystemStreamPartition] = set()
    for system in dict.fromkeys(tail.ssp.system for tail in tails):
        with closing(consumer_of(system)) as consumer:
            changed |= with_records([tail for tail in tails if tail.ssp.system == system], consumer, clock)
    for opening in openings:
        opening.settle(changed)


def _read(
    restores: Sequence[StoreRestore],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    on_progress: ProgressCallback | None,
    should_stop: ShouldStop,
) -> dict[SystemStreamPartition, RestoreRead]:
    """What was read of every changelog partition, system by system."""
    read: dict[SystemStreamPartition, RestoreRead] = {}
    for system in dict.fromkeys(restore.ssp.system for restore in restores):
        with closing(consumer_of(system)) as consumer:
            of_system = [restore for restore in restores if restore.ssp.system == system]
            read.update(run_restores(of_system, consumer, clock, on_progress, should_stop=should_stop))
    return read
