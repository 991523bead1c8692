"""What a Spark master's address says about where containers will run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from samzapy.errors import ConfigError, ConfigProblem

KEY = "job.spark.master"

_LOCAL = re.compile(r"^local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?$")
_LOCAL_CLUSTER = re.compile(r"^local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]$")
_REMOTE = re.compile(r"^(spark|k8s|yarn)\b")


@dataclass(frozen=True)
class Master:
    """A master: `slots` is how many tasks of one core run at a time (None: unknown before it runs), `on_this_machine`
    whether driver and executors share files and the loopback address."""

    address: str
    slots: int | None
    on_this_machine: bool

    @classmethod
    def parse(cls, address: str) -> Master:
        """Read `local[N,F]`, `local-cluster[N,CORES,MB]`, `spark://...`, `yarn` or `k8s://...`. Raises ConfigError.

        `local` and `local[N]` never retry a task; they are taken as they are, and failures are resubmitted.
        """
        local = _LOCAL.match(address)
        if local is not None:
            slots = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
            return cls(address, slots, on_this_machine=True)
        cluster = _LOCAL_CLUSTER.match(address)
        if cluster is not None:
            return cls(address, int(cluster[1]) * int(cluster[2]), on_this_machine=True)
        if _REMOTE.match(address):
            return cls(address, None, on_this_machine=False)
        allowed = "expected local[N,F], local-cluster[N,CORES,MB], spark://HOST:PORT, yarn or k8s://URL"
        raise ConfigError([ConfigProblem(KEY, address, allowed)])

    @classmethod
    def default(cls, containers: int) -> Master:
        """`local[N,4]`: a slot for each container, and Spark's usual four tries."""
        return cls(f"local[{containers},4]", containers, on_this_machine=True)

    @property
    def one_executor(self) -> bool:
        """Whether every container runs in the same process's executor: `local`, in whatever way it is written."""
        return self.on_this_machine and not _LOCAL_CLUSTER.match(self.address)

    def check_standbys(self, standbys: int) -> None:
        """Raise ConfigError when there are standbys, and no second executor for them."""
        if standbys and self.one_executor:
            problem = (
                "standby containers need other executors: use a cluster, or local-cluster[N,CORES,MB], or leave out"
            )
            raise ConfigError([ConfigProblem(KEY, self.address, f"{problem} job.standbytasks.replication.factor")])

    def check_slots(self, containers: int) -> None:
        """Raise ConfigError when endless containers would wait for each other for ever."""
        if self.slots is not None and containers > self.slots:
            message = (
                f"{containers} endless containers need {containers} slots, {self.address} has {self.slots}: "
                f"{containers - self.slots} would never run; use local[{containers},4] or fewer job.container.count"
            )
            raise ConfigError([ConfigProblem(KEY, self.address, message)])
