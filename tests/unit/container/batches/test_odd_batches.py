"""Batches with odd contents, and tasks that do odd things with them."""

import datetime as dt
import itertools
import operator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from ledgers import JOB, OUT

from samzapy import BatchTask, InitableTask
from samzapy.api.system import OutgoingRecord
from samzapy.errors import TaskFailed
from samzapy.system.memory import MemorySystemFactory
from samzapy.testing import TaskTestDriver


@dataclass
class Sale:
    product: str
    cents: int


class Frames(BatchTask[str, Sale], InitableTask):
    """Keeps the columns of batches and of their last messages."""

    def init(self, context):
        self.kept = []

    def process_batch(self, batch, collector, coordinator):
        self.kept += [each.to_arrow().schema for each in (batch, batch[-1:])]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"task.batch.max.messages": "10", "task.batch.max.wait.ms": "1"},
        {"task.error.deserialize.policy": "skip"},
    ],
)
def test_tombstones_alone_have_the_columns_of_the_inputs_class(keys):
    with TaskTestDriver(Frames, JOB | keys) as driver:
        for message in ({"product": "tea", "cents": 350}, None, None):
            driver.post("in", message, key="k")
        driver.run()
        driver.advance(1)
        driver.send("in", None, key="k")
        driver.advance(1)
        (whole, *others) = driver.task().kept
    assert whole.names == ["key", "product", "cents", "offset", "timestamp"]
    assert others == [whole] * 3


class Doing(BatchTask, InitableTask):
    """Does what the test says."""

    def init(self, context):
        self.store = context.get_store("ledger")
        self.kept = []

    def process_batch(self, batch, collector, coordinator):
        type(self).do(self, batch, collector)


def driver_of(do, **keys):
    Doing.do = staticmethod(do)
    return TaskTestDriver(Doing, JOB | {key.replace("_", "."): value for key, value in keys.items()})


def test_nulls_tombstones_empty_keys_and_bad_records_in_the_middle_of_a_batch():
    def do(task, batch, collector):
        task.kept.append([(each.key, each.message, each.headers) for each in batch])

    with driver_of(do, task_error_deserialize_policy="skip") as driver:
        producer = MemorySystemFactory().producer(driver.job.systems["sys"], "test")
        records = [
            (b"a", b"1"),
            (None, b"2"),
            (b"", b"3"),
            (b"b", None),
            (b"c", b"{"),
            (None, None),
            (b"\xff", b"4"),
            (b"d", b"null"),
        ]
        producer.send([OutgoingRecord("in", key, value, 0) for key, value in records])
        producer.flush()
        producer.close()
        driver.run()
        seen = [row for batch in driver.task().kept for row in batch]
        assert seen == [
            ("a", 1, None),
            (None, 2, None),
            ("", 3, None),
            ("b", None, None),
            (None, None, None),
            ("d", None, None),
        ]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_combine_that_raises_half_way_changes_nothing(guarantee, policy):
    def do(task, batch, collector):
        task.store.merge_all(dict(zip(batch.keys, batch.messages, strict=True)), operator.add)

    with driver_of(do, task_guarantee=guarantee, task_error_process_policy=policy) as driver:
        driver.send_batch("in", ["a", "b", "c"], [1, 2, 3])
        driver.commit()
        if policy == "fail":
            with pytest.raises(TaskFailed, match=r"sys\.in\[0\]@4 failed: TypeError"):
                driver.send_batch("in", ["a", "b", "c"], [1, "x", 3])
            assert sorted(driver.changelog("ledger").pairs) == [("a", 1), ("b", 2), ("c", 3)]
            return
        driver.send_batch("in", ["a", "b", "c"], [1, "x", 3])
        assert dict(driver.store("ledger").all()) == {"a": 2, "b": 2, "c": 6}


def test_a_task_that_changes_its_columns_and_keeps_its_batches_harms_itself_alone():
    def do(task, batch, collector):
        task.kept.append(batch)
        collector.send_batch(OUT, batch.keys, batch.messages, inputs=batch.offsets)
        if isinstance(batch.keys, list):
            batch.keys.reverse()
        list(batch.messages).clear()

    with driver_of(do, task_guarantee="exactly-once") as driver:
        driver.send_batch("in", ["a", "b", "c"], [1, 2, 3])
        driver.send_batch("in", ["d", "e"], [4, 5])
        driver.commit()
        assert driver.committed("out").pairs == [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]
        assert [list(batch.messages) for batch in driver.task().kept] == [[1, 2, 3], [4, 5]]
        assert [list(batch.offsets) for batch in driver.task().kept] == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_outputs_before_an_exception_are_taken_back(policy):
    def do(task, batch, collector):
        collector.send_batch(OUT, batch.keys, batch.messages)
        if 2 in batch.messages:
            raise ValueError("told to")

    with driver_of(do, task_error_process_policy=policy) as driver:
        if policy == "fail":
            with pytest.raises(TaskFailed):
                driver.send_batch("in", ["a", "b", "c"], [1, 2, 3])
            assert driver.outputs("out").messages == []
        else:
            driver.send_batch("in", ["a", "b", "c"], [1, 2, 3])
            assert driver.outputs("out").messages == [1, 3]


@pytest.mark.parametrize("policy", [{}, {"task_error_produce_policy": "skip"}])
def test_an_endless_generator_is_no_column(policy):
    def do(task, batch, collector):
        collector.send_batch(OUT, None, itertools.count())

    expected = "TypeError: expected columns that have a length, such as lists, got count" if not policy else None
    with driver_of(do, **policy) as driver, pytest.raises(TaskFailed, match=expected):
        driver.send("in", 1)


def test_a_table_with_nulls_dictionaries_and_times_is_sent():
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    table = pa.table(
        {
            "key": pa.array(["a", None, "b", "a"]).dictionary_encode(),
            "n": pa.array([1, None, 3, 4]),
            "day": pa.array([moment, None, moment, moment], pa.timestamp("us", "UTC")),
            "at": pa.array([1_000_001, None, 3_999_999, 4_000_000], pa.timestamp("us")),
        }
    )

    def do(task, batch, collector):
        collector.send_arrow(OUT, table, key="key", timestamp="at")

    with driver_of(do) as driver:
        driver.send("in", 1, partition=0)
        found = {
            each.message["n"]: (each.key, each.message["key"], each.message["day"], each.event_time)
            for each in driver.outputs("out")
        }
        text = "2026-01-01T00:00:00+00:00"
        assert found == {
            1: ("a", "a", text, 1000),
            None: (None, None, None, driver.clock.wall_ms()),
            3: ("b", "b", text, 3999),
            4: ("a", "a", text, 4000),
        }
