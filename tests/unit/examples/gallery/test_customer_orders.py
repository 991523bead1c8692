"""Orders joined with a table that arrives as its changes."""

from collections import defaultdict

import pytest
from jobs.gallery_job import CONFIGS, GalleryJob

from samzapy.examples.gallery.customer_orders import Change, Customer, CustomerOrder, Order

JOB = CONFIGS / "gallery" / "customer-orders.properties"
ANN, MOVED = Customer("Ann", "NO", "free"), Customer("Ann", "JP", "free")
SMALL, LARGE = Order("1", 100), Order("2", 9_000)


@pytest.fixture
def driver(task_driver):
    return task_driver(None, JOB)


def sent(driver):
    return driver.outputs("customer-orders").pairs


def test_an_order_gets_the_row_as_it_is_now(driver):
    driver.send("customers", Change("r", ANN), "7")
    driver.send("customers-orders", SMALL, "7")
    driver.send("customers", Change("u", MOVED), "7")
    driver.send("customers-orders", LARGE, "7")
    assert sent(driver) == [("7", CustomerOrder(SMALL, ANN)), ("7", CustomerOrder(LARGE, MOVED))]


def test_what_debezium_writes_besides_the_row_is_ignored(driver):
    row = {"name": "Ann", "country": "NO", "plan": "free"}
    driver.send("customers", {"op": "u", "before": row, "after": row, "source": {"lsn": 7}, "ts_ms": 1}, "7")
    driver.send("customers-orders", SMALL, "7")
    assert sent(driver) == [("7", CustomerOrder(SMALL, ANN))]


@pytest.mark.parametrize("deletion", [Change("d"), None], ids=["change", "tombstone"])
def test_a_deleted_customer_is_gone(driver, deletion):
    driver.send("customers", Change("r", ANN), "7")
    driver.send("customers", deletion, "7")
    driver.send("customers-orders", SMALL, "7")
    assert sent(driver) == []


def test_an_order_without_a_value_deletes_no_customer(driver):
    driver.send("customers", Change("r", ANN), "7")
    driver.send("customers-orders", None, "7")
    driver.send("customers-orders", SMALL, "7")
    assert sent(driver) == [("7", CustomerOrder(SMALL, ANN))]


def test_a_change_of_a_customer_without_waiting_orders_writes_nothing_about_orders(driver):
    driver.send("customers", Change("r", ANN), "7")
    driver.commit()
    assert driver.changelog("waiting") == []


@pytest.mark.parametrize("step", range(1, 8))
def test_orders_wait_for_their_customer_through_a_crash_after_any_step_of_a_commit(driver, step):
    driver.send("customers-orders", SMALL, "7")
    driver.commit()
    driver.send("customers-orders", LARGE, "7")
    driver.crash(at=f"commit.{step}")
    driver.restart()
    driver.send("customers", Change("c", ANN), "7")
    driver.commit()
    expected = [("7", CustomerOrder(SMALL, ANN)), ("7", CustomerOrder(LARGE, ANN))]
    assert driver.committed("customer-orders").pairs == expected
    assert list(driver.store("waiting").all()) == []


def test_each_order_has_the_last_row_of_its_customer_and_the_others_wait(tmp_path):
    job = GalleryJob(tmp_path, "gallery/customer-orders", "customer-orders")
    assert job.load() == job.run()
    rows = {key: change and change["after"] for key, change, _ in job.read("customers")}
    joined, waiting = [], defaultdict(list)
    for key, order, _ in job.read("customers-orders"):
        if rows.get(key):
            joined.append((key, {"order": order, "customer": rows[key]}))
        else:
            waiting[key].append(order)
    found = [(key, value) for key, value, _ in job.read("customer-orders")]
    assert sorted(found, key=str) == sorted(joined, key=str)
    assert job.table("waiting") == waiting
    assert waiting
