"""Estimates what one container of a job needs of its machine: memory, threads and open files.

The memory is a bound and not a forecast: caches and queues may stay emptier. It has two parts:

    at the start    the process  +  tasks x TASK_BYTES  +  the engine's figure for every task's part of a store
    at the most     that  +  the larger of two:
                    running     container.cache.max.bytes, changes that are not committed included
                                + block caches and memtables, shared ones once
                                + queues of a consumer for each system of inputs, and of one producer for each system
                                + the container's transactional producer
                                + the records of two polls
                    restoring   stores.NAME.restore.max.bytes, that of the largest store

It does not contain the memory of the task's own code, and objects in caches that are limited by a number of objects. Threads and
files are for one broker in each system; each further broker adds two threads and two files for each client.

Compared with containers that ran (`tests/integration/measurements/test_footprint.py`): the memory at the start is within a third
of the resident set of an idle container, a busy one stays below the bound, and threads and files are within a third and eight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from samzapy.api.engine import EngineMemory, EngineSettings, StorageEngineFactory
from samzapy.config.job import JobConfig
from samzapy.container.supervision.worker_process import files_needed
from samzapy.job.model import ContainerModel
from samzapy.job.transactions import state_transactions
from samzapy.system.factories import load_factory

#: A process with the libraries of a container loaded, and one task with its clock, counters and buffers.
PROCESS_BYTES, TASK_BYTES = 75_000_000, 100_000
#: Records that were polled: two polls of 2,000, of a kilobyte each, as bytes and as objects.
POLL_BYTES = 16_000_000
#: The run loop, the heartbeat, the look at lag and its clients' callbacks; RocksDB's pools and its timer.
PROCESS_THREADS, ENGINE_THREADS = 5, 3
#: Standard streams, pipes, the log and the connection to the coordinator.
PROCESS_FILES = 12


@dataclass(frozen=True)
class Share:
    """A part of the memory: its name, its bytes, and the key or the count that decides its size."""

    name: str
    size: int
    reason: str


@dataclass(frozen=True)
class Footprint:
    """The needs of one container. `start`: its memory when it begins to process. `running` and `restoring`: the most memory on
    top of that, at different times. `unknown`: sentences about memory that is in none of them."""

    container: str
    tasks: int
    start: tuple[Share, ...]
    running: tuple[Share, ...]
    restoring: tuple[Share, ...]
    threads: int
    files: int
    unknown: tuple[str, ...] = ()

    @property
    def start_bytes(self) -> int:
        """Bytes when it begins to process."""
        return sum(share.size for share in self.start)

    @property
    def most_bytes(self) -> int:
        """Bytes at the most."""
        return self.start_bytes + max(sum(s.size for s in self.running), sum(s.size for s in self.restoring))


def footprint(config: JobConfig, model: ContainerModel, engines: Mapping[str, StorageEngineFactory]) -> Footprint:
    """The needs of the container of `model`. `engines`: the engines of the job's stores; nothing is opened."""
    tasks = len(model.tasks)
    memory = {
        name: engine.memory(EngineSettings(name, config.stores[name].properties, tasks))
        for name, engine in engines.items()
    }
    inputs = sorted({ssp.system for ssp in model.ssps})
    threads, files = PROCESS_THREADS, files_needed(config, model, engines)
    if any(each.each for each in memory.values()):
        threads += ENGINE_THREADS
    for system in inputs:
        threads += load_factory(config.systems[system]).threads
    state = state_transactions(config, lambda settings: load_factory(settings).transactional).system
    if state is not None:
        threads += load_factory(config.systems[state]).transactional_threads
    return Footprint(
        model.id,
        tasks,
        tuple(_start(tasks, memory)),
        tuple(_running(config, memory, inputs, state)),
        tuple(_restoring(config)),
        threads,
        PROCESS_FILES + files.of_stores + files.of_clients,
        tuple(_unknown(config, memory)),
    )


def _start(tasks: int, memory: Mapping[str, EngineMemory]) -> Iterator[Share]:
    yield Share("process", PROCESS_BYTES, "Python and the libraries")
    yield Share("tasks", tasks * TASK_BYTES, f"{tasks:,} tasks")
    opened = [each for each in memory.values() if each.each]
    if opened:
        stores = f"{tasks * len(opened):,} parts of stores"
        yield Share("opened stores", tasks * sum(each.each for each in opened), stores)


def _running(
    config: JobConfig, memory: Mapping[str, EngineMemory], inputs: list[str], state: str | None
) -> Iterator[Share]:
    if config.stores:
        yield Share("object caches, uncommitted changes", config.cache_max_bytes, "container.cache.max.bytes")
    shared: dict[tuple[str, int], int] = {}
    for name, each in memory.items():
        for part, size in each.own.items():
            yield Share(f"{part} of {name}", size, f"its own keys below stores.{name}.")
        for part, size in each.shared.items():
            shared[part, size] = shared.get((part, size), 0) + 1
    for (part, size), stores in shared.items():
        yield Share(part, size, f"shared by {stores:,} stores (container.rocksdb.*)")
    for system in inputs:
        ahead, waiting = load_factory(config.systems[system]).buffer_bytes(config.systems[system])
        if ahead:
            yield Share(f"consumer of {system}", ahead, "records ahead of the tasks")
        if waiting:
            yield Share(f"producer of {system}", waiting, "records on their way")
    if state is not None and (waiting := load_factory(config.systems[state]).buffer_bytes(config.systems[state])[1]):
        yield Share(f"transactions of {state}", waiting, "records of changelogs on their way")
    yield Share("polled records", POLL_BYTES, "two polls")


def _restoring(config: JobConfig) -> Iterator[Share]:
    logged = [store for store in config.stores.values() if store.changelog is not None]
    if logged:
        most = max(logged, key=lambda store: store.local_files.restore_max_bytes)
        size = most.local_files.restore_max_bytes
        yield Share("records of changelogs", size, f"stores.{most.name}.restore.max.bytes, shared by the stores")


def _unknown(config: JobConfig, memory: Mapping[str, EngineMemory]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for name, each in memory.items():
        if each.unknown:
            by_reason.setdefault(each.unknown, []).append(name)
    for reason, names in by_reason.items():
        yield f"{', '.join(names)}: {reason}"
    counted = [f"{s.name} ({s.object_cache_size:,})" for s in config.stores.values() if s.object_cache_size]
    if counted:
        yield f"objects of caches that are counted in objects: {', '.join(counted)}"
