"""The files that a container's process may have open: as many as the system grants, and enough for what it is to open.

RocksDB takes its files as they come, and finds out in the middle of a write that there are none left; librdkafka takes a
socket that it cannot open for a broker that does not answer.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from samzapy.api.engine import StorageEngineFactory
from samzapy.config.job import JobConfig
from samzapy.errors import TooFewFiles
from samzapy.job.model import ContainerModel
from samzapy.system.factories import load_factory

#: More than this a process is not given, however much the system would grant: some programs walk through all of them.
MOST = 1_048_576


def provide_descriptors(config: JobConfig, model: ContainerModel, engines: Mapping[str, StorageEngineFactory]) -> None:
    """Raise the process's limit of open files as far as it may, and see that it is enough for the container's start.

    The estimate is a floor: a store with many tables needs more. Raises TooFewFiles.
    """
    limit = _raised()
    opened = psutil.Process().num_fds()
    opening = [engine.open_files for engine in engines.values() if engine.open_files]
    stores, files = len(model.tasks) * len(opening), len(model.tasks) * sum(opening)
    clients = _clients(config, len(model.tasks))
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


def _clients(config: JobConfig, tasks: int) -> int:
    used = {stream.system for stream in config.task.inputs}
    found = sum(load_factory(config.systems[system]).open_files for system in used)
    checkpoint = config.task.checkpoint
    if config.task.guarantee.transactional and checkpoint is not None and checkpoint.system is not None:
        found += load_factory(config.systems[checkpoint.system]).transactional_open_files * tasks
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
