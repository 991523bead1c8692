"""An input that was deleted and created again under its name: offsets of the earlier stream mean nothing in the new
one."""

from dataclasses import replace
from typing import ClassVar

import pytest
from jobs.memory_job import MemoryJob

from samzapy import InitableTask, StreamTask
from samzapy.admin.positions import Move, move_positions, write_startpoints
from samzapy.admin.running import NO_DRIVER
from samzapy.api.system import StreamSpec
from samzapy.checkpoint.records import Target, read_owner, write_owner
from samzapy.container.supervision.job_records import open_job
from samzapy.errors import PositionVoid
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.runner.prepare import prepare

RESET = {"systems.mem.streams.in.samza.reset.offset": "true", "systems.mem.streams.in.samza.offset.default": "oldest"}


class SeenTask(StreamTask, InitableTask):
    """Notes what it processes."""

    seen: ClassVar[list] = []

    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.seen.append((envelope.ssp.stream, envelope.offset))
        self.counts.put(envelope.key, 1)


@pytest.fixture
def job(tmp_path):
    SeenTask.seen = []
    return MemoryJob(tmp_path, partitions=1, task=SeenTask)


def made_anew(job, stream, records):
    """The stream again, with so many records."""
    job.admin.delete(stream)
    job.admin.create(StreamSpec(stream, 1))
    SeenTask.seen.clear()
    job.send(*((0, f"k{number}", {"id": number}) for number in range(records)), stream=stream)


@pytest.mark.parametrize("records", [3, 5, 8])
def test_an_offset_of_an_earlier_stream_is_refused_until_one_decides(job, records):
    job.send(*((0, "a", {"id": number}) for number in range(5)))
    job.run()
    made_anew(job, "in", records)
    for _ in range(2):
        with pytest.raises(
            PositionVoid, match=r"mem\.in: it was deleted .* offset 5 of partition 0 .* --input 'mem\.in'"
        ):
            job.run()
    assert SeenTask.seen == []
    job.run(**RESET)
    assert SeenTask.seen == [("in", number) for number in range(records)]
    job.run()
    assert len(SeenTask.seen) == records


def test_a_startpoint_or_a_moved_position_decides_as_well(job):
    job.send(*((0, "a", {"id": number}) for number in range(5)))
    job.run()
    made_anew(job, "in", 8)
    write_startpoints(job.config, prepare(job.config).model, "6", ())
    job.run()
    assert SeenTask.seen == [("in", 6), ("in", 7)]
    made_anew(job, "in", 10)
    model = prepare(job.config).model
    with open_job(job.config, "test") as (_, checkpoints):
        # The driver of that run has ended.
        write_owner(checkpoints, replace(read_owner(checkpoints), pid=NO_DRIVER))
    move_positions(job.config, model, Move(Target("oldest")), lambda _: None)
    job.run()
    assert len(SeenTask.seen) == 10
    job.run()
    assert len(SeenTask.seen) == 10


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_an_input_of_a_pattern_that_goes_and_comes_back_is_a_new_one(job, end):
    job.flat |= {"task.inputs": "mem.in.*", "job.inputs.refresh.ms": "1s"}
    job.admin.create(StreamSpec("in-2", 1))
    job.send(*((0, "a", {"id": number}) for number in range(5)), stream="in-2")
    job.run()
    job.admin.delete("in-2")
    if end == "killed":
        # Nothing has been processed without the stream.
        arm("start.7")
        with pytest.raises(FailPointReached):
            job.run()
        disarm()
    else:
        job.run()
    job.admin.create(StreamSpec("in-2", 1))
    SeenTask.seen.clear()
    job.send(*((0, "a", {"id": number}) for number in range(9)), stream="in-2")
    job.run()
    assert SeenTask.seen == [("in-2", number) for number in range(9)]


class ReplacingTask(SeenTask):
    """Creates a stream again in the middle of a run."""

    at_four: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        super().process(envelope, collector, coordinator)
        if envelope.offset in {4, 9} and self.at_four:
            self.at_four.pop()()


def test_an_input_recreated_in_a_run_commits_nothing_of_the_new_one(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, task=ReplacingTask)
    SeenTask.seen = []
    job.send(*((0, f"k{number}", {"id": number}) for number in range(5)))
    seen = []

    def again():
        seen.extend(SeenTask.seen)
        made_anew(job, "in", 400)

    ReplacingTask.at_four[:] = [again]
    with pytest.raises(PositionVoid, match=r"processed and committed are mem\.in\[0\] to 5 \(exclusive\)"):
        job.run(until_end=False)
    assert seen == [("in", number) for number in range(5)]
    assert SeenTask.seen == []

    write_startpoints(job.config, prepare(job.config).model, "oldest", ("mem.in",))
    job.run()
    assert SeenTask.seen == [("in", number) for number in range(400)]
    assert job.changelog() == {f"k{number}": 1 for number in range(400)}
