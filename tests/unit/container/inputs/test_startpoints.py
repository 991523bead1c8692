"""Startpoints: followed once, whatever was committed, and whatever crashes."""

import json
from typing import ClassVar

import pytest
from jobs.memory_job import MemoryJob

from samzapy import InitableTask, StreamTask
from samzapy.admin.positions import clear_startpoints, read_startpoints, write_startpoints
from samzapy.api.checkpoint import Checkpoint, JobRecord
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.checkpoint import codec
from samzapy.checkpoint.records import EXPIRY_MS, Startpoint, pending, startpoints_from_json, startpoints_to_json
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, RestoreError
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


def make(folder, **keys):
    """Ten records in each of two partitions, of the times 1000 to 1009, processed and committed."""
    job = MemoryJob(folder, task=SeeingTask, **{"task.commit.ms": "50000", **keys})
    for key in [key for key in job.flat if key.startswith("stores.")]:
        del job.flat[key]
    records = [
        OutgoingRecord("in", b"k", json.dumps({"id": n}).encode(), p, timestamp=1000 + n)
        for p in (0, 1)
        for n in range(10)
    ]
    job.producer.send(records)
    job.producer.flush()
    job.run()
    job.task.calls.clear()
    return job


@pytest.fixture
def job(tmp_path):
    yield make(tmp_path)
    disarm()


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


def test_one_for_a_task_goes_before_one_for_all(job):
    write(job, "2", task="Partition 1")
    write(job, "8")
    job.run()
    assert processed(job) == {0: [8, 9], 1: list(range(2, 10))}


def test_a_startpoint_that_leads_nowhere_is_passed_over(job, caplog):
    write(job, "11", "mem.in[0]")
    job.run()
    assert processed(job) == {0: [], 1: []}
    assert "Partition 0: the startpoint 11 of mem.in[0] is passed over: mem.in[0]@11" in caplog.text


def test_startpoints_that_are_not_enabled_are_not_followed(job):
    write(job, "oldest")
    job.run(**{"job.startpoint.enabled": "false"})
    assert processed(job) == {0: [], 1: []}


def test_what_was_followed_is_forgotten_with_the_next_one_and_what_is_left_can_be_cleared(job):
    model = prepare(load_job(job.flat)).model
    write(job, "3", "mem.in[0]")
    job.run()
    write(job, "4", "mem.in[1]")
    assert [each.position for each in read_startpoints(job.config, model)] == ["4"]
    assert clear_startpoints(job.config, model) == 1
    processed(job)
    job.run()
    assert processed(job) == {0: [], 1: []}


@pytest.mark.parametrize(
    ("position", "inputs", "task", "expected"),
    [
        ("sideways", (), None, "position: oldest, newest, upcoming"),
        ("oldest", ("mem.out",), None, "--input: an input of the job"),
        ("oldest", (), "Partition 7", "--task: a task of the job: Partition 0, Partition 1"),
    ],
)
def test_a_startpoint_that_cannot_be_is_refused(job, position, inputs, task, expected):
    with pytest.raises(ConfigError, match=expected):
        write(job, position, *inputs, task=task)


def test_a_startpoint_is_void_after_twelve_hours():
    written = (Startpoint("a", SSPS[0], "5", 1_000),)
    assert startpoints_from_json(startpoints_to_json(written)) == written
    assert set(pending(written, "Partition 0", SSPS, None, EXPIRY_MS + 999)) == {SSPS[0]}
    assert not pending(written, "Partition 0", SSPS, None, EXPIRY_MS + 1_000)
    assert not pending(written, "Partition 0", SSPS, Checkpoint({}, startpoints={SSPS[0]: "a"}), 1_000)


def test_a_checkpoint_says_which_startpoints_it_followed():
    checkpoint = Checkpoint({SSPS[0]: 5}, startpoints={SSPS[0]: "a"})
    assert codec.decode(codec.encode(checkpoint), "here") == checkpoint


def test_a_record_that_is_none_is_refused():
    assert JobRecord.STARTPOINTS.value == "samzapy-startpoints"
    with pytest.raises(RestoreError, match="startpoints cannot be read"):
        startpoints_from_json({"startpoints": [{}]})
