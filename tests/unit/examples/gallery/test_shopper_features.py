"""The feature store: a row by hand, all rows against sums over the input, and lookups while the job runs."""

from collections import defaultdict
from importlib import import_module

import pytest
from jobs.gallery_job import CONFIGS, GalleryJob

import samzapy
from samzapy.examples.gallery.shopper_features import Features, Order
from samzapy.verify.processes import until

JOB = CONFIGS / "gallery" / "shopper-features.properties"
WEEK_MS = 7 * 86_400_000
T = 1_767_600_000_000


def test_an_order_counts_half_a_week_later(task_driver):
    driver = task_driver(None, JOB)
    driver.send("shop-orders", Order(1_000, "books"), "ann", timestamp=T)
    driver.send("shop-orders", Order(300, "food"), "ann", timestamp=T + WEEK_MS)
    driver.send("shop-orders", Order(50, "food"), "bob", timestamp=T + WEEK_MS)
    features = driver.store("features").get("ann")
    assert features == Features(2, 1_300, 800.0, T + WEEK_MS, {"books": 1, "food": 1})


def test_after_a_crash_each_order_counts_once(task_driver):
    driver = task_driver(None, JOB)
    driver.send("shop-orders", Order(1_000, "books"), "ann", timestamp=T)
    driver.commit()
    driver.send("shop-orders", Order(300, "food"), "ann", timestamp=T)
    driver.crash(at="commit.4")
    driver.restart()
    assert driver.store("features").get("ann").orders == 2
    driver.commit()
    assert [(key, row.orders) for key, row in driver.changelog("features").pairs] == [("ann", 1), ("ann", 2)]


def rows_of(orders):
    """The features of every shopper, from the complete list of orders."""
    by_shopper = defaultdict(list)
    for shopper, order, time_ms in orders:
        by_shopper[shopper].append((order, time_ms))
    for shopper, found in by_shopper.items():
        last_ms = found[-1][1]
        names = [order["category"] for order, _ in found]
        yield (
            shopper,
            {
                "orders": len(found),
                "cents": sum(order["cents"] for order, _ in found),
                "recent_cents": pytest.approx(
                    sum(order["cents"] * 2 ** ((at - last_ms) / WEEK_MS) for order, at in found)
                ),
                "last_order_ms": last_ms,
                "categories": {name: names.count(name) for name in names},
            },
        )


def test_the_rows_are_sums_over_all_orders(tmp_path):
    job = GalleryJob(tmp_path, "gallery/shopper-features")
    assert job.load() == job.run()
    assert job.table("features") == dict(rows_of(job.read("shop-orders")))
    assert len(job.table("features")) > 100


def test_a_model_looks_rows_up_while_the_job_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(JOB.parent)
    look_up = import_module("look_up")
    job = GalleryJob(tmp_path, "gallery/shopper-features")
    count = job.load()
    expected = dict(rows_of(job.read("shop-orders")))
    with samzapy.submit(job.file, runner="local", **job.keys) as running:
        until(lambda: running.page, lambda: running.status)
        with samzapy.query(job.file, running.page) as lookups:
            features = lookups.store("features")
            until(lambda: sum(entry.value["orders"] for entry in features.range()) == count, lambda: running.status)
            assert {entry.key: entry.value for entry in features.range()} == expected
            some = list(expected)[::25]
            assert [look_up.features_of(shopper, running.page) for shopper in some] == [expected[each] for each in some]
            assert look_up.features_of("a stranger", running.page) is None
