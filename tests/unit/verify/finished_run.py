"""The verified job run to its end in this process, on the memory system: what the checkers get to see."""

from __future__ import annotations

import uuid
from itertools import islice
from pathlib import Path

from samzapy.api.system import OutgoingRecord
from samzapy.config.loader import load_job
from samzapy.config.task import Guarantee
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.verify.evidence import Evidence, Streams, collect
from samzapy.verify.target import PARTITIONS, STATE, Target, job_properties
from samzapy.verify.workload import TASKS, events

EVENTS = 1_600
SEED = "finished-run"


def half_and_whole(guarantee: Guarantee, folder: Path, task: str = "message") -> tuple[Evidence, Evidence]:
    """The evidence after half of the events, and after all: a restart with restored state lies between."""
    name = f"finished-{uuid.uuid4().hex[:8]}"
    overrides = {
        "systems.memory.cluster": name,
        "job.logged.store.base.dir": str(folder / STATE),
        "task.class": TASKS[task],
    }
    flat = job_properties(Target("memory", overrides=overrides), guarantee, name, folder)
    config = load_job(flat)
    streams = Streams(config.systems["memory"])
    for stream in ("in", "out"):
        streams.create(f"{name}-{stream}", PARTITIONS)
    producer, left, found = streams.producer(), events(EVENTS, SEED), []
    for _ in range(2):
        producer.send([OutgoingRecord(f"{name}-in", *event.encode()) for event in islice(left, EVENTS // 2)])
        producer.flush()
        LocalRunner().run(prepare(config, until_end=True), RunOptions())
        found.append(collect(streams, name, streams.read(f"{name}-out"), folder / STATE))
    producer.close()
    streams.close()
    return found[0], found[1]
