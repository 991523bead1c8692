"""Jobs whose processes are stopped and let go on: on a broker of their own, through the command, looked at from
outside."""

import os
import uuid
from collections import Counter
from pathlib import Path

from rigs.job_process import JobProcess
from rigs.numbered_stream import Feeder, Streams, expected, settings_of

from samzapy.api.system import StreamSpec

PARTITIONS = 2
STORES = ("last", "counts")
CODE = Path(__file__).parents[2] / "jobs" / "last_and_count.py"


def stores(prefix: str) -> dict[str, str]:
    return {
        f"stores.{store}.{key}": value
        for store in STORES
        for key, value in {
            "factory": "rocksdb",
            "key.serde": "string",
            "msg.serde": "json",
            "changelog": f"sys.{prefix}-{store}-changelog",
            "changelog.replication.factor": "1",
        }.items()
    }


class ZombieJob:
    """The job of the failover tests under one guarantee, its feeder, and its runs, each in a folder of its own."""

    def __init__(self, folder: Path, system_keys: dict[str, str], guarantee: str, **keys: str) -> None:
        self.folder = folder
        self.guarantee = guarantee
        self.prefix = f"zombie-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.job = {
            "job.name": self.prefix,
            "job.default.system": "sys",
            "job.spark.lease.ms": "3000",
            "task.class": "last_and_count:LastAndCount",
            "task.inputs": f"sys.{self.prefix}-in",
            "task.commit.ms": "200",
            "task.guarantee": guarantee,
            "task.checkpoint.replication.factor": "1",
            "systems.sys.default.stream.samza.offset.default": "oldest",
            "systems.sys.default.stream.samza.key.serde": "string",
            "systems.sys.default.stream.samza.msg.serde": "json",
            "test.output": f"sys.{self.prefix}-out",
            **stores(self.prefix),
            **system_keys,
            **keys,
        }
        self.streams = Streams(settings_of(self.job, "sys"))
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(f"{self.prefix}-{stream}", PARTITIONS))
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in self.job.items()))
        self.feeder = Feeder(self.streams, f"{self.prefix}-in")
        self.runs: list[JobProcess] = []

    def start(self, *arguments: str, **environ: str) -> JobProcess:
        """A run with stores of its own, as on a machine of its own."""
        state = f"job.logged.store.base.dir=state-{len(self.runs)}"
        made = JobProcess(self.folder, "job.properties", "--py-files", str(CODE), "-c", state, *arguments, **environ)
        self.runs.append(made)
        return made

    def outputs(self) -> Counter[int]:
        """How often each number came out, for a reader of committed records."""
        found: Counter[int] = Counter()
        for batch in self.streams.read(f"{self.prefix}-out"):
            found.update(map(int, batch.values))
        return found

    def measured(self) -> dict[str, int]:
        """What became of everything the feeder wrote; it is closed here."""
        written, outputs = self.feeder.close(), self.outputs()
        last, counts = expected(written)
        held = {}
        for store in STORES:
            replayed = self.streams.replay(f"{self.prefix}-{store}-changelog")
            held[store] = {key.decode(): int(value) for part in replayed for key, value in part.items()}
        return {
            "events": written,
            "lost": written - len(outputs),
            "duplicated": sum(outputs.values()) - len(outputs),
            "mismatches": differences(held["last"], last) + differences(held["counts"], counts),
        }

    def close(self) -> None:
        for run in self.runs:
            run.close()
        self.feeder.close()


def differences(held: dict[str, int], exact: dict[str, int]) -> int:
    """The keys whose values are not those of a run without any fault."""
    return sum(1 for key in held.keys() | exact.keys() if held.get(key) != exact.get(key))
