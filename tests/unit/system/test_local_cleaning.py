"""Logs in a file are cleaned while they are written, in small steps."""

import sqlite3
import threading
from contextlib import closing

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.system.local import streams
from samzapy.system.local import streams as topic_module
from samzapy.system.local.factory import LocalSystemFactory
from samzapy.testing import ManualClock
from samzapy.verify.processes import until

SSP = SystemStreamPartition("local", "log", 0)
VALUE = b"v" * 2_000


@pytest.fixture(autouse=True)
def _due_early(monkeypatch):
    monkeypatch.setattr(topic_module, "LEAST_DIRTY", 500)
    monkeypatch.setattr(streams, "LEAST_DIRTY", 500)


class Local:
    def __init__(self, path):
        self.path = path
        self.clock = ManualClock()
        self.factory = LocalSystemFactory(self.clock)
        self.settings = SystemSettings("local", "", properties={"path": str(path)})

    def create(self, **config):
        with closing(self.factory.admin(self.settings, "a")) as admin:
            admin.create(StreamSpec("log", 1, {key.replace("_", "."): value for key, value in config.items()}))

    def producer(self, transactional_id=None):
        return self.factory.producer(self.settings, "p", transactional_id)

    def records(self):
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute("SELECT count(*) FROM records").fetchone()[0]

    def read(self):
        with closing(self.factory.consumer(self.settings, "c")) as consumer:
            consumer.start({SSP: 0})
            found = {}
            while batches := consumer.poll(0.0, 100_000):
                for batch in batches:
                    found.update(zip(batch.keys, batch.values, strict=True))
            return found


@pytest.fixture
def local(tmp_path):
    return Local(tmp_path / "local.db")


def send(producer, keys, value=VALUE):
    producer.send([OutgoingRecord("log", b"%d" % key, value, 0) for key in keys])
    producer.flush()


def test_a_compacted_log_stays_small_while_its_producer_goes_on(local):
    local.create(cleanup_policy="compact")
    with closing(local.producer()) as producer:
        for _ in range(20):
            send(producer, range(200))
        until(lambda: local.records() < 1_500, lambda: f"{local.records()} records")
        assert set(local.read()) == {b"%d" % key for key in range(200)}


def test_old_records_are_dropped_while_their_producer_goes_on(local):
    local.create(cleanup_policy="delete", retention_ms="1000")
    with closing(local.producer()) as producer:
        send(producer, range(600))
        local.clock.advance(5.0)
        send(producer, range(600, 1_200))
        until(lambda: local.records() == 600, lambda: f"{local.records()} records")


def test_a_log_that_keeps_everything_is_left_alone(local):
    local.create()
    with closing(local.producer()) as producer:
        for _ in range(5):
            send(producer, range(400))
    assert local.records() == 2_000


def test_what_a_transaction_wrote_is_cleaned_too(local):
    local.create(cleanup_policy="compact")
    producer = local.producer("t")
    producer.init_transactions()
    with closing(producer):
        for _ in range(20):
            producer.begin()
            producer.send([OutgoingRecord("log", b"%d" % key, VALUE, 0) for key in range(200)])
            producer.commit()
        until(lambda: local.records() < 1_500, lambda: f"{local.records()} records")
    assert len(local.read()) == 200


def test_an_open_transaction_is_not_compacted_into(local, monkeypatch):
    local.create(cleanup_policy="compact")
    with closing(local.producer()) as plain, closing(local.producer("t")) as transactional:
        send(plain, range(600))
        transactional.init_transactions()
        transactional.begin()
        transactional.send([OutgoingRecord("log", b"1", b"not decided", 0)])
        transactional.flush()
        send(plain, range(600))
        plain.close()
        transactional.abort()
    assert local.read()[b"1"] == VALUE


def test_other_writers_get_their_turn_between_the_steps(local, monkeypatch):
    monkeypatch.setattr(streams, "_STEP", 50)
    local.create(cleanup_policy="compact")
    with closing(local.producer()) as producer:
        for _ in range(20):
            send(producer, range(200))
        with closing(local.producer()) as other:
            send(other, range(1_000, 1_010))
    assert len(local.read()) == 210


def test_a_cleaner_that_fails_costs_the_space_and_not_the_producer(local, monkeypatch, caplog):
    def broken(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(streams, "clean", broken)
    local.create(cleanup_policy="compact")
    with closing(local.producer()) as producer:
        for _ in range(4):
            send(producer, range(400))
    assert local.records() == 1_600
    assert "its logs are not cleaned for now: disk I/O error" in caplog.text


def test_a_producer_leaves_no_thread_behind(local):
    local.create(cleanup_policy="compact")
    before = threading.active_count()
    with closing(local.producer()) as producer:
        for _ in range(10):
            send(producer, range(400))
    assert threading.active_count() == before
