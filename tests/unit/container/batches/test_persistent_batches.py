"""A PersistentBatchTask has the state of a PersistentTask, whatever fails or crashes."""

from contextlib import suppress

import pytest
from ledgers import OUT

from samzapy.errors import SerdeError, TaskFailed
from samzapy.operators.persistent import (
    Count,
    Keyed,
    Min,
    NonWindowState,
    PersistentBatchTask,
    PersistentTask,
    WindowState,
)
from samzapy.testing import TaskTestDriver

JOB = {
    "task.inputs": "sys.in",
    "task.commit.ms": "20000",
    "systems.sys.default.stream.samza.key.serde": "string",
    "systems.sys.default.stream.samza.msg.serde": "json",
    "state.checkpoint.interval.ms": "10",
}


class Messages(PersistentTask):
    def persistent_state(self):
        return NonWindowState(Keyed(Count()))

    def process_message(self, state, message):
        state.update(message.event_time, (message.key, message.message))
        self.collector.send_message(OUT, {1} if message.message == "odd" else message.message, message.key)
        if message.message == "fail":
            raise ValueError("told to")


class Batches(PersistentBatchTask):
    def persistent_state(self):
        return NonWindowState(Keyed(Count()))

    def process_messages(self, state, batch):
        state.add_all(batch, value=list(zip(batch.keys, batch.messages, strict=True)))
        outputs = [{1} if message == "odd" else message for message in batch.messages]
        self.collector.send_batch(OUT, batch.keys, outputs, inputs=batch.offsets)
        if "fail" in batch.messages:
            raise ValueError("told to")


def send(driver, numbers, odd=()):
    messages = [
        "fail" if n % 7 == 3 and "fail" in odd else "odd" if n % 5 == 2 and "odd" in odd else n for n in numbers
    ]
    driver.send_batch("in", ["abc"[n % 3] for n in numbers], messages, partition=0, timestamps=[n * 3 for n in numbers])


POLICIES = {
    "none": ({}, ()),
    "process skip": ({"task.error.process.policy": "skip"}, ("fail",)),
    "serialize skip": ({"task.error.serialize.policy": "skip"}, ("odd",)),
    "both": ({"task.error.process.policy": "skip", "task.error.serialize.policy": "skip"}, ("fail", "odd")),
}


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once", "effectively-once", "exactly-once"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_state_is_that_of_the_messages_over_crashes(guarantee, policy):
    keys, odd = POLICIES[policy]
    found = []
    for task in (Messages, Batches):
        with TaskTestDriver(task, JOB | keys | {"task.guarantee": guarantee}) as driver:
            send(driver, range(20), odd)
            driver.commit()
            send(driver, range(20, 33), odd)
            driver.crash()
            driver.restart()
            send(driver, range(33, 40), odd)
            driver.commit()
            driver.restart()
            found.append((driver.task().state.value, driver.committed("out").pairs))
    assert found[0] == found[1]


def test_outputs_of_a_batch_that_were_sent_before_a_crash_are_not_sent_again():
    """The last commit is later than the last checkpoint, so a part of the batch is read again for its state alone."""
    with TaskTestDriver(Batches, JOB | {"task.guarantee": "exactly-once"}) as driver:
        send(driver, range(8))
        driver.commit()
        driver.send_batch("in", ["a"] * 4, [8, 9, 10, 11], partition=0, timestamps=[21] * 4)
        driver.commit()
        driver.crash()
        driver.post("in", 12, "a", partition=0, timestamp=22)
        driver.restart()
        driver.commit()
        assert sorted(driver.committed("out").messages) == list(range(13))
        assert sum(driver.task().state.value.values()) == 13


def test_a_batch_that_fails_names_its_message():
    with (
        TaskTestDriver(Batches, JOB) as driver,
        pytest.raises(TaskFailed, match=r"process_batch of sys\.in\[0\]@3 failed"),
    ):
        send(driver, range(20), ("fail",))


class Waiting(Batches):
    async def process_messages(self, state, batch):
        """Never awaited."""


def test_process_messages_is_no_coroutine_function():
    with pytest.raises(TaskFailed, match="process_messages must not be a coroutine function"):
        TaskTestDriver(Waiting, JOB)


class Swallowing(Batches):
    """Lets no failed output through."""

    def process_messages(self, state, batch):
        with suppress(SerdeError):
            super().process_messages(state, batch)


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once"])
def test_a_batch_that_is_undone_over_an_output_counts_once(guarantee):
    found = []
    for task in (Messages, Swallowing):
        keys, odd = POLICIES["serialize skip"]
        with TaskTestDriver(task, JOB | keys | {"task.guarantee": guarantee}) as driver:
            send(driver, range(20), odd)
            found.append((driver.task().state.value, driver.outputs("out").pairs))
    assert found[0] == found[1]


def smallest(windowed):
    return WindowState(Keyed(Min()), 1_000) if windowed else NonWindowState(Keyed(Min()))


class SmallestOfMessages(PersistentTask):
    windowed = False

    def persistent_state(self):
        return smallest(self.windowed)

    def process_message(self, state, message):
        for item in message.message:
            state.update(message.event_time, tuple(item))


class SmallestOfWindows(SmallestOfMessages):
    windowed = True


class SmallestOfBatches(PersistentBatchTask):
    windowed = False

    def persistent_state(self):
        return smallest(self.windowed)

    def process_messages(self, state, batch):
        state.add_all(batch, value=lambda items: tuple(items[0]))
        if any(len(items) > 1 for items in batch.messages):
            state.add_all(batch, value=lambda items: tuple(items[-1]))


class SmallestOfWindowsOfBatches(SmallestOfBatches):
    windowed = True


@pytest.mark.parametrize("task", [SmallestOfMessages, SmallestOfWindows, SmallestOfBatches, SmallestOfWindowsOfBatches])
def test_a_message_that_does_not_add_up_changes_nothing_and_the_next_ones_count(task):
    odd = [[["a", 0], ["b", "text"]], [["c", 3], ["a", "text"]], [["a"]], [[["unhashable"], 1]]]
    with TaskTestDriver(task, JOB | {"task.error.process.policy": "skip"}) as driver:
        driver.send("in", [["a", 5], ["b", 5]], "k", timestamp=100)
        driver.send_batch(
            "in", ["k"] * 6, [odd[0], [["a", 4]], odd[1], odd[2], odd[3], [["b", 3]]], timestamps=[101] * 6
        )
        assert driver.task().state.value == {"a": 4, "b": 3}
