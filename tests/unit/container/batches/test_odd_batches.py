"""Batches with odd contents, and tasks that do odd things with them."""

import datetime as dt

import pyarrow as pa
from jobs.ledgers import JOB, OUT

from samzapy import BatchTask, InitableTask
from samzapy.api.system import OutgoingRecord
from samzapy.system.memory import MemorySystemFactory
from samzapy.testing import TaskTestDriver


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
