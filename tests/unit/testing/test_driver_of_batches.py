"""TaskTestDriver with a batch task: what it sends together is a batch, and everything else is as for other tasks."""

import pytest
from tested_tasks import JOB

from samzapy import BatchTask, InitableTask, SystemStream
from samzapy.testing import TaskTestDriver

OUT = SystemStream("sys", "out")


class Noting(BatchTask, InitableTask):
    """Notes its batches, counts keys, and does what the last message says."""

    def init(self, context):
        self.counts = context.get_store("counts")
        self.batches = []

    def process_batch(self, batch, collector, coordinator):
        self.batches.append(batch)
        held = self.counts.get_all(set(batch.keys))
        for key in batch.keys:
            held[key] = (held[key] or 0) + 1
        self.counts.put_all(held)
        collector.send_batch(OUT, batch.keys, batch.messages, inputs=batch.offsets)
        if batch.messages[-1] == "commit":
            coordinator.commit()


@pytest.fixture
def driver():
    with TaskTestDriver(Noting, JOB) as made:
        yield made


def sizes(driver):
    return [len(batch) for batch in driver.task().batches]


def test_what_is_sent_together_is_a_batch_and_what_is_sent_alone_is_one_too(driver):
    driver.send_batch(
        "in", ["a", "b", "a"], ["x", "y", "z"], timestamps=[1, None, 3], headers=[None, [("h", b"1")], None]
    )
    driver.send("sys.in", "x", "b")
    assert sizes(driver) == [3, 1]
    batch = driver.task().batches[0]
    assert (batch.keys, batch.messages, batch.offsets) == (["a", "b", "a"], ["x", "y", "z"], [0, 1, 2])
    assert list(batch.timestamps) == [1, driver.clock.wall_ms(), 3]
    assert [None if each is None else list(each) for each in batch.headers] == [None, [("h", b"1")], None]
    assert driver.outputs("out").pairs == [("a", "x"), ("b", "y"), ("a", "z"), ("b", "x")]
    assert {key: driver.store("counts").get(key) for key in "ab"} == {"a": 2, "b": 2}


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once", "exactly-once"])
def test_a_crash_at_a_step_and_a_restart_keep_the_state(guarantee):
    with TaskTestDriver(Noting, JOB, {"task.guarantee": guarantee}) as driver:
        driver.send_batch("in", ["a"] * 3, ["x"] * 3)
        driver.crash(at="commit.4")
        driver.post("in", "y", "a")
        driver.restart()
        assert sizes(driver) == [4]
        driver.crash(at="commit.5", during=lambda: driver.send("in", "commit", "a"))
        driver.restart()
        assert driver.store("counts").get("a") == 5
        driver.commit()
        outputs = driver.committed("out").messages
        assert (
            outputs == ["x", "x", "x", "y", "commit"]
            if guarantee == "exactly-once"
            else set(outputs) == {"x", "y", "commit"}
        )
