"""A task's clock in event time: its marks, its idle rule, and the source that holds it back."""

from typing import ClassVar

import pytest

from samzapy import IncomingMessageEnvelope, StreamTask
from samzapy import SystemStreamPartition as Ssp
from samzapy.api.context import Counter
from samzapy.api.event_time import ClockListenerTask
from samzapy.clock import TimeBound
from samzapy.container.event_time.clock import EventClock
from samzapy.container.tasks.synchronous import StrictProcessing
from samzapy.container.tasks.task_instance import TaskInstance, TaskStart, UserSide
from samzapy.testing import ManualClock, TaskTestDriver

A, B = (Ssp("mem", "in", number) for number in range(2))


def at(ssp, *times):
    return [IncomingMessageEnvelope(ssp, offset, None, None, event_time=time) for offset, time in enumerate(times)]


@pytest.mark.parametrize(
    ("exact", "times", "now", "ahead"),
    [
        (True, (5, 2_000, 9, 1_001), 9, 2),
        (True, (5, 1_000), 1_000, 0),
        (True, (2_000,), None, 1),
        (True, (-1,), None, 0),
        (False, (5, 9, 2_000), 9, 1),
        (False, (5, 2_000, 9), 9, 0),
    ],
)
@pytest.mark.parametrize("later", [False, True], ids=["processed", "accepted"])
def test_a_time_too_far_ahead_of_the_wall_clock_moves_no_clock(exact, times, now, ahead, later, caplog):
    seconds, counted, offsets = ManualClock(0), Counter(), {A: 0}
    bound = TimeBound(1_000, seconds.wall_ms, counted.inc)
    clock = EventClock(offsets, seconds, exact=exact, bound=bound)
    if later:
        clock.accepted(A, at(A, *times))
        offsets[A] = len(times)
        clock.done()
    else:
        clock.passed(A, at(A, *times))
    assert (clock.now, counted.count, len(caplog.messages)) == (now, ahead, ahead > 0)
    assert all("task.event.time.max.ahead.ms (1000)" in line for line in caplog.messages)
    seconds.advance(1.0)
    clock.passed(A, at(A, 2_000))
    assert (clock.now, counted.count) == (2_000, ahead)


def test_the_wall_clock_is_read_only_for_a_time_beyond_the_last_bound():
    read = []
    bound = TimeBound(1_000, lambda: read.append(1) or 5_000)
    assert [bound.takes(time) for time in (5_500, 6_000, 10, 6_001, 3)] == [True, True, True, False, True]
    assert len(read) == 2
    assert TimeBound().takes(10**30)


class ListeningTask(StreamTask, ClockListenerTask):
    def __init__(self):
        self.clocks = []

    def process(self, envelope, collector, coordinator):
        pass

    def on_clock(self, clock, collector, coordinator):
        self.clocks.append(clock.time_ms)


class PlainTask(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass


def instance(task, *, exact):
    offsets = {A: 0, B: 0}
    clock = EventClock(offsets, ManualClock(0), exact=exact)
    return TaskInstance("Partition 0", UserSide(task, None), None, TaskStart(offsets), clock)


def bring(task, ssp, *times):
    first = task.offsets[ssp]
    processing = StrictProcessing(task, task.task.process)
    processing.process(ssp, [envelope._replace(offset=first + n) for n, envelope in enumerate(at(ssp, *times))])


def test_a_task_that_listens_hears_of_the_highest_time_of_one_go():
    task = instance(ListeningTask(), exact=True)
    bring(task, A, 10, 40, 30)
    bring(task, B, 20, -1)
    assert task.task.clocks == [20]
    plain = instance(PlainTask(), exact=False)
    bring(plain, A, 10, 40, 30)
    bring(plain, B, 90)
    assert plain.event_clock.now == 30


@pytest.mark.parametrize("replayed", [{}, {A: 7}])
def test_positions_before_committed_ones_are_not_committed(replayed):
    task = instance(PlainTask(), exact=False)
    task.started(replayed)
    bring(task, A, 1, 2)
    assert task.committable() == {A: replayed.get(A, 2), B: 0}
    bring(task, A, *range(10))
    assert task.committable() == {A: 12, B: 0}


SLOW_JOB = {
    "job.name": "slow",
    "job.default.system": "mem",
    "systems.mem.samza.factory": "memory",
    "systems.mem.default.stream.samza.msg.serde": "json",
    "systems.mem.default.stream.samza.offset.default": "oldest",
    "task.inputs": "mem.in",
    "task.commit.ms": "-1",
    "task.watermark.idle.timeout.ms": "60000",
    "job.systemstreampartition.grouper.factory": "single",
}


class SlowTask(StreamTask, ClockListenerTask):
    """Takes 40 s for a message, in which others may come; notes the times of messages and of its clock."""

    driver: ClassVar[TaskTestDriver]
    log: ClassVar[list] = []
    meanwhile: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        self.log.append((envelope.ssp.partition, envelope.event_time))
        self.driver.clock.advance(40)
        if self.meanwhile:
            self.driver.post("in", 0, partition=1, timestamp=self.meanwhile.pop())

    def on_clock(self, clock, collector, coordinator):
        self.log.append(clock.time_ms)


def test_a_partition_with_messages_in_hand_behind_a_slow_one_is_not_idle():
    SlowTask.log = []
    with TaskTestDriver(SlowTask, SLOW_JOB, partitions=2) as SlowTask.driver:
        for partition in range(2):
            SlowTask.driver.send("in", 0, partition=partition, timestamp=1_000)
        for number in range(4):
            SlowTask.driver.post("in", number, partition=0, timestamp=1_000_000 + number)
        for number in range(2):
            SlowTask.driver.post("in", number, partition=1, timestamp=2_000 + number)
        SlowTask.driver.run()
        times = [each for each in SlowTask.log if isinstance(each, int)]
        assert times == [1_000, 2_000, 2_001], "no jump past the messages in hand"
        SlowTask.driver.clock.advance(70)
        SlowTask.driver.run()
        assert SlowTask.log[-1] == 1_000_003, "both are idle now"


def test_a_partition_with_messages_that_came_meanwhile_is_not_idle():
    SlowTask.log = []
    with TaskTestDriver(SlowTask, SLOW_JOB, partitions=2) as SlowTask.driver:
        for partition in range(2):
            SlowTask.driver.send("in", 0, partition=partition, timestamp=1_000)
        SlowTask.meanwhile.append(2_000)
        for number in range(2):
            SlowTask.driver.post("in", number, partition=0, timestamp=1_000_000 + number)
        SlowTask.driver.run()
        assert [each for each in SlowTask.log if isinstance(each, int)] == [1_000, 2_000]
