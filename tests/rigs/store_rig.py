"""A job file of a store, the files of a store, a clock on which time passes by itself, partitions that count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from samzapy.api.stream import SystemStreamPartition
from samzapy.config.stores import StoreConfig
from samzapy.storage.local.directory import LocalFiles, store_directory
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.storage.spec import StoreSpec
from samzapy.testing import ManualClock

#: The keys of the smallest job. Its task is never loaded.
SMALLEST = {
    "job.name": "job",
    "task.class": "some.module:Task",
    "task.inputs": "memory.in",
    "systems.memory.samza.factory": "memory",
}
#: What a store on disk with a changelog has below `stores.NAME.`
LOGGED = {"factory": "rocksdb", "key.serde": "string", "msg.serde": "json", "changelog": "memory.s-log"}


def store_job(below: Mapping[str, str | None], store: str = "s") -> dict[str, str]:
    """The smallest job with one store; `below` are its keys without `stores.NAME.`, None for one that is not set."""
    return SMALLEST | {f"stores.{store}.{key}": value for key, value in below.items() if value is not None}


def local_files(base: Path) -> LocalFiles:
    """The files of store `s` of task `Partition 0` of `job-1` below `base`, at the time 17; a locked store is not
    waited for."""
    spec = StoreSpec(StoreConfig("s", "rocksdb", "string", "string"), RocksDbStorageEngineFactory())
    path = store_directory(base, "job-1", "s", "Partition 0")
    return LocalFiles(spec, path, ManualClock(wall_ms=17), lock_wait_s=0.0)


class Hashed(SystemStreamPartition):
    """Counts the look-ups of all partitions of this class."""

    count = 0

    def __hash__(self):
        Hashed.count += 1
        return super().__hash__()

    @classmethod
    def many(cls, stream):
        """A hundred partitions of a stream; the count begins."""
        cls.count = 0
        return [cls("mem", stream, number) for number in range(100)]


class TickingClock(ManualClock):
    """Each look at it takes so many seconds."""

    def __init__(self, step_s):
        super().__init__()
        self._step_s = step_s

    def monotonic(self):
        self.advance(self._step_s)
        return super().monotonic()
