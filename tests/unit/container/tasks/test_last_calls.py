"""The calls of a task that come beside its messages: what they change is committed, or a warning says that it is
not."""

import logging
from collections import Counter
from typing import ClassVar

import pytest
from jobs.memory_job import OUT as MEMORY_OUT
from jobs.memory_job import MemoryJob

from samzapy import BatchTask, ClosableTask, InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.event_time import ClockListenerTask
from samzapy.api.system import StreamSpec
from samzapy.errors import StoreCorrupted, StoreError, TaskFailed
from samzapy.storage.kv.uncommitted import InMemoryStorageEngine, InMemoryStorageEngineFactory
from samzapy.testing import TaskTestDriver

OUT = SystemStream("sys", "out")
JOB = {
    "task.inputs": "sys.in",
    "task.commit.ms": "50000",
    "task.checkpoint.factory": "topic",
    "task.checkpoint.system": "sys",
    "systems.sys.default.stream.samza.key.serde": "string",
    "systems.sys.default.stream.samza.msg.serde": "json",
    "stores.s.factory": "inmemory",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "sys.s-changelog",
}


class ClockTask(StreamTask, InitableTask, ClockListenerTask):
    """Keeps and sends the time of its clock."""

    def init(self, context):
        self.store = context.get_store("s")

    def process(self, envelope, collector, coordinator):
        pass

    def on_clock(self, clock, collector, coordinator):
        self.store.put("clock", clock.time_ms)
        collector.send(OutgoingMessageEnvelope(OUT, clock.time_ms))


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_what_on_clock_does_for_an_idle_partition_is_in_the_next_commit(guarantee):
    keys = {"task.inputs": "sys.in,sys.slow", "task.guarantee": guarantee, "task.watermark.idle.timeout.ms": "5000"}
    with TaskTestDriver(ClockTask, JOB | keys) as driver:
        driver.send("slow", 1, timestamp=500)
        driver.send("in", 1, timestamp=3_000)
        driver.commit()
        assert driver.committed("out").messages == [500]
        for _ in range(7):
            driver.advance(1)
        driver.commit()
        assert driver.committed("out").messages == [500, 3_000]
        assert driver.changelog("s").messages == [500, 3_000]


class SendingOnClock(StreamTask, ClockListenerTask):
    """Sends what does not serialize when its clock moves, and may have its container stopped."""

    stop: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        pass

    def on_clock(self, clock, collector, coordinator):
        for stop in self.stop:
            stop()
        collector.send(OutgoingMessageEnvelope(MEMORY_OUT, object(), key="k"))


class SendingBatches(BatchTask, ClockListenerTask):
    """The same by batches."""

    stop: ClassVar[list] = []

    def process_batch(self, batch, collector, coordinator):
        pass

    on_clock = SendingOnClock.on_clock


def run_of_clock(task, folder, *, stopped, **keys):
    job = MemoryJob(folder, 1, task, **keys, **{"stores.counts.factory": "inmemory"})
    job.admin.create(StreamSpec("dead", 1))
    job.send((0, "k", {"id": 1}), (0, "k", {"id": 2}))
    container, _ = job.container(until_end=not stopped)
    task.stop = [container.stop] if stopped else []
    return job, container.run()


@pytest.mark.parametrize("task", [SendingOnClock, SendingBatches])
def test_an_output_of_on_clock_does_not_fail_the_stop(tmp_path, task):
    _, report = run_of_clock(task, tmp_path, stopped=True, **{"task.error.serialize.policy": "skip"})
    assert report.phase == "done"
    assert report.positions == {"mem.in[0]": 2}
    assert report.metrics["errors"]["serialize.skipped"] == 1


@pytest.mark.parametrize("task", [SendingOnClock, SendingBatches])
def test_an_output_of_on_clock_meets_the_policy_and_belongs_to_no_message(tmp_path, task):
    keys = {"task.error.serialize.policy": "dead-letter", "task.dead.letter.stream": "mem.dead"}
    job, report = run_of_clock(task, tmp_path, stopped=False, **keys)
    assert report.metrics["errors"]["serialize.dead-lettered"] == 1
    assert job.values("dead") == [None]


class ClosingTask(StreamTask, InitableTask, ClosableTask):
    """Does what it is told to when it is closed; `closed` has the tasks."""

    closed: ClassVar[list] = []
    orders: ClassVar[tuple] = ()

    def init(self, context):
        self.name = context.task.task_name
        self.store = context.get_store("s")

    def process(self, envelope, collector, coordinator):
        self.collector = collector
        self.store.put(envelope.key, envelope.message)

    def close(self):
        self.closed.append(self.name)
        if "put" in self.orders:
            self.store.put("late", 1)
        if "send" in self.orders:
            self.collector.send(OutgoingMessageEnvelope(OUT, "late"))
        if "fail" in self.orders and self.name == "Partition 1":
            raise ValueError("told to")


@pytest.fixture
def closing():
    def of(*orders):
        ClosingTask.closed, ClosingTask.orders = [], orders
        return ClosingTask

    return of


@pytest.mark.parametrize("cache", [{}, {"stores.s.object.cache.size": "0"}, {"stores.s.rocksdb.ttl.ms": "9000"}])
@pytest.mark.parametrize("orders", [(), ("put",), ("send",)])
def test_a_change_that_comes_after_the_last_commit_is_announced_as_lost(closing, orders, cache, caplog):
    with TaskTestDriver(closing(*orders), JOB | cache) as driver, caplog.at_level(logging.WARNING):
        driver.send("in", 1, key="a")
        driver.stop()
        assert driver.changelog("s").messages == [1]
    said = [line for line in caplog.messages if "the last commit is before it" in line]
    assert len(said) == (1 if orders else 0)


def test_a_task_is_closed_once_also_if_another_close_fails_but_not_without_init(closing):
    with TaskTestDriver(closing("fail"), JOB, partitions=3) as driver:
        driver.send("in", 1, key="a")
        with pytest.raises(TaskFailed, match="Partition 1: close failed: ValueError: told to"):
            driver.stop()
    assert Counter(ClosingTask.closed) == {"Partition 0": 1, "Partition 1": 1, "Partition 2": 1}
    with pytest.raises(StoreError, match="Partition 0: the job has no store 's'"):
        TaskTestDriver(closing(), {key: JOB[key] for key in JOB if "stores." not in key}, partitions=2)
    assert ClosingTask.closed == ["Partition 0"]


class CarefreeTask(StreamTask, InitableTask):
    """Counts, and takes a count that it cannot read for none."""

    def init(self, context):
        self.store = context.get_store("s")

    def process(self, envelope, collector, coordinator):
        try:
            if envelope.message == "range":
                count = len(list(self.store.all()))
            elif envelope.message == "many":
                count = self.store.get_all([envelope.key])[envelope.key]
            else:
                count = self.store.get(envelope.key) or 0
        except StoreError:
            count = 0
        self.store.put(envelope.key, count + 1)


class FragileEngine(InMemoryStorageEngine):
    """Fails while it is `broken`."""

    __slots__ = ()
    broken: ClassVar[bool] = False

    def get(self, key):
        self.check()
        return super().get(key)

    def get_all(self, keys):
        self.check()
        return super().get_all(keys)

    def iterate(self, lower, upper):
        self.check()
        return super().iterate(lower, upper)

    def check(self):
        if self.broken:
            raise StoreCorrupted("the disk does not answer")


class FragileFactory(InMemoryStorageEngineFactory):
    def open(self, directory, settings, *, read_only=False):
        return FragileEngine(settings.store)


@pytest.mark.parametrize("message", ["get", "many", "range"])
@pytest.mark.parametrize("cache", [{}, {"stores.s.object.cache.size": "0"}])
def test_no_commit_follows_a_failed_read_that_the_task_has_caught(message, cache):
    keys = {"stores.s.factory": f"{__name__}:FragileFactory"}
    with TaskTestDriver(CarefreeTask, JOB | keys | cache) as driver:
        for _ in range(3):
            driver.send("in", "get", key="a")
        driver.commit()
        driver.restart()
        FragileEngine.broken = True
        try:
            driver.send("in", message, key="a")
        finally:
            FragileEngine.broken = False
        with pytest.raises(
            StoreCorrupted, match=r"store 's': a read failed and the task went on.*disk does not answer"
        ):
            driver.commit()
        driver.restart()
        assert driver.changelog("s").messages == [3]
        assert driver.store("s").get("a") == (2 if message == "range" else 4)
