from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from samzapy.errors import SerdeError
from samzapy.examples.sales import Sale, SalesTask, Sold
from samzapy.testing import TaskTestDriver

JOB = Path(__file__).parents[3] / "configs" / "sales.properties"


def sell(driver, *sales):
    driver.send_batch("sales", [product for product, *_ in sales], [Sale(*sale) for sale in sales], partition=0)


def sums(driver):
    """The newest sum of each product that was sent."""
    found = driver.outputs("sold").messages
    return {each["product"]: (each["quantity"], each["cents"]) for each in found}


def test_the_sales_of_a_batch_are_one_sum_a_product():
    with TaskTestDriver(SalesTask, JOB) as driver:
        sell(driver, ("tea", 2, 700), ("cup", 1, 950), ("tea", 1, 350))
        assert sums(driver) == {"tea": (3, 1050), "cup": (1, 950)}
        assert Counter(driver.outputs("sold").keys) == {"tea": 1, "cup": 1}
        sell(driver, ("tea", 5, 1750))
        assert sums(driver)["tea"] == (8, 2800)
        assert driver.store("sold").get("tea") == Sold(8, 2800)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_the_sums_are_exact_after_a_crash(guarantee):
    with TaskTestDriver(SalesTask, JOB, {"task.guarantee": guarantee}) as driver:
        sell(driver, ("tea", 2, 700), ("cup", 1, 950))
        driver.commit()
        sell(driver, ("tea", 1, 350))
        driver.crash()
        driver.restart()
        driver.commit()
        assert sums(driver) == {"tea": (3, 1050), "cup": (1, 950)}


def test_a_tombstone_sells_nothing():
    with TaskTestDriver(SalesTask, JOB) as driver:
        driver.send_batch("sales", ["tea"] * 3, [Sale("tea", 1, 350), None, Sale("tea", 1, 350)], partition=0)
        driver.send("sales", None, "cup", partition=0)
        assert sums(driver) == {"tea": (2, 700)}


def test_a_sale_of_another_shape_is_named():
    with (
        TaskTestDriver(SalesTask, JOB) as driver,
        pytest.raises(SerdeError, match=r"sales\[0\]@0: message: \$\.quantity"),
    ):
        driver.send("sales", Sale("tea", "two", 700), "tea", partition=0)
