"""`systems.NAME.samza.factory=memory`: a log inside the process, for tests. It is the SQLite log of `local`, in memory:
offsets with holes, compaction, transactions and fencing as Kafka has them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import ClassVar

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemSettings, SystemTraits
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.system.clients import record_limit
from samzapy.system.local.database import Log, MemoryDatabase
from samzapy.system.local.factory import LocalConsumer, LogAdmin, LogSystemFactory

_BATCH = 10_000


class MemoryCluster:
    """One broker. `MemoryCluster.named(name)` finds or makes it; `MemoryCluster.reset_all()` forgets all of them.

    Thread-safe. `clock` dates records and ends transactions that took too long; a test may replace it. `admin` creates,
    grows, deletes and compacts its streams.
    """

    _named: ClassVar[dict[str, MemoryCluster]] = {}
    _registry: ClassVar[Lock] = Lock()

    def __init__(self, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.clock = clock
        self.database = MemoryDatabase(MemoryLog(name, self))

    @classmethod
    def named(cls, name: str) -> MemoryCluster:
        """The cluster of that name, new if there is none."""
        with cls._registry:
            if name not in cls._named:
                cls._named[name] = cls(name)
            return cls._named[name]

    @classmethod
    def forget(cls, name: str) -> None:
        """Forget one cluster, if it is known; clients made before go on with it."""
        with cls._registry:
            cls._named.pop(name, None)

    @classmethod
    def reset_all(cls) -> None:
        """Forget every cluster; clients made before go on with the old ones."""
        with cls._registry:
            cls._named.clear()

    def batches(self, ssp: SystemStreamPartition, *, committed: bool = True) -> Iterator[RecordBatch]:
        """The records of a partition, with those of open transactions unless `committed`."""
        consumer = LocalConsumer(MemoryLog(ssp.system, self), committed=committed)
        consumer.start({ssp: self.admin(ssp.system).offsets([ssp])[ssp].oldest})
        while batches := consumer.poll(0.0, _BATCH):
            yield from batches

    def admin(self, system: str = "") -> LogAdmin:
        """An admin for a system of that name, by default the cluster's."""
        return LogAdmin(MemoryLog(system or self.name, self))


class MemoryLog(Log):
    """The log of a cluster, for the clients of one system."""

    def __init__(self, system: str, cluster: MemoryCluster) -> None:
        self.system = system
        self.cluster = cluster

    @property
    def clock(self) -> Clock:
        return self.cluster.clock

    def __str__(self) -> str:
        return f"memory system '{self.system}' ({self.where})"

    @property
    def where(self) -> str:
        return f"cluster '{self.cluster.name}'"

    def open(self, *, create: bool) -> MemoryDatabase:
        return self.cluster.database


class MemorySystemFactory(LogSystemFactory):
    """Clients of the cluster that `systems.NAME.cluster` names (default: the system's name); ends with the process.

    Other keys of the system mean nothing here and are ignored, so that a job file for Kafka runs unchanged.
    """

    def log(self, settings: SystemSettings) -> MemoryLog:
        return MemoryLog(settings.name, MemoryCluster.named(settings.properties.get("cluster", settings.name)))

    def traits(self, settings: SystemSettings) -> SystemTraits:
        message = "memory: its streams are gone when this process ends, changelogs and checkpoints too"
        return SystemTraits(
            max_record_bytes=record_limit(settings),
            place="the memory of one process",
            risks=(("samza.factory", message),),
            transactional=True,
        )
