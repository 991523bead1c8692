"""Prepares the process that a container runs in: its open files, its garbage collector, its orphaned stores.

1. RocksDB opens files when it needs them, and would fail in the middle of a write without free descriptors; librdkafka
   reports a socket that it cannot open as a broker that does not answer. So a start that needs too many is refused.
2. A poll makes thousands of objects that live for milliseconds. By default Python scans young objects for cycles every
   700 objects, and these scans lead to scans of all objects: a quarter of the CPU time of the keyed count. So young
   objects are scanned every 100,000 objects, and those loaded before the first message are never scanned.
3. A thread looks for orphaned local stores once a start, since deleting a large one takes long.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import psutil

from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import ENGINES
from samzapy.config.reading.keys import Reader
from samzapy.config.stores.engines import RocksDbKeys
from samzapy.errors import TooFewFiles
from samzapy.job.files import MOST, raise_limit
from samzapy.job.planner import ContainerModel
from samzapy.storage.local.directory import sweep_orphans
from samzapy.storage.spec import StoreSpec

#: The files of one task's part of a store of RocksDB: lock, log, manifest, folders, one table, and one that is being
#: written; and of an admin, a consumer and the producers of a system, on a cluster of one broker.
STORE_FILES, CLIENT_FILES = 8, 26


def files_needed(config: JobConfig, model: ContainerModel, engines: Mapping[str, StoreSpec]) -> int:
    """The least open files of a container, without those that its process has open anyway. A store with many tables
    needs more; an engine of a plug-in has its lock."""
    ours = ENGINES.short.values()
    item = [STORE_FILES if config.stores[name].factory in ours else 1 for name, e in engines.items() if e.persistent]
    return len(model.tasks) * sum(item) + CLIENT_FILES * len({stream.system for stream in config.task.inputs})


def provide_descriptors(config: JobConfig, model: ContainerModel, engines: Mapping[str, StoreSpec]) -> None:
    """Raise the process's limit of open files as far as possible, and check that it suffices for the container's start.
    Raises TooFewFiles."""
    limit = raise_limit(MOST)
    opened, needed = psutil.Process().num_fds(), files_needed(config, model, engines)
    if limit is not None and opened + needed > limit:
        raise TooFewFiles(
            f"container {model.id}: expected a limit of at least {opened + needed:,} open files, got {limit:,}: "
            f"{needed:,} for the stores and clients of {len(model.tasks):,} tasks, {opened:,} are open already; raise "
            "it (ulimit -n), or use more containers (job.container.count)"
        )


class Memory(NamedTuple):
    """A part of a container's memory: what it is for, its bytes, and the key or the count that decides its size."""

    use: str
    size: int
    reason: str


#: Measured: a process with the libraries of a container, one task, and the part of a task in a RocksDB store.
PROCESS_BYTES, TASK_BYTES, STORE_BYTES = 75_000_000, 100_000, 250_000
#: The records of two polls, as bytes and as objects, and librdkafka's default queues of a consumer and a producer.
_SYSTEM_BYTES = 48_000_000 + 16_777_216 + 134_217_728


def memory_needed(config: JobConfig, model: ContainerModel, engines: Mapping[str, StoreSpec]) -> list[Memory]:
    """An estimate of the most memory that a container needs while it processes.

    It leaves out the memory of the task's own code, objects in caches that are counted in objects, RocksDB's filters
    and indexes (about 1.5 bytes a key), and block caches and queues whose sizes a store or a system sets for itself.
    """
    tasks, stores = len(model.tasks), sum(engine.persistent for engine in engines.values())
    systems = {stream.system for stream in config.task.inputs}
    shared = Reader(config.resolved).read(RocksDbKeys, {"store": "shared"})
    parts = [
        Memory("process", PROCESS_BYTES, "Python and the libraries"),
        Memory("tasks", tasks * TASK_BYTES, f"{tasks:,} tasks"),
        Memory("opened stores", tasks * stores * STORE_BYTES, f"{tasks * stores:,} parts of stores"),
        Memory("polls and queues", len(systems) * _SYSTEM_BYTES, f"inputs on {', '.join(sorted(systems))}"),
        Memory("objects, uncommitted changes", config.cache_max_bytes * bool(engines), "container.cache.max.bytes"),
        Memory("block cache", shared.shared_cache_bytes * bool(stores), "container.rocksdb.cache.bytes"),
        Memory("memtables", shared.shared_write_buffer_bytes * bool(stores), "container.rocksdb.write.buffer.bytes"),
    ]
    return [part for part in parts if part.size]


#: Milliseconds without use after which a start sets a local store aside.
_UNUSED_MS = 7 * 86_400_000
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
    """Sweep the logged stores of the job on this machine, except the stores of `tasks`; None if there is nothing to
    do."""
    if not any(store.changelog is not None for store in config.stores.values()):
        return None
    arguments = (config.logged_store_base_dir, config.job_name, frozenset(tasks), _UNUSED_MS, clock.wall_ms())
    thread = threading.Thread(target=sweep_orphans, args=arguments, name="samzapy-orphans", daemon=True)
    thread.start()
    return thread
