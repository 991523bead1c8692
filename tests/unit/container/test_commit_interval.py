"""Commits, windows and timers come in time, whatever a poll brings and however long its messages take."""

from itertools import pairwise
from typing import ClassVar

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy import BatchTask, InitableTask, OutgoingMessageEnvelope, StreamTask, TimerTask, WindowableTask
from samzapy.api.event_time import TimerClock
from samzapy.testing import ManualClock, TaskTestDriver

COMMITS = {"task.commit.ms": "500", "stores.counts.factory": "inmemory"}


class Slow(WindowableTask):
    """Each call takes 100 ms, of which `window` takes note."""

    clock: ClassVar[ManualClock]
    windows: ClassVar[list[float]] = []

    def window(self, collector, coordinator):
        self.windows.append(self.clock.monotonic())


class SlowTask(Slow, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.clock.advance(0.1)


class SlowBatchTask(Slow, BatchTask):
    def process_batch(self, batch, collector, coordinator):
        self.clock.advance(0.1)


def run_of(task, folder, partitions, messages, **keys):
    """The last report of a run over messages that are all polled at once."""
    task.clock = ManualClock()
    Slow.windows.clear()
    job = MemoryJob(folder, partitions, task, **COMMITS | keys)
    job.send(*messages)
    return job.run(clock=task.clock)


@pytest.mark.parametrize("task", [SlowTask, SlowBatchTask])
def test_a_poll_of_many_partitions_of_a_message_each_is_committed_in_time(tmp_path, task):
    report = run_of(task, tmp_path, 20, [(n, "k", {"id": n}) for n in range(20)])
    # Two seconds of work, and the last commit.
    assert report.metrics["commit"]["commits"] >= 4


@pytest.mark.parametrize("task", [SlowTask, SlowBatchTask])
def test_windows_come_in_time_amid_such_a_poll(tmp_path, task):
    run_of(task, tmp_path, 20, [(n, "k", {"id": n}) for n in range(20)], **{"task.window.ms": "300"})
    times = sorted(set(Slow.windows))
    assert len(times) >= 5
    assert all(later - earlier < 0.5 for earlier, later in pairwise(times))


class FailingTask(SlowTask):
    """Each try of a message takes a second, and fails."""

    def process(self, envelope, collector, coordinator):
        self.clock.advance(1)
        raise ValueError("told to")


class FailingBatchTask(SlowBatchTask):
    """The same; a batch of several fails at once."""

    def process_batch(self, batch, collector, coordinator):
        self.clock.advance(len(batch) == 1)
        raise ValueError("told to")


@pytest.mark.parametrize("task", [FailingTask, FailingBatchTask])
def test_pauses_of_messages_of_a_poll_do_not_add_up_between_two_commits(tmp_path, task):
    keys = {"task.error.process.policy": "retry(1, 1ms) then skip", "task.commit.ms": "1500"}
    report = run_of(task, tmp_path, 1, [(0, "k", {"id": n}) for n in range(8)], **keys)
    assert report.metrics["errors"]["process.retried"] == 8
    assert report.metrics["commit"]["commits"] >= 8


class SlowAlarmTask(StreamTask, TimerTask, InitableTask):
    """Sets twenty timers for a time; each takes 100 ms."""

    clock: ClassVar[ManualClock]

    def init(self, context):
        self.timers = context.task.timers

    def process(self, envelope, collector, coordinator):
        for n in range(20):
            self.timers.schedule(f"{n}", self.clock.wall_ms(), TimerClock.WALL)

    def on_timer(self, key, time_ms, collector, coordinator):
        self.clock.advance(0.1)


def test_timers_that_are_due_together_are_committed_in_time(tmp_path):
    timers = {"stores.timers.factory": "timers", "stores.timers.changelog": "mem.timers-log"}
    report = run_of(SlowAlarmTask, tmp_path, 1, [(0, "k", {"id": 1})], **timers)
    assert report.metrics["Partition 0"]["timers-fired"] == 20
    assert report.metrics["commit"]["commits"] >= 4


class ObedientTask(StreamTask, WindowableTask, InitableTask):
    """Each `window` does what the last message says."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.order = envelope.message

    def window(self, collector, coordinator):
        if self.order == "send":
            collector.send(OutgoingMessageEnvelope(OUT, "sent"))
        if self.order == "put":
            self.counts.put("k", self.counts.get("k") is None)


@pytest.mark.parametrize(("order", "commits"), [("rest", False), ("send", True), ("put", True)])
def test_windows_are_committed_if_they_leave_anything(tmp_path, order, commits):
    keys = {"task.window.ms": "100", "task.commit.ms": "500"}
    with TaskTestDriver(ObedientTask, MemoryJob(tmp_path).flat, keys) as driver:
        driver.send("in", order)
        driver.advance(1)
        try:
            driver.crash("commit.1", during=lambda: driver.advance(2))
        except RuntimeError:
            assert not commits
        assert driver.running is not commits
