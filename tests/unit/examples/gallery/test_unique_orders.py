"""What an at-least-once producer repeats is passed on once."""

import random
import uuid
from pathlib import Path

import pytest
from jobs.gallery_job import GalleryJob
from rigs.streams_of import StreamsOf, sent_again

from samzapy.config.loader import load_job
from samzapy.examples.gallery.unique_orders import Order
from samzapy.failpoints import arm, disarm
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

JOB = Path(__file__).parents[4] / "configs" / "unique-orders.properties"
CHANGELOG = "unique-orders-deduplication-changelog"
ONE = b'{"total":1}'


def orders_of(count):
    return [(str(uuid.UUID(int=number)).encode(), b'{"total":%d}' % number) for number in range(count)]


@pytest.fixture
def job(tmp_path):
    keys = {"systems.events.path": str(tmp_path / "local.db"), "job.logged.store.base.dir": str(tmp_path / "state")}
    job = load_job(JOB, keys | {"unique.orders.remembered": "200"})
    streams = StreamsOf(job, "events")
    for stream in ("orders", "unique-orders"):
        streams.create(stream, 2)
    return job


def test_an_order_that_comes_again_is_dropped(task_driver):
    driver = task_driver(None, JOB)
    for key, total in (("6f1c", 5), ("90ab", 7), ("6f1c", 5)):
        driver.send("orders", {"total": total}, key)
    assert driver.outputs("unique-orders").pairs == [("6f1c", Order(5)), ("90ab", Order(7))]


def run(job):
    return LocalRunner().run(prepare(job, until_end=True), RunOptions()).status.processed


def test_the_orders_of_the_gallery_come_out_once_each(tmp_path):
    job = GalleryJob(tmp_path, "unique-orders", "unique-orders")
    assert job.load() == job.run()
    arrived = [(message.key, message.value) for message in job.read("orders")]
    found = [(message.key, message.value) for message in job.read("unique-orders")]
    assert sorted(found, key=str) == sorted(dict(arrived).items(), key=str)
    assert len(found) < len(arrived)


def test_every_order_comes_out_once_and_the_store_stays_small(job):
    orders, streams = orders_of(3000), StreamsOf(job, "events")
    arrived = sent_again(orders, random.Random(1))
    assert len(arrived) > 1.1 * len(orders)
    half = len(arrived) // 2
    for part in (arrived[:half], arrived[half:]):
        streams.send("orders", part)
        assert run(job) == len(part)
    assert sorted(streams.read("unique-orders")) == sorted(orders)
    remembered = [key for key in streams.table(CHANGELOG) if key.startswith(b"key/")]
    assert len(remembered) == 2 * 200  # by two tasks
    assert {key for key, _ in streams.read(CHANGELOG) if key.startswith(b"key/")} > set(remembered)


def test_a_repetition_from_beyond_what_is_remembered_is_taken_for_new(job):
    streams = StreamsOf(job, "events")
    orders = [(b"first", ONE), *((b"%d" % n, ONE) for n in range(1000)), (b"first", ONE)]
    streams.send("orders", orders)
    run(job)
    assert [key for key, _ in streams.read("unique-orders")].count(b"first") == 2


def test_a_crash_in_the_middle_of_a_commit_passes_nothing_on_twice(job):
    orders, streams = orders_of(500), StreamsOf(job, "events")
    streams.send("orders", sent_again(orders, random.Random(2)))
    crashed = []

    def crash(point):
        crashed.append(point)
        raise KeyboardInterrupt

    arm("commit.4", 2, crash)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(job)
    finally:
        disarm()
    assert crashed
    run(job)
    assert sorted(streams.read("unique-orders")) == sorted(orders)
