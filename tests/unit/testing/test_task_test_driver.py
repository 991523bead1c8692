from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tested_tasks import JOB, Counting, Doubling, HoldingBack

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.errors import ConfigError, SerdeError, TaskFailed, UnknownPartition
from samzapy.system.local.factory import MemoryCluster
from samzapy.testing import ManualClock, TaskTestDriver

ROCKSDB = {"stores.counts.factory": "rocksdb"}
SMALL_CACHE = {"stores.counts.object.cache.size": "2", "stores.counts.write.batch.size": "1"}


@pytest.fixture
def driver():
    with TaskTestDriver(Counting, JOB) as made:
        yield made


def send_keys(driver, keys):
    for key in keys:
        driver.send("in", "x", key)


def test_a_message_is_processed_when_send_returns(driver):
    driver.send("in", "x", "a")
    driver.send("sys.in", "x", "a")
    assert driver.outputs("out").pairs == [("a", 1), ("a", 2)]
    assert driver.store("counts").get("a") == 2


def test_windows_and_commits_come_when_the_clock_says_so(driver):
    send_keys(driver, "a")
    driver.advance(4.999)
    assert driver.task().windows == 0
    driver.advance(0.001)
    assert driver.task().windows == 1
    assert driver.changelog("counts") == []
    driver.advance(17)
    assert driver.task().windows == 4
    assert driver.changelog("counts").pairs == [("a", 1)]
    assert driver.clock.monotonic() == pytest.approx(22.0)


def test_a_message_has_the_time_of_the_clock_or_its_own(driver):
    driver.clock.advance(1.5)
    driver.send("in", "x", "a")
    driver.send("in", "x", "a", timestamp=12, headers=[("h", b"1")])
    sent = driver.outputs("in")
    assert [each.event_time for each in sent] == [1_700_000_001_500, 12]
    assert [each.headers for each in sent] == [None, [("h", b"1")]]


def test_partitions_have_tasks_and_stores_of_their_own():
    with TaskTestDriver(Counting, JOB, partitions={"in": 3}) as driver:
        for partition in (0, 2, 2):
            driver.send("in", "x", "a", partition=partition)
        assert [driver.store("counts", number).get("a") for number in range(3)] == [1, None, 2]
        assert driver.store("counts", task="Partition 2").get("a") == 2
        driver.commit()
        assert driver.changelog("counts", 2).pairs == [("a", 2)]
        with pytest.raises(
            ConfigError, match="partition: is 0 tasks; name one of: Partition 0, Partition 1, Partition 2"
        ):
            driver.store("counts", 3)
        with pytest.raises(UnknownPartition, match=r"sys.in\[3\]: the stream has partitions 0 to 2"):
            driver.send("in", "x", "a", partition=3)


def test_a_key_goes_to_the_partition_that_a_java_producer_would_choose():
    with TaskTestDriver(Counting, JOB, partitions=4) as driver:
        send_keys(driver, ("21", "foobar", "a-little-bit-long-string"))
        # Kafka's own UtilsTest: murmur2 -973932308, -790332482, -985981536; positive, modulo 4.
        assert [each.ssp.partition for each in sorted(driver.outputs("in"), key=lambda e: e.key)] == [0, 0, 2]


@pytest.mark.parametrize("factory", ["memory", "rocksdb"])
def test_a_crash_now_loses_what_was_not_committed_and_reads_it_again(factory):
    with TaskTestDriver(Counting, JOB, SMALL_CACHE | {"stores.counts.factory": factory}) as driver:
        send_keys(driver, "abcdef")
        driver.commit()
        send_keys(driver, "abcdefg")
        driver.crash()
        driver.post("in", "x", "h")
        driver.restart()
        assert {key: driver.store("counts").get(key) for key in "abgh"} == {"a": 2, "b": 2, "g": 1, "h": 1}


def test_a_crash_during_the_start_is_survived_by_the_next_one():
    with TaskTestDriver(Counting, JOB, ROCKSDB | {"task.guarantee": "exactly-once"}) as driver:
        driver.send("in", "x", "a")
        for point in ("start.2", "start.3", "start.6", "start.7"):
            driver.crash(at=point)
            assert not driver.running
        driver.restart()
        driver.commit()
        assert driver.committed("out").messages == [1]


def test_a_task_hears_of_a_stop_and_not_of_a_crash(driver):
    task = driver.task()
    driver.crash()
    assert not task.closed
    driver.restart()
    task = driver.task()
    driver.stop()
    assert task.closed
    assert not driver.running


def test_a_fail_point_that_is_not_passed_is_said_and_the_task_runs_on(driver):
    with pytest.raises(RuntimeError, match=r"fail point 'commit\.4' was not reached"):
        driver.crash(at="commit.4")
    driver.send("in", "x", "a")
    assert driver.outputs("out").messages == [1]


def test_what_the_task_raises_is_raised_by_send_and_a_restart_goes_on_from_the_commit(driver):
    driver.send("in", "commit", "a")
    driver.send("in", "x", "b")
    with pytest.raises(TaskFailed, match=r"Partition 0: process of sys.in\[0\]@2 failed: ValueError: told to"):
        driver.send("in", "fail", "c")
    with pytest.raises(RuntimeError, match="restart"):
        driver.send("in", "x", "d")
    with pytest.raises(TaskFailed, match=r"sys.in\[0\]@2"):
        driver.restart()
    # "b" and the message that fails came in one poll, and what a failed slice has sent is not handed over.
    assert driver.outputs("out").pairs == [("a", 1), ("b", 1)]


def test_a_task_that_votes_to_shut_down_is_stopped_with_a_commit(driver):
    driver.send("in", "shutdown", "a")
    assert not driver.running
    assert driver.changelog("counts").pairs == [("a", 1)]


def test_every_problem_of_the_job_is_reported_together():
    with pytest.raises(ConfigError) as caught:
        TaskTestDriver(Counting, {"task.commit.ms": "soon", "stores.counts.factory": "memory"})
    assert {problem.key for problem in caught.value.problems} >= {"task.commit.ms", "task.inputs"}


def test_an_object_in_place_of_the_class_is_refused():
    with (
        pytest.raises(ConfigError, match=r"^task: expected a class, not an object, got '<"),
        TaskTestDriver(object(), {"task.inputs": "sys.in"}),
    ):
        pass


def test_a_message_that_the_serde_does_not_take_is_refused_and_nothing_happens(driver):
    with pytest.raises(SerdeError, match=r"sys\.in: message"):
        driver.send("in", object(), "a")
    assert driver.running
    assert driver.outputs("in") == []


def test_what_a_test_puts_into_a_store_is_committed_as_the_tasks_own(driver):
    driver.store("counts").put("a", 41)
    driver.commit()
    driver.crash()
    driver.restart()
    driver.send("in", "x", "a")
    assert driver.outputs("out").messages == [42]


def test_an_unknown_store_is_refused_with_the_known_ones(driver):
    for ask in (driver.store, driver.changelog):
        with pytest.raises(ConfigError, match=r"stores\.count\.factory: no such store; the job has: counts"):
            ask("count")


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_coroutines_have_ended_when_send_returns(guarantee):
    with TaskTestDriver(Doubling, JOB, {"task.guarantee": guarantee}) as driver:
        driver.send("in", 21)
        assert driver.outputs("out").messages == [42]
        driver.crash(at="commit.4")
        driver.restart()
        driver.commit()
        assert set(driver.committed("out").messages) == {42}


def test_callbacks_can_be_completed_by_the_test_in_any_order():
    with TaskTestDriver(HoldingBack, JOB, {"task.max.concurrency": "3"}) as driver:
        for message in "abc":
            driver.post("in", message)
        assert driver.turn()
        task = driver.task()
        task.answer(2)
        task.answer(0)
        assert driver.turn()
        assert driver.outputs("out").messages == ["c", "a"]
        task.answer(1)
        driver.run()
        assert driver.outputs("out").messages == ["c", "a", "b"]


def test_a_task_that_does_not_come_to_rest_is_an_error_that_says_so():
    class Echoing(StreamTask):
        def process(self, envelope, collector, coordinator):
            collector.send(OutgoingMessageEnvelope(SystemStream("sys", "in"), envelope.message))

    with TaskTestDriver(Echoing, JOB, patience_s=0.0) as driver:
        with pytest.raises(TimeoutError, match=r"does not come to rest within 0 s of CPU time: Partition 0 after"):
            driver.send("in", "a")
        assert not driver.running


@pytest.mark.parametrize("ask", [TaskTestDriver.run, TaskTestDriver.commit, TaskTestDriver.stop])
def test_a_callback_that_never_comes_is_an_error_that_says_so(ask):
    with TaskTestDriver(HoldingBack, JOB, patience_s=0.5) as driver:
        driver.post("in", "a")
        driver.turn()
        with pytest.raises(TimeoutError, match=r"no message in flight has ended within 0\.5 s"):
            ask(driver)
        assert not driver.running


def test_nothing_is_left_when_the_driver_is_closed():
    before, known = threading.active_count(), len(MemoryCluster._named)
    driver = TaskTestDriver(Counting, JOB, ROCKSDB)
    folder = Path(driver.job.logged_store_base_dir).parent
    assert folder.exists()
    driver.close()
    driver.close()
    assert not folder.exists()
    assert threading.active_count() == before
    assert len(MemoryCluster._named) == known


def test_a_start_that_fails_leaves_nothing_either():
    class Failing(StreamTask, InitableTask):
        def init(self, context):
            raise ValueError("no")

        def process(self, envelope, collector, coordinator):
            raise AssertionError

    known = len(MemoryCluster._named)
    with pytest.raises(TaskFailed, match="init failed: ValueError: no"):
        TaskTestDriver(Failing, JOB)
    assert len(MemoryCluster._named) == known


def test_the_test_names_the_streams_that_match_a_regular_expression():
    job = {**JOB, "task.inputs": "sys.in-.*"}
    with TaskTestDriver(Counting, job, partitions={"in-eu": 2, "sys.in-us": 1}) as driver:
        driver.send("in-eu", "x", "a", partition=1)
        driver.send("sys.in-us", "x", "a")
        assert [driver.store("counts", number).get("a") for number in range(2)] == [1, 1]
    with pytest.raises(
        ConfigError, match=r"^task\.inputs: name the streams of the test, as in partitions=\{'orders-eu': 2\}"
    ):
        TaskTestDriver(Counting, job)


def test_the_clock_goes_back_only_by_the_time_of_day():
    clock = ManualClock(1_000)
    clock.advance(5)
    with pytest.raises(ValueError, match="cannot go back to 4"):
        clock.advance_to(4)
    clock.set_wall(7)
    assert (clock.monotonic(), clock.wall_ms()) == (5.0, 7)
