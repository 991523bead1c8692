"""Startpoints: followed once, whatever was committed, and whatever crashes."""

import json
from dataclasses import replace
from typing import ClassVar

import pytest
from jobs.memory_job import MemoryJob
from rigs.store_rig import Hashed

from samzapy import InitableTask, StreamTask
from samzapy.admin.positions import Move, move_positions, write_startpoints
from samzapy.admin.running import NO_DRIVER
from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.checkpoint.records import (
    EXPIRY_MS,
    Startpoint,
    Target,
    pending,
    pending_of_all,
    read_owner,
    startpoints_from_json,
    startpoints_to_json,
    write_owner,
)
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import open_job
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.runner.prepare import prepare

SSPS = [SystemStreamPartition("mem", "in", partition) for partition in (0, 1)]


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


class SeeingTask(StreamTask, InitableTask):
    """Sees messages; what it saw, of every instance, is in `calls`."""

    calls: ClassVar[list] = []

    def init(self, context):
        self.partition = int(context.task.task_name[-1])

    def process(self, envelope, collector, coordinator):
        self.calls.append((self.partition, envelope.offset))


def append(job, count, first=0):
    """Records of the times from 1000 + `first` on, in each of two partitions."""
    records = [
        OutgoingRecord("in", b"k", json.dumps({"id": n}).encode(), p, timestamp=1000 + n)
        for p in (0, 1)
        for n in range(first, first + count)
    ]
    job.producer.send(records)
    job.producer.flush()


def make(folder, **keys):
    """Ten records in each of two partitions, of the times 1000 to 1009, processed and committed."""
    job = MemoryJob(folder, task=SeeingTask, **{"task.commit.ms": "50000", **keys})
    for key in [key for key in job.flat if key.startswith("stores.")]:
        del job.flat[key]
    append(job, 10)
    job.run()
    job.task.calls.clear()
    return job


@pytest.fixture
def job(tmp_path):
    return make(tmp_path)


def write(job, position, *inputs, **options):
    return write_startpoints(job.config, prepare(load_job(job.flat)).model, position, inputs, **options)


def processed(job):
    found = {0: [], 1: []}
    for partition, offset in job.task.calls:
        found[partition].append(offset)
    job.task.calls.clear()
    return found


@pytest.mark.parametrize(
    ("position", "first"), [("oldest", 0), ("newest", 9), ("upcoming", 10), ("7", 7), ("@1004", 4), ("@5", 0)]
)
def test_a_startpoint_is_where_the_next_start_begins_and_no_later_one(job, position, first):
    write(job, position, "mem.in[1]")
    job.run()
    assert processed(job) == {0: [], 1: list(range(first, 10))}
    job.run()
    assert processed(job) == {0: [], 1: []}


@pytest.mark.parametrize("guarantee", [slow("at-most-once"), slow("at-least-once"), "exactly-once"])
@pytest.mark.parametrize("step", ["start.6", "commit.4", "start.7"])
def test_a_startpoint_is_followed_once_after_a_crash_at(tmp_path, guarantee, step):
    job = make(tmp_path, **{"task.guarantee": guarantee})
    write(job, "@1008")
    arm(step)
    with pytest.raises(FailPointReached):
        job.run()
    disarm()
    assert processed(job) == {0: [], 1: []}
    job.run()
    assert processed(job) == {0: [8, 9], 1: [8, 9]}
    job.run()
    assert processed(job) == {0: [], 1: []}


def test_the_newest_counts_whether_it_is_for_a_task_or_for_all(job):
    write(job, "8")
    write(job, "2", task="Partition 1")
    job.run()
    assert processed(job) == {0: [8, 9], 1: list(range(2, 10))}
    write(job, "2", task="Partition 1")
    write(job, "8")
    job.run()
    assert processed(job) == {0: [8, 9], 1: [8, 9]}


def test_one_for_all_stays_for_the_tasks_that_have_yet_to_follow_it():
    for_all = Startpoint("all", SSPS[0], "2", 1_000)
    own = Startpoint("own", SSPS[0], "5", 1_001, "a")
    tasks = {"a": SSPS[:1], "b": SSPS[:1], "c": SSPS[:1], "d": SSPS[1:]}
    followed = {"a": None, "b": None, "c": Checkpoint({}, startpoints={SSPS[0]: "all"}), "d": None}
    nobody = dict.fromkeys(tasks)
    assert pending_of_all([for_all], tasks, nobody, 2_000) == [for_all]
    assert pending_of_all([for_all, own], tasks, followed, 2_000) == [replace(for_all, task="b"), own]
    assert pending_of_all([replace(for_all, ssp=SystemStreamPartition("mem", "gone", 0))], tasks, nobody, 2_000) == []


def test_a_startpoint_is_looked_at_for_the_tasks_that_read_its_partition_only():
    ssps = Hashed.many("in")
    tasks = {str(ssp): [ssp] for ssp in ssps}
    written = [Startpoint("a", ssp, "2", 1_000) for ssp in ssps]
    assert pending_of_all(written, tasks, dict.fromkeys(tasks), 2_000) == written
    assert Hashed.count < 50 * len(ssps)


def test_a_startpoint_that_leads_nowhere_is_passed_over(job, caplog):
    write(job, "11", "mem.in[0]")
    job.run()
    assert processed(job) == {0: [], 1: []}
    assert "Partition 0: the startpoint 11 of mem.in[0] is passed over: mem.in[0]@11" in caplog.text
    append(job, 5, first=10)
    job.run()
    job.run()
    assert processed(job) == {0: list(range(10, 15)), 1: list(range(10, 15))}


def test_startpoints_that_are_not_enabled_are_not_followed(job):
    write(job, "oldest")
    job.run(**{"job.startpoint.enabled": "false"})
    assert processed(job) == {0: [], 1: []}


def move(job, position, *inputs):
    model = prepare(load_job(job.flat)).model
    with open_job(job.config, "test") as (_, checkpoints):
        # The driver of that run has ended.
        write_owner(checkpoints, replace(read_owner(checkpoints), pid=NO_DRIVER))
    move_positions(job.config, model, Move(Target(position), inputs), lambda _: None)


def test_a_move_makes_the_earlier_startpoints_of_its_partitions_void(job):
    write(job, "4")
    move(job, "8", "mem.in[0]")
    job.run()
    assert processed(job) == {0: [8, 9], 1: list(range(4, 10))}
    move(job, "8")
    write(job, "9")
    job.run()
    assert processed(job) == {0: [9], 1: [9]}


def test_a_startpoint_is_void_after_twelve_hours():
    written = (Startpoint("a", SSPS[0], "5", 1_000),)
    assert startpoints_from_json(startpoints_to_json(written)) == written
    assert set(pending(written, "Partition 0", SSPS, None, EXPIRY_MS + 999)) == {SSPS[0]}
    assert not pending(written, "Partition 0", SSPS, None, EXPIRY_MS + 1_000)
    assert not pending(written, "Partition 0", SSPS, Checkpoint({}, startpoints={SSPS[0]: "a"}), 1_000)
