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
        if "fail" in batch.messages:
            raise ValueError("told to")
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


def sizes(driver, partition=0):
    return [len(batch) for batch in driver.task(partition).batches]


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


def test_posted_messages_are_a_batch_of_each_partition():
    with TaskTestDriver(Noting, JOB, partitions={"in": 3}) as driver:
        for partition in (0, 2, 2, 0, 2):
            driver.post("in", "x", "a", partition=partition)
        assert sizes(driver) == []
        driver.run()
        assert [sizes(driver, partition) for partition in range(3)] == [[2], [], [3]]
        assert [driver.store("counts", task=f"Partition {n}").get("a") for n in range(3)] == [2, None, 3]
        driver.commit()
        assert driver.changelog("counts", 2).pairs == [("a", 3)]


def test_a_batch_that_waits_comes_when_its_time_has_passed_on_the_clock():
    with TaskTestDriver(Noting, JOB, {"task.batch.max.wait.ms": "300", "task.batch.max.messages": "4"}) as driver:
        driver.send("in", "x", "a")
        driver.advance(0.2)
        driver.send("in", "x", "a")
        assert sizes(driver) == []
        driver.advance(0.1)
        assert sizes(driver) == [2]
        driver.send_batch("in", ["a"] * 5, ["x"] * 5)
        assert sizes(driver) == [2, 4]
        driver.stop()
        driver.restart()
        driver.advance(0.3)
        assert driver.store("counts").get("a") == 7


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
