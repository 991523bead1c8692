"""Partitions that bring nothing, and what they no longer hold."""

from typing import ClassVar

import pytest
from memory_job import MemoryJob

from samzapy import EndOfStreamListenerTask, IncomingMessageEnvelope, StreamTask, SystemStreamPartition
from samzapy.api.event_time import ClockListenerTask
from samzapy.api.system import OutgoingRecord
from samzapy.container.idleness import IdleWatch
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.operators.persistent import PersistentTask, Sum, WindowState

ONE, TWO = (SystemStreamPartition("m", "in", number) for number in (1, 2))


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


def instance(task):
    return TaskInstance("Partition 0", task, None, None, {ONE: 0, TWO: 0})


def bring(task, ssp, *times):
    at = task.offsets[ssp]
    task.process(ssp, [IncomingMessageEnvelope(ssp, at + n, None, None, None, time) for n, time in enumerate(times)])


def test_a_partition_holds_its_task_s_clock_until_it_is_idle():
    task = instance(ListeningTask())
    watch = IdleWatch([task], 5_000, 0.0)
    bring(task, ONE, 10, 40, 30)
    assert (task.clock.now, task.clock.holding) == (None, TWO)
    assert watch.look(4.0) == []
    bring(task, ONE, 50)
    assert watch.look(5.0) == [task]
    assert (task.clock.now, task.idle) == (50, False)
    assert watch.look(10.0) == []
    assert task.idle
    bring(task, TWO, 45)
    watch.look(11.0)
    assert (task.clock.now, task.clock.holding, task.idle) == (50, TWO, False)
    bring(task, TWO, 60)
    bring(task, ONE, 70)
    assert task.task.clocks == [60]


def test_a_task_that_listens_hears_of_the_highest_time_of_what_was_processed_in_one_go():
    task = instance(ListeningTask())
    bring(task, ONE, 10, 40, 30)
    bring(task, TWO, 20, -1)
    assert task.task.clocks == [20]
    plain = instance(PlainTask())
    bring(plain, ONE, 10, 40, 30)
    bring(plain, TWO, 90)
    assert plain.clock.now == 30


def test_nothing_is_ever_idle_if_that_is_said():
    task = instance(PlainTask())
    assert IdleWatch([task], -1, 0.0).due_at == float("inf")


def test_a_clock_is_never_before_that_of_its_last_life():
    task = instance(PlainTask())
    task.kept_time_ms = 100
    assert task.time_ms == 100
    bring(task, ONE, 10)
    bring(task, TWO, 20)
    assert (task.clock.now, task.time_ms) == (10, 100)
    bring(task, ONE, 150)
    bring(task, TWO, 150)
    assert task.time_ms == 150


@pytest.mark.parametrize("replayed", [{}, {ONE: 7}])
def test_positions_before_committed_ones_are_not_committed(replayed):
    task = instance(PlainTask())
    task.started(replayed)
    bring(task, ONE, 1, 2)
    assert task.committable() == {ONE: replayed.get(ONE, 2), TWO: 0}
    bring(task, ONE, *range(10))
    assert task.committable() == {ONE: 12, TWO: 0}


class LastWindowTask(PersistentTask, EndOfStreamListenerTask):
    """The sum of the last ten milliseconds, told at the end."""

    calls: ClassVar[list] = []

    def persistent_state(self):
        return WindowState(Sum(), 10)

    def process_message(self, state, message):
        state.update(message.event_time, message.message)

    def on_end_of_stream(self, collector, coordinator):
        self.calls.append((self.state.window, self.state.value))


def test_a_partition_that_has_ended_holds_nothing_and_a_window_comes_to_the_end_of_the_others(tmp_path):
    keys = {"job.systemstreampartition.grouper.factory": "single", "state.checkpoint.interval.ms": "10"}
    job = MemoryJob(tmp_path, task=LastWindowTask, **keys)
    for key in [key for key in job.flat if key.startswith("stores.")]:
        del job.flat[key]
    times = {0: [1, 2, 33, 34], 1: [5]}
    job.producer.send([OutgoingRecord("in", None, b"1", p, timestamp=time) for p in times for time in times[p]])
    job.producer.flush()
    job.run()
    assert LastWindowTask.calls == [((30, 40), 2)]
