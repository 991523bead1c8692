"""Timers by key: when they fire, what makes them durable, and what a crash does to them."""

import json
from typing import ClassVar

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy import (
    CoroutineTask,
    InitableTask,
    OutgoingMessageEnvelope,
    RequestScope,
    StreamTask,
    TimerClock,
    TimerTask,
)
from samzapy.api.system import OutgoingRecord
from samzapy.errors import ConfigError, StoreError, TaskFailed
from samzapy.testing import ManualClock, TaskTestDriver

STORE = {"stores.reminders.factory": "timers", "stores.reminders.changelog": "mem.reminders-changelog"}
OTHERS = {"stores.others.factory": "timers", "stores.others.changelog": "mem.others-changelog"}


class Orders(InitableTask, TimerTask):
    """A message may set (`set`: name -> time) and cancel timers; what fires is sent and noted."""

    log: ClassVar[list] = []
    calls: ClassVar[list] = []
    crash_at: ClassVar[list] = []

    def init(self, context):
        self.timers = context.task.timers

    def obey(self, message):
        self.log.append(message["id"])
        clock = TimerClock(message.get("clock", "event"))
        for name, time_ms in message.get("set", {}).items():
            self.timers.schedule(name, time_ms, clock)
        for name in message.get("cancel", ()):
            self.timers.cancel(name, clock)
        if message["id"] in self.crash_at:
            raise ValueError("told to")

    def on_timer(self, key, time_ms, collector, coordinator):
        self.log.append((key, time_ms))
        collector.send(OutgoingMessageEnvelope(OUT, {"time": time_ms}, key=str(key)))
        if key == "again" and time_ms < 1_000:
            self.timers.schedule(key, time_ms + 100)
        if key == "cancels":
            self.timers.cancel("cancelled")
        if key == "stop":
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)


class OrderTask(Orders, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.obey(envelope.message)


class OrderCoroutine(Orders, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        self.obey(envelope.message)

    async def on_timer(self, key, time_ms, collector, coordinator):
        Orders.on_timer(self, key, time_ms, collector, coordinator)


TASKS = [OrderTask, OrderCoroutine]


def job_of(folder, task=OrderTask, partitions=1, **keys):
    Orders.log.clear()
    Orders.crash_at.clear()
    return MemoryJob(folder, partitions=partitions, task=task, **STORE | {"stores.counts.factory": "inmemory"} | keys)


def send(job, *messages, partition=0):
    """Append (time, orders) pairs, numbered by their times."""
    records = [
        OutgoingRecord("in", b"k", json.dumps({"id": time} | orders).encode(), partition, timestamp=time)
        for time, orders in messages
    ]
    job.producer.send(records)
    job.producer.flush()


def test_a_timer_fires_right_after_its_message_and_before_any_later_one_wherever_a_poll_ends(tmp_path):
    job = job_of(tmp_path)
    again = (500, {"set": {"again": 100, "late": 350}})
    send(job, (10, {"set": {"x": 30, "y": 45}}), *[(time, {}) for time in range(20, 60, 5)], again)
    job.run()
    assert Orders.log[:11] == [10, 20, 25, 30, ("x", 30), 35, 40, 45, ("y", 45), 50, 55]
    assert [time for _, time in Orders.log[12:]] == [100, 200, 300, 350, 400, 500]


@pytest.mark.parametrize("local", ["kept", "lost"])
def test_timers_and_clock_survive_a_restart_with_or_without_local_files(tmp_path, local):
    keys = {"job.systemstreampartition.grouper.factory": "single"}
    job = job_of(tmp_path, partitions=2, **keys)
    send(job, (10, {"set": {"x": 30, "y": 300}}), (25, {}), partition=0)
    send(job, (20, {}), partition=1)
    job.run()
    send(job, (40, {}), partition=0)
    send(job, (45, {}), partition=1)
    container, _ = job.container(**{"job.logged.store.base.dir": str(tmp_path / "other")} if local == "lost" else {})
    container.run()
    assert sorted(Orders.log[3:], key=str) == [("x", 30), 40, 45]
    assert Orders.log.index(("x", 30)) > 3


@pytest.mark.parametrize(
    ("guarantee", "crash_at"),
    [
        ("exactly-once", 20),
        ("exactly-once", 50),
        *(pytest.param("exactly-once", at, marks=pytest.mark.slow) for at in (10, 30, 40, 60)),
        pytest.param("effectively-once", 30, marks=pytest.mark.slow),
        pytest.param("at-least-once", 50, marks=pytest.mark.slow),
    ],
)
def test_a_crash_at_any_message_loses_no_timer(tmp_path, crash_at, guarantee):
    job = job_of(tmp_path, **{"task.guarantee": guarantee, "task.commit.ms": "20000"})
    orders = [
        (10, {"set": {"a": 20, "b": 30}}),
        (20, {"set": {"c": 40, "b": 50}}),
        (30, {"set": {"d": 45}}),
        (40, {"cancel": ["d"], "set": {"e": 60}}),
        (50, {}),
        (60, {}),
    ]
    send(job, *orders[:3])
    Orders.crash_at.append(crash_at)
    if crash_at <= 30:
        with pytest.raises(TaskFailed):
            job.run()
        Orders.crash_at.clear()
    job.run()
    send(job, *orders[3:])
    if crash_at > 30:
        with pytest.raises(TaskFailed):
            job.run()
    Orders.crash_at.clear()
    job.run()
    fired = sorted((key, message["time"]) for key, message in job.outputs())
    once = [("a", 20), ("b", 50), ("c", 40), ("e", 60)]
    assert sorted(set(fired)) == once
    if guarantee == "exactly-once":
        assert fired == once


class CountedClock(ManualClock):
    reads = 0

    def wall_ms(self):
        self.reads += 1
        return super().wall_ms()


def reads_of_a_message(job, tasks):
    with TaskTestDriver(None, job.flat, partitions=tasks, clock=CountedClock(0)) as driver:
        for number in range(tasks):
            driver.send("in", {"id": 0, "clock": "wall", "set": {"x": 60_000}}, partition=number, timestamp=0)
        before = driver.clock.reads
        driver.send("in", {"id": 1}, partition=0, timestamp=0)
        reads = driver.clock.reads - before
        driver.clock.set_wall(59_999)
        driver.run()
        assert len(Orders.log) == tasks + 1
        driver.advance(0.001)
    assert Orders.log[tasks + 1 :] == [("x", 60_000)] * tasks
    return reads


@pytest.mark.parametrize("task", TASKS)
def test_a_message_asks_for_the_timers_of_no_other_task_and_a_set_clock_for_all(tmp_path, task):
    two, fifty = (reads_of_a_message(job_of(tmp_path, task), tasks) for tasks in (2, 50))
    assert two == fifty > 0


def test_a_failed_message_that_is_skipped_has_set_no_timer(tmp_path):
    job = job_of(tmp_path, **{"task.error.process.policy": "skip"})
    send(job, (10, {"set": {"kept": 30}}), (20, {"set": {"undone": 25, "kept": 26}}), (40, {}))
    Orders.crash_at.append(20)
    job.run()
    assert Orders.log == [10, 20, 40, ("kept", 30)]


def test_a_reset_that_goes_back_takes_the_clock_back_too(tmp_path):
    job = job_of(tmp_path)
    send(job, (10, {"set": {"x": 30}}), (100, {}))
    job.run()
    Orders.log.clear()
    job.run(**{"systems.mem.streams.in.samza.reset.offset": "true"})
    assert Orders.log == [10, 100, ("x", 30)]


def test_what_a_timer_raises_names_it_and_nothing_of_it_is_committed(tmp_path, monkeypatch):
    def fail(self, key, time_ms, collector, coordinator):
        raise KeyError("lost")

    monkeypatch.setattr(OrderTask, "on_timer", fail)
    job = job_of(tmp_path)
    send(job, (10, {"set": {"x": 20}}), (20, {}))
    with pytest.raises(TaskFailed, match=r"^Partition 0: on_timer of 'x' failed: KeyError: 'lost' \(.*rs.py:\d+\)$"):
        job.run()
    monkeypatch.undo()
    job.run()
    assert Orders.log[-1] == ("x", 20)


class NoTimersTask(StreamTask, InitableTask):
    calls: ClassVar[list] = []

    def init(self, context):
        self.timers = context.task.timers

    def process(self, envelope, collector, coordinator):
        return


@pytest.mark.parametrize(
    ("task", "keys", "refusal"),
    [
        (NoTimersTask, {}, r"the job has no store for timers; add stores.NAME.factory=timers"),
        (NoTimersTask, STORE, r"task.class: NoTimersTask must be a TimerTask that defines on_timer"),
        (OrderTask, STORE | OTHERS, r"stores.reminders.factory: a job has one store of timers, and others is one"),
    ],
)
def test_timers_take_a_timer_task_and_one_store(tmp_path, task, keys, refusal):
    with pytest.raises((ConfigError, StoreError), match=refusal):
        MemoryJob(tmp_path, task=task, **keys).run()
