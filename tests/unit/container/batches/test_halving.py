"""A batch that fails is undone and halved until the messages that fail stand alone."""

import sqlite3
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jobs.ledgers import JOB, OUT
from jobs.memory_job import MemoryJob

from samzapy import BatchTask, InitableTask, SystemStream
from samzapy.api.system import StreamSpec
from samzapy.errors import RecordTooLarge, SerdeError
from samzapy.sinks.sql import SqlSink
from samzapy.testing import TaskTestDriver

SKIP = {"task.error.process.policy": "skip"}


class Summing(BatchTask, InitableTask):
    """Sums by key, sends each message, and fails at the end over messages below 0."""

    def init(self, context):
        self.sums = context.get_store("ledger")
        self.calls = 0

    def process_batch(self, batch, collector, coordinator):
        self.calls += 1
        self.sums.merge_all(Counter(batch.keys), lambda one, other: one + other)
        if batch.messages[0] % 2:
            self.sums.delete("other")
        else:
            self.sums.put("other", batch.messages[-1])
        for key, message in zip(batch.keys, batch.messages, strict=True):
            collector.send_message(OUT, message, key)
        if min(batch.messages) < 0:
            raise ValueError("told to")


@pytest.fixture(scope="module")
def summing():
    with TaskTestDriver(Summing, JOB | SKIP) as driver:
        yield driver


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(signs=st.lists(st.booleans(), min_size=1, max_size=40))
def test_others_are_processed_once_and_in_order_whichever_messages_fail(summing, signs):
    driver, task = summing, summing.task()
    before, sent, calls = dict(driver.store("ledger").all()), len(driver.outputs("out")), task.calls
    messages = [n + 1 if good else -n - 1 for n, good in enumerate(signs)]
    keys = [f"k{n % 3}" for n in range(len(messages))]
    driver.send_batch("in", keys, messages, partition=0)
    good = [(key, message) for key, message in zip(keys, messages, strict=True) if message > 0]
    assert driver.outputs("out").pairs[sent:] == good
    counted = Counter({key: n for key, n in before.items() if key != "other"}) + Counter(key for key, _ in good)
    found = dict(driver.store("ledger").all())
    found.pop("other", None)
    assert found == dict(counted)
    bad = len(messages) - len(good)
    assert task.calls - calls <= 1 + 2 * bad * (1 + len(messages).bit_length())


@pytest.mark.parametrize("mode", ["transactional", "upsert"])
def test_the_rows_of_a_batch_that_fails_are_taken_back(tmp_path, mode):
    file = tmp_path / "rows.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE seen (id INTEGER PRIMARY KEY, total INTEGER)")

    class Writing(Summing):
        def init(self, context):
            super().init(context)
            key = ("id",) if mode == "upsert" else ()
            self.sink = SqlSink(lambda: sqlite3.connect(file), "seen", ("id", "total"), mode=mode, key=key)
            context.task.register_sink(self.sink)

        def process_batch(self, batch, collector, coordinator):
            for envelope in batch:
                self.sink.write((abs(envelope.message), len(batch)), envelope)
            if mode == "upsert":
                self.sink.write((-1, min(batch.messages)))
            super().process_batch(batch, collector, coordinator)

    _known(Writing)
    with TaskTestDriver(Writing, JOB | SKIP) as driver:
        driver.send_batch("in", ["a"] * 6, [1, 2, 3, 4, 5, -6], partition=0)
        driver.commit()
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT id, total FROM seen ORDER BY id").fetchall()
    expected = [(1, 3), (2, 3), (3, 3), (4, 1), (5, 1)]
    assert rows == ([(-1, 5), *expected] if mode == "upsert" else expected)


def _known(task):
    """The job file names a class, so it must be found in this module."""
    task.__module__, task.__qualname__ = __name__, task.__name__
    globals()[task.__name__] = task


class Swallowing(BatchTask):
    """Sends one message after the other, and goes on after an error."""

    def process_batch(self, batch, collector, coordinator):
        for key, message in zip(batch.keys, batch.messages, strict=True):
            with suppress(SerdeError, RecordTooLarge):
                output = {"odd": {1}, "large": "x" * 2_000_000}.get(message, message)
                collector.send_message(OUT, output, key)


@pytest.mark.parametrize(
    ("message", "policy"), [("odd", "task.error.serialize.policy"), ("large", "task.error.produce.policy")]
)
def test_a_refused_output_meets_its_policy_though_the_task_catches_it(message, policy):
    """The batch gives its refused output no input, so the search must find it."""
    keys = {policy: "dead-letter", "task.dead.letter.stream": "sys.letters"}
    with TaskTestDriver(Swallowing, JOB | keys) as driver:
        # The stream of outputs has no limit before it exists, and an attempt asks once.
        driver.send_batch("in", ["first"], ["w"], partition=0)
        driver.commit()
        driver.restart()
        driver.send_batch("in", list("abcd"), ["x", message, "y", "z"], partition=0)
        driver.commit()
        assert driver.committed("out").pairs == [("first", "w"), ("a", "x"), ("c", "y"), ("d", "z")]
        assert [letter.message for letter in driver.committed("letters")] == [message]


class InPlaceTask(BatchTask, InitableTask):
    """Changes values in place, and sends what it is told to."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def process_batch(self, batch, collector, coordinator):
        for envelope in batch:
            held = self.counts.get(envelope.key) or {"count": 0}
            held["count"] += 1
            self.counts.put(envelope.key, held)
        outputs = {"odd": object(), "huge": "x" * 2_000_000}
        messages = [message["id"] for message in batch.messages]
        keys = [None if message == "keyless" else "a" for message in messages]
        collector.send_batch(
            SystemStream("mem", "table"), keys, [outputs.get(message, message) for message in messages]
        )


@pytest.mark.parametrize(("stage", "bad"), [("serialize", "odd"), ("produce", "huge"), ("produce", "keyless")])
def test_a_message_counts_once_though_its_batch_was_halved_over_an_output(tmp_path, stage, bad):
    job = MemoryJob(tmp_path, 1, InPlaceTask, **{f"task.error.{stage}.policy": "skip"})
    job.admin.create(StreamSpec("table", 1, {"cleanup.policy": "compact"}))
    job.send(*((0, "a", {"id": message}) for message in ["x", "x", "x", "x", bad, "x", "x"]))
    job.run()
    assert job.changelog() == {"a": {"count": 7}}
    assert job.read("table") == [(0, "a", b'"x"')] * 6
