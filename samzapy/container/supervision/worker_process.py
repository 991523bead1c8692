"""The files that a container's process may have open: as many as the system grants, and enough for what it is to open.

RocksDB takes its files as they come, and finds out in the middle of a write that there are none left; librdkafka takes a
socket that it cannot open for a broker that does not answer.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import BYTE_ENGINES, ENGINES, SYSTEMS
from samzapy.config.stores import StoreConfig
from samzapy.errors import TooFewFiles
from samzapy.job.model import ContainerModel

#: What an empty RocksDB has open (lock, log, manifest, folders), with one table, and one that is being written.
STORE_FILES = 8
#: Pipes and sockets of the admin, the consumer and the producer of a system, on a Kafka of one broker.
KAFKA_FILES = 18
#: Those of a task's transactional producer.
TRANSACTION_FILES = 8
#: More than this a process is not given, however much the system would grant: some programs walk through all of them.
MOST = 1_048_576


def provide_descriptors(config: JobConfig, model: ContainerModel) -> None:
    """Raise the process's limit of open files as far as it may, and see that it is enough for the container's start.

    The estimate is a floor: a store with many tables needs more. Raises TooFewFiles.
    """
    limit = _raised()
    opened = psutil.Process().num_fds()
    stores = len(model.tasks) * sum(map(_is_rocksdb, config.stores.values()))
    files, clients = stores * STORE_FILES, _clients(config, len(model.tasks))
    if limit is not None and opened + files + clients > limit:
        raise TooFewFiles(
            f"container {model.id}: expected a limit of at least {opened + files + clients:,} open files, got {limit:,}: "
            f"{files:,} for {stores:,} stores ({len(model.tasks):,} tasks), {clients:,} for clients, {opened:,} are open "
            "already; raise it (ulimit -n), or use more containers (job.container.count)"
        )


def _raised() -> int | None:
    """The limit, as high as it may be set; None for no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
        return wanted
    return None if soft == resource.RLIM_INFINITY else soft


def _is_rocksdb(store: StoreConfig) -> bool:
    rocksdb = BYTE_ENGINES.short["rocksdb"]
    views = set(ENGINES.short.values()) - set(BYTE_ENGINES.short.values())
    return store.factory == rocksdb or (store.factory in views and store.base == rocksdb)


def _clients(config: JobConfig, tasks: int) -> int:
    kafka = {name for name, settings in config.systems.items() if settings.factory == SYSTEMS.short["kafka"]}
    used = {stream.system for stream in config.task.inputs} & kafka
    found = KAFKA_FILES * len(used)
    checkpoint = config.task.checkpoint
    if config.task.guarantee.transactional and checkpoint is not None and checkpoint.system in kafka:
        found += TRANSACTION_FILES * tasks
    return found


_YOUNG = 100_000
_MIDDLE = 20
_OLD = 100


@contextmanager
def tuned_for_messages() -> Iterator[None]:
    """Collect seldom inside the context; the settings before come back after it."""
    before = gc.get_threshold()
    if before[0] == 0:  # Somebody has switched it off, which is theirs to say.
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
