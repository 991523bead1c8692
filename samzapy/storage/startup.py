"""Opens and restores the stores of a container's tasks.

1. `begin_all_stores` opens the files of every task and takes the ends of the changelogs.
2. `restore_together` looks into the tails that decide whether a store is too old, then reads the missing records, with
   one consumer per system for all tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial

from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemAdmin, SystemConsumer
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.storage.changelog.reading import first_records
from samzapy.storage.changelog.restore import (
    ProgressCallback,
    RestoreRead,
    ShouldStop,
    StoreRestore,
    never,
    run_restores,
)
from samzapy.storage.changelog.topic import Changelogs
from samzapy.storage.opening import StoreOpener, TaskSettings, job_stores
from samzapy.storage.spec import StoreSpec
from samzapy.storage.task_stores import TaskStores

#: Stores are opened in parallel, since an open waits for the disk a dozen times.
_MOST_OPENED_AT_ONCE = 8


def begin_task_stores(
    config: JobConfig,
    task: TaskSettings,
    *,
    serdes: Mapping[str, Serde],
    engines: Mapping[str, StoreSpec],
    admin_of: Callable[[str], SystemAdmin],
    clock: Clock,
    lock_wait_s: float = 10.0,
) -> StoreOpener:
    """Like `begin_all_stores`, for one task."""
    (opening,) = begin_all_stores(
        config, [task], serdes=serdes, engines=engines, admin_of=admin_of, clock=clock, lock_wait_s=lock_wait_s
    )
    return opening


def begin_all_stores(
    config: JobConfig,
    tasks: Sequence[TaskSettings],
    *,
    serdes: Mapping[str, Serde],
    engines: Mapping[str, StoreSpec],
    admin_of: Callable[[str], SystemAdmin],
    clock: Clock,
    lock_wait_s: float = 10.0,
    record_limit_of: Callable[[str], int | None] = lambda _: None,
) -> list[StoreOpener]:
    """Open the stores of a container's tasks, to be restored. Stores without a changelog start empty.

    The changelogs exist and no predecessor of the tasks writes to them: their ends, taken
    here, are the restore's bounds. Where the engines allow it, several tasks' stores are opened at once. If one fails,
    none stays open. Raises StoreLocked when a store is still locked after `lock_wait_s` seconds, EnvironmentFailure
    when a changelog is missing or not compacted.
    """
    changelogs = Changelogs(admin_of, [task.changelog_partition for task in tasks])
    job = job_stores(
        config,
        serdes=serdes,
        engines=engines,
        admin_of=admin_of,
        clock=clock,
        lock_wait_s=lock_wait_s,
        record_limit_of=record_limit_of,
    )
    openers = [StoreOpener(job, task, changelogs) for task in tasks]
    with ExitStack() as failing:
        for opener in openers:
            failing.callback(opener.abandon)
        changelogs.find(config.stores.values())
        if len(openers) > 1 and _may_open_at_once(config, engines):
            with ThreadPoolExecutor(_MOST_OPENED_AT_ONCE, thread_name_prefix="samzapy-open") as pool:
                list(pool.map(partial(StoreOpener.begin, provisional=True), openers))
        else:
            for opener in openers:
                opener.begin(provisional=True)
        failing.pop_all()
    return openers


def _may_open_at_once(config: JobConfig, engines: Mapping[str, StoreSpec]) -> bool:
    """Whether other threads may open the stores: no engine, and no admin of streams that fill one, is bound to a
    thread."""
    return all(engines[name].persistent and store.source is None for name, store in config.stores.items())


def restore_together(
    openings: Sequence[StoreOpener],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    on_progress: ProgressCallback | None = None,
    should_stop: ShouldStop = never,
) -> list[TaskStores]:
    """Restore the stores of several tasks, in order, with one consumer a system for all of them.

    `on_progress` gets `task/store`, offsets read, offsets to read. If one fails, none stays open. Raises
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


def _settle(openings: Sequence[StoreOpener], consumer_of: Callable[[str], SystemConsumer], clock: Clock) -> None:
    """Read the tails that decide whether stores are too old, all tails of a system with one consumer."""
    tails = [tail for opening in openings for tail in opening.doubtful()]
    changed: set[SystemStreamPartition] = set()
    for system in dict.fromkeys(tail.ssp.system for tail in tails):
        with closing(consumer_of(system)) as consumer:
            changed |= first_records([tail for tail in tails if tail.ssp.system == system], consumer, clock).keys()
    for opening in openings:
        opening.settle(changed)


def _read(
    restores: Sequence[StoreRestore],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    on_progress: ProgressCallback | None,
    should_stop: ShouldStop,
) -> dict[SystemStreamPartition, RestoreRead]:
    """Read every changelog partition, system by system; returns the amounts read."""
    read: dict[SystemStreamPartition, RestoreRead] = {}
    for system in dict.fromkeys(restore.ssp.system for restore in restores):
        with closing(consumer_of(system)) as consumer:
            of_system = [restore for restore in restores if restore.ssp.system == system]
            read.update(run_restores(of_system, consumer, clock, on_progress, should_stop=should_stop))
    return read
