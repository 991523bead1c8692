"""How a batch task gets its messages, and when the rest of the task's life happens in between."""

import sys
from typing import ClassVar

import pytest
from jobs.ledgers import JOB, OUT
from jobs.memory_job import MemoryJob

from samzapy import (
    BatchTask,
    DrainListenerTask,
    EndOfStreamListenerTask,
    InitableTask,
    MessageBatch,
    RequestScope,
    StreamTask,
    TimerTask,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.api.event_time import ClockListenerTask
from samzapy.container.tasks.synchronous import GatheredMessages
from samzapy.testing import TaskTestDriver, TestRunner

BARE = {key: value for key, value in JOB.items() if not key.startswith("stores.")}


class Noting(BatchTask, WindowableTask, EndOfStreamListenerTask, WatermarkListenerTask):
    """Notes its calls; the first message of a batch may be an order."""

    def __init__(self):
        self.calls = []

    def process_batch(self, batch, collector, coordinator):
        self.calls.append(list(batch.messages))
        collector.send_batch(OUT, None, batch.messages)
        if "commit" in batch.messages:
            coordinator.commit()
        if "shutdown" in batch.messages:
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)

    def window(self, collector, coordinator):
        self.calls.append("window")

    def on_end_of_stream(self, collector, coordinator):
        self.calls.append("end")
        collector.send_message(OUT, "end")

    def on_watermark(self, time_ms, collector, coordinator):
        self.calls.append(time_ms)


def driver_of(task=Noting, partitions=1, **keys):
    return TaskTestDriver(task, BARE | {k.replace("_", "."): v for k, v in keys.items()}, partitions=partitions)


def test_a_batch_is_what_a_poll_brings_of_one_partition():
    with driver_of(partitions=2) as driver:
        for n in range(6):
            driver.post("in", n, partition=n % 2)
        driver.run()
        assert [driver.task(n).calls for n in range(2)] == [[[0, 2, 4]], [[1, 3, 5]]]


def test_a_poll_brings_a_batch_task_more_unless_the_job_says():
    messages = list(range(2_500))
    with driver_of() as driver:
        driver.send_batch("in", None, messages)
        assert driver.task().calls == [messages]
    for key in ("task_poll_batch_size", "task_batch_max_messages"):
        with driver_of(**{key: "2000"}) as driver:
            driver.send_batch("in", None, messages)
            assert driver.task().calls == [messages[:2_000], messages[2_000:]]


def test_whether_a_batch_is_full_takes_no_look_at_what_it_gathers():
    held, looks = GatheredMessages(), []
    for _ in range(500):
        held.add(MessageBatch(None, [0], [None], [1], [0]), 0.0)
    sys.setprofile(lambda *call: looks.append(call))
    held.full(1_000)
    sys.setprofile(None)
    assert len(looks) < 10


GATHERING = {"task_batch_max_messages": "3", "task_batch_max_wait_ms": "200"}


def test_messages_wait_for_a_full_batch_or_for_the_longest_wait():
    with driver_of(**GATHERING) as driver:
        calls = driver.task().calls
        driver.send("in", 1)
        driver.advance(0.15)
        assert calls == []
        driver.send_batch("in", None, [2, 3, 4, 5])
        assert calls == [[1, 2, 3]]
        driver.advance(0.19)
        assert calls == [[1, 2, 3]]
        driver.advance(0.02)
        assert calls == [[1, 2, 3], [4, 5]]


def test_commits_and_windows_do_not_wait_for_gathered_messages():
    keys = dict.fromkeys(("task_window_ms", "task_commit_ms"), "1000") | {"task_batch_max_wait_ms": "9000"}
    with driver_of(**GATHERING | keys) as driver:
        driver.send("in", 1)
        driver.advance(2.5)
        assert driver.task().calls == ["window", "window"]
        driver.advance(7)
        assert driver.task().calls == ["window"] * 9 + [[1]]


def test_a_stop_leaves_gathered_messages_to_the_next_start():
    with driver_of(**GATHERING) as driver:
        driver.send_batch("in", None, [1, 2, 3, 4])
        driver.restart()
        assert driver.task().calls == []
        driver.advance(0.3)
        assert driver.task().calls == [[4]]


def test_the_end_of_the_inputs_comes_behind_gathered_messages():
    keys = {"task.batch.max.messages": "100", "task.batch.max.wait.ms": "600000"}
    run = TestRunner.of(Noting).with_config(BARE | keys).with_input("in", [1, 2, 3]).run()
    assert run.outputs("out").messages == [1, 2, 3, "end"]


TIMERS = {"stores.timers.factory": "timers", "stores.timers.changelog": "sys.timers-log"}


class Alarm(TimerTask, InitableTask, ClockListenerTask):
    """Sets a timer for each message that asks for one; echoes messages, timers and clocks."""

    def init(self, context):
        self.timers = context.task.timers
        self.seen = []

    def take(self, message):
        self.seen.append(message["id"])
        if "timer" in message:
            self.timers.schedule(message["id"], message["timer"])

    def on_timer(self, key, time_ms, collector, coordinator):
        self.seen.append(("timer", key))

    def on_clock(self, clock, collector, coordinator):
        """Makes the clock exact."""


class AlarmByMessage(Alarm, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.take(envelope.message)


class AlarmByBatch(Alarm, BatchTask):
    def process_batch(self, batch, collector, coordinator):
        for message in batch.messages:
            self.take(message)


def _alarms(task, runs):
    with TaskTestDriver(task, BARE | TIMERS) as driver:
        for messages in runs:
            driver.send_batch("in", None, messages, timestamps=[message["at"] for message in messages])
        return driver.task().seen


def test_a_timer_of_an_earlier_batch_fires_right_after_its_message():
    runs = [
        [{"id": 1, "at": 0, "timer": 25}, {"id": 2, "at": 5, "timer": 40}],
        [{"id": n, "at": 10 * n} for n in (1, 2, 3, 3, 4, 6)],
    ]
    expected = [1, 2, 1, 2, 3, ("timer", 1), 3, 4, ("timer", 2), 6]
    assert _alarms(AlarmByBatch, runs) == _alarms(AlarmByMessage, runs) == expected


class Ending(BatchTask, EndOfStreamListenerTask, DrainListenerTask):
    """Asks for a stop with its first batch; notes its calls."""

    calls: ClassVar[list] = []
    stop: ClassVar[list] = []

    def process_batch(self, batch, collector, coordinator):
        self.calls.append((batch.ssp.partition, list(batch.offsets)))
        for stop in self.stop:
            stop()

    def on_end_of_stream(self, collector, coordinator):
        self.calls.append("end")

    def on_drain(self, collector, coordinator):
        self.calls.append("drain")


@pytest.mark.parametrize("size", ["2", "100"])
def test_no_end_comes_before_gathered_messages_that_a_stop_leaves(tmp_path, size):
    keys = {"task.batch.max.messages": size, "task.batch.max.wait.ms": "60000"}
    job = MemoryJob(tmp_path, 2, Ending, **keys, **{"stores.counts.factory": "inmemory"})
    job.send(*((partition, "k", {"id": n}) for partition in range(2) for n in range(3)))
    container, _ = job.container()
    Ending.calls, Ending.stop = [], [container.stop]
    container.run()
    first = Ending.calls[0]
    assert Ending.calls == [first]
    Ending.calls, Ending.stop = [], []
    job.run()
    assert Ending.calls.count("end") == 2
    seen = [first, *(call for call in Ending.calls if call != "end")]
    processed = sorted((partition, offset) for partition, offsets in seen for offset in offsets)
    assert processed == [(partition, offset) for partition in range(2) for offset in range(3)]
