"""What a job does with a table besides processing its rows: fill a store with it, without a changelog."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from rigs.streams_of import StreamsOf

from samzapy import InitableTask, OutgoingMessageEnvelope, SideInputsProcessor, StreamTask, SystemStream
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare


class Latest(SideInputsProcessor):
    def process(self, message, store):
        return [(message.key, message.message)]


class WithCity(StreamTask, InitableTask):
    """Adds what the table says of a customer to each of the customer's orders."""

    def init(self, context):
        self.customers = context.get_store("customers")

    def process(self, envelope, collector, coordinator):
        order = {"order": envelope.message, "customer": self.customers.get(envelope.key)}
        collector.send(OutgoingMessageEnvelope(SystemStream("events", "out"), order, key=envelope.key))


@pytest.fixture
def shop(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE customers (id TEXT PRIMARY KEY, city TEXT, version INTEGER NOT NULL UNIQUE)")
        yield connection


@pytest.fixture
def job(tmp_path, shop):
    job = load_job(
        {
            "job.name": "enrich",
            "job.default.system": "events",
            "job.logged.store.base.dir": str(tmp_path / "state"),
            "job.non-logged.store.base.dir": str(tmp_path / "state"),
            "task.class": "test_database_inputs:WithCity",
            "task.inputs": "events.orders",
            "systems.events.samza.factory": "local",
            "systems.events.path": str(tmp_path / "local.db"),
            "systems.events.default.stream.samza.key.serde": "string",
            "systems.events.default.stream.samza.msg.serde": "json",
            "systems.events.default.stream.samza.offset.default": "oldest",
            "systems.shop.samza.factory": "database",
            "systems.shop.database.url": f"sqlite:///{tmp_path}/shop.db",
            "streams.customers.samza.system": "shop",
            "streams.customers.samza.key.serde": "string",
            "streams.customers.samza.msg.serde": "json",
            "streams.customers.database.order.by": "version",
            "streams.customers.database.columns": "city",
            "streams.customers.database.partitions": "2",
            "stores.customers.factory": "rocksdb",
            "stores.customers.key.serde": "string",
            "stores.customers.msg.serde": "json",
            "stores.customers.side.inputs": "customers",
            "stores.customers.side.inputs.processor.factory": "test_database_inputs:Latest",
        }
    )
    streams = StreamsOf(job, "events")
    for stream in ("orders", "out"):
        streams.create(stream, 2)
    return job


def test_a_store_without_a_changelog_is_filled_from_the_table_on_every_start(job, shop, tmp_path):
    streams, names = StreamsOf(job, "events"), [f"c{number}" for number in range(9)]
    expected = []
    for version, city in ((1, "Oslo"), (2, "Rome")):
        shop.executemany(
            "INSERT OR REPLACE INTO customers VALUES (?, ?, ?)",
            [(name, city, version * 100 + number) for number, name in enumerate(names)],
        )
        streams.send("orders", [(name.encode(), b"%d" % version) for name in names])
        assert LocalRunner().run(prepare(job, until_end=True), RunOptions()).status.processed == len(names)
        expected += [(name, {"order": version, "customer": {"city": city}}) for name in names]
        assert sorted(read(streams), key=str) == sorted(expected, key=str)
        shutil.rmtree(tmp_path / "state")


def read(streams):
    return [(key.decode(), json.loads(value)) for key, value in streams.read("out")]
