"""Prepares the process that a container runs in: its open files, its garbage collector, its orphaned stores.

1. RocksDB opens files when it needs them, and would fail in the middle of a write without free descriptors; librdkafka
   reports a socket that it cannot open as a broker that does not answer. So a start that needs too many is refused.
2. A poll makes thousands of objects that live for milliseconds. By default Python scans young objects for cycles every 700
   objects, and these scans lead to scans of all objects: a quarter of the CPU time of the keyed count. So young objects are
   scanned every 100,000 objects, and those loaded before the first message are never scanned.
3. A thread looks for orphaned local stores once a start, since deleting a large one takes long.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import psutil

from samzapy.api.engine import StorageEngineFactory
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.errors import TooFewFiles
from samzapy.job.files import MOST, raise_limit
from samzapy.job.model import ContainerModel
from samzapy.job.transactions import state_transactions
from samzapy.storage.local.orphans import sweep_orphans
from samzapy.system.factories import load_factory


def provide_descriptors(config: JobConfig, model: ContainerModel, engines: Mapping[str, StorageEngineFactory]) -> None:
    """Raise the process's limit of open files as far as possible, and check that it suffices for the container's start.

    The estimate is a lower bound: a store with many tables needs more. Raises TooFewFiles.
    """
    limit = raise_limit(MOST)
    opened = psutil.Process().num_fds()
    stores, files, clients = files_needed(config, model, engines)
    if limit is not None and opened + files + clients > limit:
        raise TooFewFiles(
            f"container {model.id}: expected a limit of at least {opened + files + clients:,} open files, got {limit:,}: "
            f"{files:,} for {stores:,} stores ({len(model.tasks):,} tasks), {clients:,} for clients, {opened:,} are open "
            "already; raise it (ulimit -n), or use more containers (job.container.count)"
        )


class FilesNeeded(NamedTuple):
    """Stores with files, and the least files that they and the clients of systems have open."""

    stores: int
    of_stores: int
    of_clients: int


def files_needed(config: JobConfig, model: ContainerModel, engines: Mapping[str, StorageEngineFactory]) -> FilesNeeded:
    """The files of a container, without the files that its process has open anyway."""
    opening = [engine.open_files for engine in engines.values() if engine.open_files]
    tasks = len(model.tasks)
    return FilesNeeded(tasks * len(opening), tasks * sum(opening), _clients(config))


def _clients(config: JobConfig) -> int:
    used = {stream.system for stream in config.task.inputs}
    found = sum(load_factory(config.systems[system]).open_files for system in used)
    # One transaction carries the state of all tasks.
    state = state_transactions(config, lambda settings: load_factory(settings).transactional).system
    return found + (0 if state is None else load_factory(config.systems[state]).transactional_open_files)


#: The collector's thresholds while messages flow.
_YOUNG, _MIDDLE, _OLD = 100_000, 20, 100


class ProcessUsage:
    """The memory, CPU time, threads and open files of this process, when it is called."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def __call__(self) -> dict[str, float]:
        """`resident-bytes`, `cpu-s`, `threads` and `open-files`."""
        process = self._process
        with process.oneshot():
            times = process.cpu_times()
            return {
                "resident-bytes": process.memory_info().rss,
                "cpu-s": times.user + times.system,
                "threads": process.num_threads(),
                "open-files": process.num_fds(),
            }


@contextmanager
def tuned_for_messages() -> Iterator[None]:
    """Collect rarely inside the context; restore the settings after it."""
    before = gc.get_threshold()
    if before[0] == 0:  # The user's code has switched the collector off.
        yield
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def sweep_in_background(config: JobConfig, tasks: Collection[str], clock: Clock) -> threading.Thread | None:
    """Sweep the logged stores of the job on this machine, except the stores of `tasks`; None if there is nothing to do."""
    ttl_ms = config.placement.orphan_ttl_ms
    if ttl_ms < 0 or not any(store.changelog is not None for store in config.stores.values()):
        return None
    arguments = (config.logged_store_base_dir, config.job_name, frozenset(tasks), ttl_ms, clock.wall_ms())
    thread = threading.Thread(target=sweep_orphans, args=arguments, name="samzapy-orphans", daemon=True)
    thread.start()
    return thread
