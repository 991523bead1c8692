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
from samzapy.config.reading.classes import ENGINES, SYSTEMS
from samzapy.config.reading.keys import Reader
from samzapy.config.stores.engines import RocksDbKeys
from samzapy.errors import TooFewFiles
from samzapy.job.files import MOST, raise_limit
from samzapy.job.model import ContainerModel
from samzapy.job.transactions import state_transactions
from samzapy.storage.changelog.restore import CHUNK_BYTES
from samzapy.storage.local.directory import sweep_orphans
from samzapy.storage.spec import StoreSpec
from samzapy.system.clients import has_transactions


def provide_descriptors(config: JobConfig, model: ContainerModel, engines: Mapping[str, StoreSpec]) -> None:
    """Raise the process's limit of open files as far as possible, and check that it suffices for the container's start.

    The estimate is a lower bound: a store with many tables needs more. Raises TooFewFiles.
    """
    limit = raise_limit(MOST)
    opened = psutil.Process().num_fds()
    stores, files, clients = files_needed(config, model, engines)
    if limit is not None and opened + files + clients > limit:
        raise TooFewFiles(
            f"container {model.id}: expected a limit of at least {opened + files + clients:,} open files, got "
            f"{limit:,}: "
            f"{files:,} for {stores:,} stores ({len(model.tasks):,} tasks), {clients:,} for clients, {opened:,} are "
            "open "
            "already; raise it (ulimit -n), or use more containers (job.container.count)"
        )


class FilesNeeded(NamedTuple):
    """Stores with files, and the least files that they and the clients of systems have open."""

    stores: int
    of_stores: int
    of_clients: int


#: The files of one task's part of a store of RocksDB: lock, log, manifest, folders, one table, and one that is being
#: written.
STORE_FILES = 8
#: Pipes and sockets of an admin, a consumer and a producer of Kafka, on a cluster of one broker, and of a transactional
#: producer.
CLIENT_FILES, TRANSACTION_FILES = 18, 8


def files_needed(config: JobConfig, model: ContainerModel, engines: Mapping[str, StoreSpec]) -> FilesNeeded:
    """The files of a container, without the files that its process has open anyway. An engine of a plug-in has its
    lock."""
    ours = ENGINES.short.values()
    each = [STORE_FILES if config.stores[name].factory in ours else 1 for name, e in engines.items() if e.persistent]
    tasks = len(model.tasks)
    clients, transactions = _kafka_clients(config)
    return FilesNeeded(tasks * len(each), tasks * sum(each), CLIENT_FILES * clients + TRANSACTION_FILES * transactions)


def _kafka_clients(config: JobConfig) -> tuple[int, int]:
    """The Kafkas that a container reads, and the transactional producers for its state: one, if any, for all tasks."""
    kafka = SYSTEMS.short["kafka"]
    read = {stream.system for stream in config.task.inputs if config.systems[stream.system].factory == kafka}
    state = state_transactions(config, has_transactions).system
    return len(read), int(state is not None and config.systems[state].factory == kafka)


class Memory(NamedTuple):
    """A part of a container's memory: what it is for, its bytes, and the key or the count that decides its size."""

    use: str
    size: int
    reason: str


#: Measured: a process with the libraries of a container, one task, and the part of a task in a RocksDB store.
PROCESS_BYTES, TASK_BYTES, STORE_BYTES = 75_000_000, 100_000, 250_000
#: The records of two polls, as bytes and as objects, and pages of files; librdkafka's queues of a consumer and of a
#: producer.
_POLL_BYTES, _CONSUMER_BYTES, _PRODUCER_BYTES = 48_000_000, 16_777_216, 134_217_728


def memory_needed(
    config: JobConfig, model: ContainerModel, engines: Mapping[str, StoreSpec]
) -> tuple[list[Memory], list[Memory], list[Memory]]:
    """An estimate of a container's memory: when it begins to process, and at the most on top of that: of a restore, and
    of processing, which comes after it.

    It leaves out the memory of the task's own code, objects in caches that are counted in objects, RocksDB's filters
    and indexes (about 1.5 bytes a key), and block caches and queues whose sizes a store or a system sets for itself.
    """
    tasks, stores = len(model.tasks), sum(engine.persistent for engine in engines.values())
    start = [
        Memory("process", PROCESS_BYTES, "Python and the libraries"),
        Memory("tasks", tasks * TASK_BYTES, f"{tasks:,} tasks"),
        Memory("opened stores", tasks * stores * STORE_BYTES, f"{tasks * stores:,} parts of stores"),
    ]
    clients, transactions = _kafka_clients(config)
    queues = clients * (_CONSUMER_BYTES + _PRODUCER_BYTES) + transactions * _PRODUCER_BYTES
    more = [
        Memory("polled records", _POLL_BYTES, "two polls"),
        Memory("queues of Kafka's clients", queues, "their defaults"),
    ]
    if engines:
        more.append(Memory("objects, uncommitted changes", config.cache_max_bytes, "container.cache.max.bytes"))
    shared = Reader(config.resolved).read(RocksDbKeys, {"store": "shared"})
    if stores:
        more.append(Memory("block cache", shared.shared_cache_bytes, "container.rocksdb.cache.bytes"))
        more.append(Memory("memtables", shared.shared_write_buffer_bytes, "container.rocksdb.write.buffer.bytes"))
    restores = any(store.changelog for store in config.stores.values())
    restore = [Memory("a restore", CHUNK_BYTES, "fixed")] if restores else []
    return start, restore, [part for part in more if part.size]


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
