"""Under the policy `fail` the error names the message that fails, found by halving the batch it came in."""

import operator
import re
from collections import Counter

import pytest
from jobs.ledgers import JOB, OUT

from samzapy import BatchTask, InitableTask, StreamTask
from samzapy.errors import SerdeError, StoreRefused, TaskFailed
from samzapy.testing import TaskTestDriver

GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]
MOST = 3


class Limited(BatchTask, InitableTask):
    """Counts keys, and refuses the message that brings a key beyond the limit: so the order and the state decide."""

    def init(self, context):
        self.counts = context.get_store("ledger")
        self.sizes = []

    def process_batch(self, batch, collector, coordinator):
        self.sizes.append(len(batch))
        self.counts.merge_all(Counter(batch.keys), operator.add)
        collector.send_batch(OUT, batch.keys, batch.messages, inputs=batch.offsets)
        too_many = {key: count for key, count in self.counts.get_all(set(batch.keys)).items() if count > MOST}
        if too_many:
            raise ValueError(f"too many: {sorted(too_many.items())}")


class LimitedMessages(StreamTask, InitableTask):
    def init(self, context):
        self.counts = context.get_store("ledger")

    def process(self, envelope, collector, coordinator):
        count = (self.counts.get(envelope.key) or 0) + 1
        self.counts.put(envelope.key, count)
        collector.send_message(OUT, envelope.message, envelope.key)
        if count > MOST:
            raise ValueError(f"too many: {[(envelope.key, count)]}")


def failure_of(task, keys, **more):
    """The error's text, and what is committed after it."""
    settings = JOB | {key.replace("_", "."): value for key, value in more.items()}
    with TaskTestDriver(task, settings) as driver:
        driver.send_batch("in", ["a", "b"], [-2, -1])
        driver.commit()
        with pytest.raises(TaskFailed) as caught:
            driver.send_batch("in", keys, list(range(len(keys))))
        assert not driver.running
        text = re.sub(r" \(test_failing_batches\.py:\d+\)", "", str(caught.value)).replace("process_batch", "process")
        return text, driver.committed("out").pairs, driver.changelog("ledger").pairs


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_batch_ends_the_attempt_and_commits_as_its_messages_would(guarantee):
    keys = "abcabcdefgabcbdh"
    found = failure_of(Limited, keys, task_guarantee=guarantee)
    assert found == failure_of(LimitedMessages, keys, task_guarantee=guarantee)
    assert "process of sys.in[0]@12 failed: ValueError: too many: [('a', 4)]" in found[0]


def test_the_search_calls_each_message_about_twice_at_most():
    with TaskTestDriver(Limited, JOB) as driver:
        task = driver.task()
        with pytest.raises(TaskFailed, match=r"sys\.in\[0\]@1003 failed"):
            driver.send_batch("in", [str(n) for n in range(1000)] + ["x"] * 4, range(1004))
        assert sum(task.sizes) <= 3 * 1004
        assert len(task.sizes) <= 1 + 2 * (1004).bit_length()


class Together(Limited):
    def process_batch(self, batch, collector, coordinator):
        if len(batch) > 4:
            raise ValueError("too long")
        super().process_batch(batch, collector, coordinator)


def test_what_no_half_fails_with_names_the_batch():
    with TaskTestDriver(Together, JOB) as driver, pytest.raises(TaskFailed, match=r"@0 to 7 failed: ValueError: too"):
        driver.send_batch("in", list("abcdefgh"), list(range(8)))


class Sending(Limited):
    """Sends what the messages say, or puts it."""

    def process_batch(self, batch, collector, coordinator):
        outputs = [{1} if message == "odd" else message for message in batch.messages]
        collector.send_batch(OUT, batch.keys, outputs)
        self.counts.put_all(
            {key: None if message == "none" else 1 for key, message in zip(batch.keys, batch.messages, strict=True)}
        )
        if "unhashable" in batch.messages:
            self.counts.merge_all({("a", "b"): 1}, operator.add)


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        ("odd", SerdeError, r"key='c', message=\{1\}"),
        ("none", StoreRefused, r"while processing sys\.in\[0\]@2"),
        ("unhashable", SerdeError, r"while processing sys\.in\[0\]@2"),
    ],
)
def test_what_does_not_serialize_or_is_refused_is_found_too(message, error, text):
    with TaskTestDriver(Sending, JOB) as driver, pytest.raises(error, match=text):
        driver.send_batch("in", list("abcdef"), ["x", "x", message, "x", "x", "x"])
