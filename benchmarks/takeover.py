"""`python -m benchmarks.takeover`: a standby's copy taken over, beside a full restore of the same store, on one Kafka.

The changelog is filled with records over a number of keys. A container without local state restores all of it; then a
standby follows it to its end, some more records (the tail) are written, and a container starts on the machine that has the
standby's copy and no store of its own. Seconds are those of the restore, and of the whole container from its start to its
end, which has no message to process.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.kafka import broker
from samzapy import IncomingMessageEnvelope, MessageCollector, StreamTask, TaskCoordinator
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.bench.machine import describe_machine
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.container.factory import build_container
from samzapy.container.standby import StandbyContainer
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.model import JobSpec
from samzapy.errors import SamzapyError
from samzapy.runner.base import PreparedJob
from samzapy.runner.prepare import prepare
from samzapy.system.factories import system_factory

LEASE_S = 60.0
CHUNK = 50_000


class Idle(StreamTask):
    """Has a store, and nothing to do."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """There are no messages."""


@dataclass(frozen=True)
class Start:
    """One start of a container: changelog records read, seconds of the restore and of all of it, and from where."""

    what: str
    records: int
    restore_s: float
    whole_s: float
    source: str


def job(bootstrap: str, folder: Path) -> JobConfig:
    """A job with one store of 100 B values and one task."""
    return load_job(
        {
            "job.name": "takeover",
            "job.default.system": "kafka",
            "job.logged.store.base.dir": str(folder / "state"),
            "job.standbytasks.replication.factor": "2",
            "task.class": "benchmarks.takeover:Idle",
            "task.inputs": "takeover-in",
            "systems.kafka.samza.factory": "kafka",
            "systems.kafka.consumer.bootstrap.servers": bootstrap,
            "systems.kafka.producer.bootstrap.servers": bootstrap,
            "systems.kafka.default.stream.samza.offset.default": "oldest",
            "stores.s.factory": "rocksdb",
            "stores.s.key.serde": "bytes",
            "stores.s.msg.serde": "bytes",
            "stores.s.changelog": "takeover-changelog",
        }
    )


def fill(config: JobConfig, first: int, count: int, keys: int) -> None:
    """Write changelog records `first` to `first + count`, their keys in turns."""
    producer = system_factory(config.systems["kafka"]).producer(config.systems["kafka"], "fill")
    for chunk in range(first, first + count, CHUNK):
        numbers = range(chunk, min(chunk + CHUNK, first + count))
        records = [OutgoingRecord("takeover-changelog", b"%016d" % (n % keys), b"%0100d" % n, 0) for n in numbers]
        producer.send(records)
    producer.flush()
    producer.close()


def start(prepared: PreparedJob, what: str) -> Start:
    """Run the job's container from its start to the end of its empty input."""
    (model,) = prepared.model.containers
    coordinator = Coordinator(what, JobSpec(prepared.model, {}), LEASE_S)
    began = time.monotonic()
    report = build_container(prepared.config, model, LocalLease(coordinator, model.id), ends=prepared.ends).run()
    ((records, seconds, source),) = report.restored.values()
    return Start(what, records, round(seconds, 3), round(time.monotonic() - began, 3), source)


def follow(prepared: PreparedJob, end: int) -> float:
    """Let a standby read the changelog to `end` and stop; the seconds it took."""
    (model,) = prepared.model.standbys
    coordinator = Coordinator("standby", JobSpec(prepared.model, {}), LEASE_S)
    standby = StandbyContainer(prepared.config, model, LocalLease(coordinator, model.id))
    thread = threading.Thread(target=standby.run)
    began = time.monotonic()
    thread.start()
    while thread.is_alive() and sum(standby.report("").positions.values()) < end:
        thread.join(0.1)
    standby.stop()
    thread.join()
    return time.monotonic() - began


def measure(bootstrap: str, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """All of it; as plain JSON values."""
    config = job(bootstrap, folder)
    admin = system_factory(config.systems["kafka"]).admin(config.systems["kafka"], "takeover")
    admin.create(StreamSpec("takeover-in", 1, {}, 1))
    admin.close()
    prepared = prepare(config, until_end=True)
    fill(config, 0, options.records, options.keys)
    full = start(prepared, "full restore")
    behind_s = follow(prepared, options.records)
    fill(config, options.records, options.tail, options.keys)
    shutil.rmtree(folder / "state" / "takeover-1" / "s" / "Partition_0")
    taken = start(prepared, "takeover")
    return {
        "machine": describe_machine(),
        "records": options.records,
        "keys": options.keys,
        "tail": options.tail,
        "standby_s": round(behind_s, 3),
        "starts": [asdict(full), asdict(taken)],
        "times_faster": round(full.whole_s / taken.whole_s, 1),
    }


def main() -> int:
    """The program; prints JSON and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.takeover", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--tail", type=int, default=10_000)
    parser.add_argument("--bootstrap", help="measure on this broker (default: one of its own)")
    options = parser.parse_args()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="samzapy-takeover-") as folder,
            broker(Path(folder), options.bootstrap) as kafka,
        ):
            print(json.dumps(measure(kafka.bootstrap, Path(folder), options), indent=2))
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
