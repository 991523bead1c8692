"""`systems.S.database.*` and `streams.X.database.*`."""

import pytest

from samzapy.config.guarantee_warnings import guarantee_warnings
from samzapy.config.streams.systems import TableConfig, database_config
from samzapy.system.clients import load_factory

SHOP = {
    "task.inputs": "shop.customers",
    "systems.shop.samza.factory": "database",
    "systems.shop.database.url": "sqlite:///shop.db",
    "streams.customers.samza.system": "shop",
    "streams.customers.database.order.by": "version",
}


def tables(config):
    return database_config(config.systems["shop"]).tables


def test_a_table_needs_a_url_and_an_order_and_the_rest_has_defaults(load):
    config = load(SHOP)
    assert tables(config) == {
        "customers": TableConfig(
            stream="customers", prefix="streams.customers.database.", table="customers", order_by="version"
        )
    }
    assert config.warnings == ()


def test_everything_that_is_wrong_is_told_together(problems):
    changes = {
        "systems.shop.database.url": None,
        "streams.customers.database.order.by": None,
        "streams.customers.database.orderby": "id",
        "streams.customers.database.partitions": "0",
        "streams.customers.database.poll.interval.ms": "soon",
        "streams.customers.database.safety.lag.ms": "-1",
    }
    assert problems(SHOP | changes) == [
        "streams.customers.database.orderby: unknown key; did you mean database.order.by?, got 'id'",
        "streams.customers.database.order.by: required, e.g. id",
        "streams.customers.database.partitions: expected an integer from 1 to 10000, got '0'",
        "streams.customers.database.poll.interval.ms: expected an integer from 1 to 86400000, got 'soon'",
        "streams.customers.database.safety.lag.ms: expected an integer from 0 to 86400000, got '-1'",
        "systems.shop.database.url: required, e.g. sqlite:///shop.db",
    ]


def test_an_input_that_has_no_keys_at_all_needs_an_order(problems):
    assert problems(SHOP | {"task.inputs": "shop.customers,shop.orders"}) == [
        "streams.orders.database.order.by: required, e.g. id"
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://ann:s3/cret@db/shop", "postgresql+psycopg://ann:********@db/shop"),
        ("postgresql://db/shop?user=ann&password=s3cret", "postgresql://db/shop?user=ann&password=********"),
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("postgresql://db:5432/shop", "postgresql://db:5432/shop"),
    ],
)
def test_a_password_in_a_url_is_never_shown(load, problems, url, shown):
    config = load(SHOP | {"systems.shop.database.url": url})
    assert database_config(config.systems["shop"]).url == url
    assert config.resolved.shown()["systems.shop.database.url"] == shown
    assert repr(config.systems["shop"].properties) == repr({"database.url": shown})
    assert f"got {shown!r}" in problems(SHOP | {"task.commit.ms": url})[0]


def test_a_system_that_cannot_be_sent_to_weakens_no_exactly_once(load):
    keys = {"task.guarantee": "exactly-once", "job.default.system": "kafka", "task.commit.ms": "1000"}
    assert not [each for each in guarantee_warnings(load(SHOP | keys), load_factory) if "shop" in each.key]
