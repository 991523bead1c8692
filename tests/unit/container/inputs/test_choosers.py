"""Bootstrap streams, priorities, batches and a job's own chooser, in a whole container on the memory system."""

import asyncio
from itertools import groupby
from typing import ClassVar

import pytest
from jobs.memory_job import MemoryJob

from samzapy import CoroutineTask, RequestScope, StreamTask, SystemStreamPartition
from samzapy.api.system import Choice, MessageChooser, OutgoingRecord, StreamSpec
from samzapy.errors import TaskFailed


class NotingTask(StreamTask):
    """Notes which message came when; stops when it is told to, and sends what it is told to."""

    order: ClassVar[list] = []
    sends: ClassVar[dict] = {}
    calls: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        self.order.append((envelope.ssp.stream, envelope.ssp.partition, envelope.message["id"]))
        if (reaction := self.sends.get(envelope.message["id"])) is not None:
            reaction()
        if envelope.message.get("do") == "stop":
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)


class SlowCoroutineTask(CoroutineTask):
    """As NotingTask, in flight for a few turns of the event loop; notes a message when it is done."""

    order = NotingTask.order
    calls: ClassVar[list] = []

    async def process(self, envelope, collector, coordinator):
        for _ in range(3):
            await asyncio.sleep(0)
        self.order.append((envelope.ssp.stream, envelope.ssp.partition, envelope.message["id"]))


class OldestFirst(MessageChooser):
    """By time."""

    made: ClassVar[list] = []

    def init(self, job, ssps):
        self.made.append((job.name, ssps))

    def choose(self, waiting):
        return Choice(min(waiting, key=lambda ssp: waiting[ssp].timestamps[0]), 1)


class Nonsense(MessageChooser):
    def choose(self, waiting):
        return Choice(SystemStreamPartition("mem", "elsewhere", 0), 1)


class Broken(MessageChooser):
    def choose(self, waiting):
        raise LookupError("no idea")


def job_of(folder, inputs="mem.in,mem.table", task=NotingTask, partitions=1, **keys):
    NotingTask.order.clear()
    NotingTask.sends = {}
    own = {"task.inputs": inputs, "stores.counts.factory": "inmemory"}
    job = MemoryJob(folder, partitions=partitions, task=task, **own | keys)
    for stream in ("table", "urgent"):
        job.admin.create(StreamSpec(stream, partitions))
    return job


def bootstrap(stream="table"):
    return {f"systems.mem.streams.{stream}.samza.bootstrap": "true"}


def ids(*numbers):
    return [(0, f"key-{n}", {"id": n}) for n in numbers]


def streams():
    """The streams in the order they were processed, each as often as it was come back to."""
    return [stream for stream, _ in groupby(NotingTask.order, key=lambda each: each[0])]


def seen(stream=None):
    return [number for found, _, number in NotingTask.order if stream in {None, found}]


@pytest.mark.parametrize("task", [NotingTask, SlowCoroutineTask])
def test_a_bootstrap_stream_is_processed_to_its_head_before_anything_else(tmp_path, task):
    job = job_of(tmp_path, task=task, **bootstrap(), **{"task.max.concurrency": "10", "task.poll.batch.size": "7"})
    job.send(*ids(*range(100)))
    job.send(*ids(*range(1000, 1100)), stream="table")
    assert job.run().phase == "done"
    # What is done is what counts: with ten in flight, messages of other streams could overtake the last of the table.
    assert sorted(seen()[:100]) == list(range(1000, 1100))
    assert sorted(seen("in")) == list(range(100))


@pytest.mark.parametrize(
    "guarantee",
    [
        "at-least-once",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("at-most-once", "effectively-once", "exactly-once")),
    ],
)
def test_a_crash_in_the_bootstrap_loses_nothing_in_any_guarantee(tmp_path, guarantee):
    job = job_of(tmp_path, **bootstrap(), **{"task.guarantee": guarantee, "task.commit.ms": "20000"})
    job.send(*ids(1, 2))
    job.send(*ids(*range(1000, 1010)), stream="table")

    def crash():
        raise ValueError("told to")

    NotingTask.sends = {1005: crash}
    with pytest.raises(TaskFailed, match="told to"):
        job.run()
    NotingTask.order.clear()
    NotingTask.sends = {}
    job.run()
    if guarantee == "at-most-once":
        assert seen() == [1, 2], "the poll that failed was committed before it was processed"
    else:
        assert seen() == [*range(1000, 1010), 1, 2]


def test_a_chooser_of_the_job_merges_partitions_by_time(tmp_path):
    OldestFirst.made.clear()
    job = job_of(tmp_path, "mem.in", partitions=3, **{"task.chooser.class": f"{__name__}:OldestFirst"})
    records = [
        OutgoingRecord("in", b"k", b'{"id": %d}' % n, partition, timestamp=1000 + n)
        for partition, of_partition in enumerate(([0, 3, 4, 9], [1, 2, 8], [5, 6, 7]))
        for n in of_partition
    ]
    job.producer.send(records)
    job.producer.flush()
    job.run()
    assert seen() == list(range(10))
    assert OldestFirst.made == [
        ("counting", frozenset(SystemStreamPartition("mem", "in", number) for number in range(3)))
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Nonsense", r"Nonsense chose Choice\(.*elsewhere.*\): expected a Choice of at least 1 record"),
        ("Broken", "Broken: LookupError: no idea"),
    ],
)
def test_a_chooser_that_is_wrong_ends_the_attempt_and_is_named(tmp_path, name, said):
    job = job_of(tmp_path, "mem.in", **{"task.chooser.class": f"{__name__}:{name}"})
    job.send(*ids(1))
    with pytest.raises(TaskFailed, match=f"task.chooser.class: {said}"):
        job.run()
