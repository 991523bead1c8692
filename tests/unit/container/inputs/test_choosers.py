"""Bootstrap streams, priorities, batches and a job's own chooser, in a whole container on the memory system."""

import asyncio
from itertools import groupby
from typing import ClassVar
from uuid import uuid4

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy import CoroutineTask, RequestScope, StreamTask, SystemStreamPartition
from samzapy.api.collector import EndOfStream
from samzapy.api.system import Choice, MessageChooser, OutgoingRecord, StreamSpec
from samzapy.container.event_time.control_messages import SentControl, encode
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


def test_all_partitions_of_the_container_wait_for_all_bootstrap_partitions(tmp_path):
    job = job_of(tmp_path, partitions=3, **bootstrap())
    job.send(*[(n % 3, "k", {"id": n}) for n in range(30)])
    job.send(*[(0, "k", {"id": n}) for n in range(1000, 1050)], stream="table")
    job.run()
    assert streams() == ["table", "in"]
    assert len(NotingTask.order) == 80


def test_the_head_is_that_of_the_start_and_later_messages_of_the_table_go_first_among_equals(tmp_path):
    job = job_of(tmp_path, **bootstrap())
    job.send(*ids(1, 2, 3))
    job.send(*ids(1000, 1001), stream="table")
    more = OutgoingRecord("table", b"k", b'{"id": 1002}', 0)

    def while_it_runs():
        job.producer.send([more])
        job.producer.flush()

    NotingTask.sends = {1001: while_it_runs}
    container, _ = job.container(until_end=False)
    NotingTask.sends[3] = container.stop
    container.run()
    assert seen("in") == [1, 2, 3]
    assert seen()[:2] == [1000, 1001]
    assert seen().index(1002) < len(seen()) - 1, "a bootstrap stream keeps the highest priority"


def test_an_override_of_the_priority_lets_a_table_fall_behind_once_it_has_caught_up(tmp_path):
    job = job_of(tmp_path, **bootstrap(), **priority(table=0, **{"in": 5}))
    job.send(*ids(1, 2, 3))
    job.send(*ids(1000), stream="table")
    NotingTask.sends = {1000: lambda: job.send(*ids(1001), stream="table")}
    container, _ = job.container(until_end=False)
    NotingTask.sends[1001] = container.stop
    container.run()
    assert seen() == [1000, 1, 2, 3, 1001]


def test_a_restart_bootstraps_again_from_the_checkpoint_to_the_head_of_then(tmp_path):
    job = job_of(tmp_path, **bootstrap())
    job.send(*ids(1, 2))
    job.send(*ids(1000, 1001), stream="table")
    job.run()
    NotingTask.order.clear()
    job.send(*ids(3, 4))
    job.send(*ids(1002, 1003), stream="table")
    job.run()
    assert seen() == [1002, 1003, 3, 4]


def test_a_table_that_is_empty_or_read_already_holds_nothing_back(tmp_path):
    job = job_of(tmp_path, **bootstrap())
    job.send(*ids(1, 2))
    assert job.run().processed == 2
    job.send(*ids(3))
    assert job.run().processed == 1


def test_holes_before_the_head_are_passed(tmp_path):
    job = job_of(tmp_path, **bootstrap())
    factory = system_factory(job.config.systems["mem"])
    aborted = factory.producer(job.config.systems["mem"], "test", str(uuid4()))
    aborted.init_transactions()
    job.send(*ids(1000), stream="table")
    aborted.begin()
    aborted.send([OutgoingRecord("table", b"k", b"{}", 0) for _ in range(5)])
    aborted.abort()
    aborted.close()
    job.send(*ids(1, 2))
    job.run()
    assert seen() == [1000, 1, 2]


def test_a_broadcast_table_holds_all_tasks_back_and_every_task_gets_it(tmp_path):
    keys = {"task.broadcast.inputs": "mem.table#0"}
    job = job_of(tmp_path, inputs="mem.in", partitions=2, **bootstrap(), **keys)
    job.send(*[(n % 2, "k", {"id": n}) for n in range(10)])
    job.send(*ids(*range(1000, 1005)), stream="table")
    job.run()
    assert streams() == ["table", "in"]
    assert seen("table") == [*range(1000, 1005)] * 2


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


def test_what_is_urgent_is_not_kept_waiting_by_what_was_read_ahead(tmp_path):
    job = job_of(tmp_path, "mem.in,mem.urgent", **priority(urgent=1))
    job.send(*ids(*range(3000)))
    NotingTask.sends = {10: lambda: job.send(*ids(5000), stream="urgent")}
    container, _ = job.container(until_end=False)
    NotingTask.sends[2999] = container.stop
    container.run()
    assert seen("in") == [*range(3000)]
    assert seen().index(5000) < 200, "portions begin small, and a poll brings 2000"


def test_the_batch_size_is_how_long_a_partition_keeps_its_turn(tmp_path):
    job = job_of(tmp_path, "mem.in", partitions=2, **{"task.consumer.batch.size": "5"})
    job.send(*[(n % 2, "k", {"id": n}) for n in range(30)])
    job.run()
    turns = [len(list(turn)) for _, turn in groupby(NotingTask.order, key=lambda each: each[1])]
    assert turns == [5] * 6
    assert sorted(seen()) == [*range(30)]


def test_a_batch_of_one_lets_the_partitions_alternate(tmp_path):
    job = job_of(tmp_path, "mem.in", partitions=3, **{"task.consumer.batch.size": "1"})
    job.send(*[(n % 3, "k", {"id": n}) for n in range(30)])
    job.run()
    assert [partition for _, partition, _ in NotingTask.order] == [0, 1, 2] * 10


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


@pytest.mark.parametrize("task", [NotingTask, SlowCoroutineTask])
def test_a_bounded_run_with_every_kind_of_order_ends_and_processes_all(tmp_path, task):
    job = job_of(
        tmp_path,
        "mem.in,mem.table,mem.urgent",
        task=task,
        partitions=3,
        **bootstrap(),
        **priority(urgent=2),
        **{"task.consumer.batch.size": "3", "task.poll.batch.size": "11", "task.max.concurrency": "4"},
    )
    sent = {"in": range(200), "table": range(1000, 1100), "urgent": range(2000, 2100)}
    for stream, numbers in sent.items():
        job.send(*[(n % 3, "k", {"id": n}) for n in numbers], stream=stream)
    assert job.run().phase == "done"
    assert {stream: sorted(seen(stream)) for stream in sent} == {stream: [*numbers] for stream, numbers in sent.items()}
    assert set(streams()[:1]) == {"table"}
    if task is NotingTask:
        for stream, numbers in sent.items():
            for partition in range(3):
                mine = [number for s, p, number in NotingTask.order if (s, p) == (stream, partition)]
                assert mine == [n for n in numbers if n % 3 == partition]


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


@pytest.mark.timeout(30)
def test_an_intermediate_bootstrap_stream_whose_senders_end_before_its_head_lets_the_others_go(tmp_path):
    job = job_of(tmp_path, **bootstrap(), **{"systems.mem.streams.table.samza.intermediate": "true"})
    key, value, headers = encode(SentControl("up/Partition 0", 1, EndOfStream()))
    job.send(*ids(1000))
    job.producer.send([OutgoingRecord("table", key, value, 0, None, headers)])
    # More than one poll brings: the last of them are not read any more.
    job.send(*ids(*range(1001, 1200)), stream="table")
    job.send(*ids(1, 2))
    container, _ = job.container(until_end=False)
    NotingTask.sends[2] = container.stop
    container.run()
    assert seen("in") == [1000, 1, 2]
    assert len(seen("table")) < 199
