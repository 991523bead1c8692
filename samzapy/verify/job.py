"""Writes the file of the verified job."""

from __future__ import annotations

from pathlib import Path

import javaproperties

from samzapy.config.guarantee import Guarantee
from samzapy.verify.target import Target
from samzapy.verify.workload import OUTPUT_KEY, STORES

PARTITIONS = 4
#: Seconds of a container's lease: a zombie is stopped for longer.
LEASE_S = 4.0

STATE = "state"
FILE = "job.properties"

_COMMON = {
    "job.spark.lease.ms": str(int(LEASE_S * 1000)),
    # Faults come more often than in production; the job must not give up.
    "job.spark.max.resubmits": "1000000",
    "job.spark.resubmit.backoff.ms": "200",
    "job.spark.resubmit.backoff.max.ms": "2000",
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


def properties(target: Target, guarantee: Guarantee, name: str, folder: Path) -> dict[str, str]:
    """The job `name`, its embedded system's file below `folder`."""
    system = target.system
    stores = {
        f"stores.{store}.{key}": value
        for store in STORES
        for key, value in {**_STORE, "changelog": f"{system}.{changelog(name, store)}"}.items()
    }
    return {
        "job.name": name,
        "job.container.count": str(target.containers),
        "job.default.system": system,
        "job.spark.master": target.master,
        "task.inputs": f"{system}.{name}-in",
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


def write(job: dict[str, str], folder: Path) -> Path:
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
