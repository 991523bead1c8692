"""Bootstrap streams, priorities, batches and a job's own chooser, in a whole container on the memory system."""

import asyncio
from itertools import groupby
from typing import ClassVar
from uuid import uuid4

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy import CoroutineTask, RequestScope, StreamTask, SystemStreamPartition
from samzapy.api.system import Choice, MessageChooser, OutgoingRecord, StreamSpec
from samzapy.container.inputs.inputs import Inputs
from samzapy.errors import ConfigError, TaskFailed
from samzapy.system.choosing_consumer import ChoosingConsumer
from samzapy.system.clients import system_factory


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


def priority(**of):
    return {f"systems.mem.streams.{stream}.samza.priority": str(value) for stream, value in of.items()}


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


def test_a_table_that_is_empty_or_read_already_holds_nothing_back(tmp_path):
    job = job_of(tmp_path, **bootstrap())
    job.send(*ids(1, 2))
    assert job.run().processed == 2
    job.send(*ids(3))
    assert job.run().processed == 1


def test_a_table_on_another_system_holds_the_inputs_of_this_one_back(tmp_path):
    keys = {
        "systems.other.samza.factory": "memory",
        "systems.other.cluster": str(uuid4()),
        "systems.other.default.stream.samza.key.serde": "string",
        "systems.other.default.stream.samza.msg.serde": "json",
        "systems.other.default.stream.samza.offset.default": "oldest",
        "systems.other.streams.codes.samza.bootstrap": "true",
    }
    job = job_of(tmp_path, inputs="mem.in,other.codes", **keys)
    settings = job.config.systems["other"]
    system_factory(settings).admin(settings, "test").create(StreamSpec("codes", 1))
    elsewhere = system_factory(settings).producer(settings, "test")
    elsewhere.send([OutgoingRecord("codes", b"k", b'{"id": %d}' % n, 0) for n in range(1000, 1020)])
    elsewhere.flush()
    job.send(*ids(*range(20)))
    assert job.run().phase == "done"
    assert seen() == [*range(1000, 1020), *range(20)]


@pytest.mark.parametrize(
    "guarantee",
    [
        "at-least-once",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("at-most-once", "effectively-once", "exactly-once")),
    ],
)
def test_a_crash_in_the_middle_of_the_bootstrap_loses_nothing_in_any_guarantee(tmp_path, guarantee):
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


def test_a_higher_priority_goes_first_and_the_order_within_a_partition_is_kept(tmp_path):
    job = job_of(tmp_path, "mem.in,mem.table,mem.urgent", **priority(urgent=9, table=1))
    for stream, start in (("in", 0), ("table", 1000), ("urgent", 2000)):
        job.send(*ids(*range(start, start + 300)), stream=stream)
    job.run()
    assert streams() == ["urgent", "table", "in"]
    assert [seen(stream) for stream in ("urgent", "table", "in")] == [
        [*range(start, start + 300)] for start in (2000, 1000, 0)
    ]


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


@pytest.mark.parametrize(
    ("path", "said"),
    [("jobs.memory_job:MemoryJob", "must be a MessageChooser"), ("jobs.memory_job:Missing", "Missing")],
)
def test_a_chooser_class_that_is_none_is_refused_before_anything_runs(tmp_path, path, said):
    job = job_of(tmp_path, "mem.in", **{"task.chooser.class": path})
    with pytest.raises(ConfigError, match=f"task.chooser.class: .*{said}"):
        job.run()


def test_a_job_that_asks_for_no_order_reads_from_its_consumers_directly(tmp_path, monkeypatch):
    given = []
    made = Inputs.__init__

    def init(self, consumers, *rest, **keys):
        given.append(consumers)
        made(self, consumers, *rest, **keys)

    monkeypatch.setattr(Inputs, "__init__", init)
    plain = job_of(tmp_path)
    plain.send(*ids(1))
    plain.run()
    ordered = job_of(tmp_path / "ordered", **bootstrap())
    ordered.run()
    assert [isinstance(consumers["mem"], ChoosingConsumer) for consumers in given] == [False, True]


def test_outputs_and_state_are_those_of_a_run_without_an_order(tmp_path):
    job = job_of(tmp_path, "mem.in", task=CountingTask, partitions=2, **{"task.consumer.batch.size": "2"})
    job.send(*[(n % 2, f"key-{n % 4}", {"id": n}) for n in range(40)])
    job.run()
    assert job.changelog() == {f"key-{n}": 10 for n in range(4)}
    assert sorted(message["id"] for _, message in job.outputs()) == list(range(40))
