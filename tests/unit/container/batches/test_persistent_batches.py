"""A PersistentBatchTask has the state of a PersistentTask, whatever fails or crashes."""

import pytest
from jobs.ledgers import OUT

from samzapy.operators.persistent import Count, Keyed, NonWindowState, PersistentBatchTask, PersistentTask
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


def test_outputs_of_a_batch_sent_before_a_crash_are_not_sent_again():
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
