"""The system and the Spark master of a verification, the faults there and when they strike, and the verified job's
file."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import javaproperties

from samzapy.config.task import Guarantee
from samzapy.devkafka import DevBroker
from samzapy.errors import ConfigError
from samzapy.java import SPARK, find_java
from samzapy.runner.spark.master import Master
from samzapy.verify.workload import OUTPUT_KEY, STORES, TASKS, accounts


class Kind(Enum):
    """The kinds of faults."""

    WORKER = "worker"
    """SIGKILL to a Python worker that runs a container."""
    EXECUTOR = "executor"
    """SIGKILL to an executor's JVM."""
    DRIVER = "driver"
    """SIGKILL to the driver, and a new one at once."""
    ZOMBIE = "zombie"
    """SIGSTOP to a worker until its lease is over, and SIGCONT."""
    OVERLAP = "overlap"
    """A second run with other containers while the first goes on, or is stopped by SIGSTOP until the second is at
    work."""
    UPGRADE = "upgrade"
    """A second run, of a new version of the job, takes over from the first one, which commits and lets go."""
    FOREIGN_WRITER = "foreign-writer"
    """A record of another writer in a changelog: the job must refuse it until it is corrected and adopted."""
    BROKER_RESTART = "broker-restart"
    """The broker stops in good order and comes back."""
    BROKER_KILL = "broker-kill"
    """SIGKILL to the broker, which comes back."""


#: The scenario that draws from all kinds, and sometimes strikes again before the job has recovered.
MIXED = "mixed"

#: The part of its stretch of events at which a fault strikes, so that events come in before and after it.
_EARLIEST, _LATEST = 0.15, 0.6
_PATIENT = 0.7


class Fault(NamedTuple):
    """A fault that strikes once `after` events are written. `until` is where its stretch of events ends.

    `choice` chooses among the processes there are: it is taken modulo their number. Not `patient`: the next fault does
    not wait for the job to recover from this one.
    """

    kind: Kind
    after: int
    until: int
    choice: int
    patient: bool = True

    def __str__(self) -> str:
        return f"{self.kind.value}@{self.after}"


def schedule(scenario: str, kinds: Sequence[Kind], faults: int, events: int, seed: str) -> tuple[Fault, ...]:
    """`faults` faults over `events` events; the first of `faults` + 1 stretches is left alone, for the job to start."""
    chance = random.Random(f"{seed}/faults")
    stretch = events / (faults + 1)
    planned = []
    for number in range(1, faults + 1):
        kind = chance.choice(list(kinds)) if scenario == MIXED else Kind(scenario)
        after = int(stretch * (number + chance.uniform(_EARLIEST, _LATEST)))
        until = events if number == faults else int(stretch * (number + 1))
        patient = scenario != MIXED or chance.random() < _PATIENT
        planned.append(Fault(kind, after, until, chance.randrange(1 << 16), patient))
    return tuple(planned)


def spread(kills: int, scenarios: Sequence[str]) -> dict[str, int]:
    """Kills by scenario: the same number for all, the remainder for `mixed` (else for the first ones)."""
    share, left = divmod(kills, len(scenarios))
    counts = dict.fromkeys(scenarios, share)
    if share and MIXED in counts:
        counts[MIXED] += left
    else:
        for scenario in list(scenarios)[:left]:
            counts[scenario] += 1
    return {scenario: count for scenario, count in counts.items() if count}


DEFAULT_MASTER = "local-cluster[2,1,1024]"
CONTAINERS = 2
PARTITIONS = 4
#: Seconds for a start or a recovery, and more for each container.
_PATIENCE_S, _MORE_PATIENCE_S = 160.0, 10.0


@dataclass(frozen=True)
class Target:
    """A system, `kafka` or `local`, and a Spark master. `overrides` are keys that override the verified job's.

    `bootstrap`: the Kafka; None for `local`. `broker`: the Kafka if the command has started it, so that it may be
    bounced. `partitions`: of the input, and so the number of tasks. `most_containers`: the job has as many, if there
    are slots for them.
    """

    system: str
    master: str = DEFAULT_MASTER
    bootstrap: str | None = None
    broker: DevBroker | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    partitions: int = PARTITIONS
    most_containers: int = CONTAINERS

    def check(self) -> None:
        """Raise ConfigError if the executors could not reach the system, or nothing could be proven, EnvironmentFailure
        without a Java."""
        find_java(SPARK)
        if self.overrides.get("task.state.transactions") == "false":
            message = "is required: without transactions the state may hold inputs twice, and nothing is proven"
            raise ConfigError.of("task.state.transactions=true", "false", message)
        if self._parsed.on_this_machine:
            return
        if self.system == "local":
            raise ConfigError.of("--system", "local", "is a file of this machine; --master is not")
        if self.broker is not None:
            message = "is required: the broker that verify starts listens on this machine only, --master is elsewhere"
            raise ConfigError.of("--bootstrap", None, message)

    @property
    def containers(self) -> int:
        """The number of containers with a slot, at most `most_containers`."""
        return min(self.most_containers, self._parsed.slots or self.most_containers)

    @property
    def patience_s(self) -> float:
        """Seconds for a start or a recovery: a loaded machine is slow, a hung job never ends."""
        return _PATIENCE_S + _MORE_PATIENCE_S * self.containers

    @property
    def stores_in_reach(self) -> bool:
        """Whether local stores lie on this machine."""
        return self._parsed.on_this_machine

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The possible faults: they touch only processes below the command's own driver, and its own broker."""
        kinds = [Kind.DRIVER]
        if self._parsed.on_this_machine:
            kinds = [Kind.WORKER, Kind.DRIVER, Kind.ZOMBIE, Kind.OVERLAP, Kind.UPGRADE]
            if self.master.startswith("local-cluster"):
                kinds.insert(1, Kind.EXECUTOR)
        kinds.append(Kind.FOREIGN_WRITER)
        if self.broker is not None:
            kinds += [Kind.BROKER_RESTART, Kind.BROKER_KILL]
        return tuple(kinds)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """One for each kind of fault, and `mixed` if there are several."""
        kinds = tuple(kind.value for kind in self.kinds)
        return (*kinds, MIXED) if len(kinds) > 1 else kinds

    def limits(self) -> list[str]:
        """One line for each limit of the tests here."""
        lines = []
        if not self._parsed.on_this_machine:
            lines.append(f"{self.master}: its workers and executors are out of reach; only the driver is killed")
            lines.append(f"{self.master}: local stores are out of reach; state is checked by the changelogs alone")
        if self.system == "kafka" and self.broker is None:
            lines.append(f"{self.bootstrap}: not started by verify, so it is left alone")
        return lines

    @property
    def is_pipeline(self) -> bool:
        """Whether the job has two stages: an input that was processed may still be between them."""
        return self.overrides.get("task.class") == TASKS["pipeline"]

    @property
    def may_stop_runs(self) -> bool:
        """Whether a whole run may be stopped beside another: the file of the local system could stay locked."""
        return self.system == "kafka"

    @property
    def _parsed(self) -> Master:
        return Master.parse(self.master)


#: Seconds of a container's lease: a zombie is stopped for longer.
LEASE_S = 4.0

STATE = "state"
FILE = "job.properties"

_COMMON = {
    "job.spark.lease.ms": str(int(LEASE_S * 1000)),
    # Faults are more frequent than in production; the job must not give up.
    "job.spark.max.resubmits": "1000000",
    "job.logged.store.base.dir": STATE,
    "task.class": "samzapy.verify.workload:AccountsTask",
    "task.commit.ms": "300",
}
_STORE = {
    "factory": "rocksdb",
    "key.serde": "string",
    "msg.serde": "json",
    # Small, so that most values are read from below the cache, and memtables reach the disk.
    "object.cache.size": "64",
    "write.batch.size": "16",
    "container.write.buffer.size.bytes": "131072",
}


def job_properties(target: Target, guarantee: Guarantee, name: str, folder: Path) -> dict[str, str]:
    """The job `name`, its embedded system's file below `folder`."""
    system = target.system
    stores = {
        f"stores.{store}.{key}": value
        for store in STORES
        for key, value in {**_STORE, "changelog": f"{system}.{changelog(name, store)}"}.items()
    }
    return {
        "task.inputs": f"{system}.{name}-in",
        **(accounts(name, system).plan.keys({}) if target.is_pipeline else {}),
        "job.name": name,
        "job.container.count": str(target.containers),
        "job.default.system": system,
        "job.spark.master": target.master,
        "task.guarantee": guarantee.value,
        OUTPUT_KEY: f"{system}.{name}-out",
        f"systems.{system}.samza.factory": system,
        f"systems.{system}.default.stream.samza.offset.default": "oldest",
        f"systems.{system}.default.stream.samza.key.serde": "string",
        f"systems.{system}.default.stream.samza.msg.serde": "json",
        **_COMMON,
        **_system(target, folder),
        **stores,
        **target.overrides,
    }


def changelog(name: str, store: str) -> str:
    """The stream of a store's changes."""
    return f"{name}-{store}-changelog"


def write_job(job: dict[str, str], folder: Path) -> Path:
    """Write the job file, for this user only; it may hold passwords."""
    path = folder / FILE
    path.touch(0o600)
    path.write_text(javaproperties.dumps(job, timestamp=None))
    return path


def _system(target: Target, folder: Path) -> dict[str, str]:
    if target.system == "local":
        return {"systems.local.path": str(folder / "local.db")}
    keys = {f"systems.{target.system}.consumer.bootstrap.servers": target.bootstrap} if target.bootstrap else {}
    if target.broker is not None:
        keys["systems.kafka.default.stream.replication.factor"] = "1"
    return keys
