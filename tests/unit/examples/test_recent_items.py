"""An engine of one's own, tested with a task that does nothing but use it."""

from __future__ import annotations

import pytest

from samzapy import InitableTask, StreamTask
from samzapy.errors import ConfigError
from samzapy.examples.recent_items import RecentItems
from samzapy.testing import TaskTestDriver

JOB = {
    "task.inputs": "sys.items",
    "systems.sys.default.stream.samza.key.serde": "string",
    "systems.sys.default.stream.samza.msg.serde": "json",
    "stores.recent.factory": "samzapy.examples.recent_items:RecentItemsFactory",
    "stores.recent.base": "inmemory",
    "stores.recent.recent.size": "3",
    "stores.recent.changelog": "sys.recent-log",
}


class Appending(StreamTask, InitableTask):
    def init(self, context):
        self.recent = context.get_store("recent", RecentItems)

    def process(self, envelope, collector, coordinator):
        self.recent.append(envelope.key, envelope.message)


@pytest.fixture
def driver():
    with TaskTestDriver(Appending, JOB) as made:
        yield made


def append(driver, key, *items):
    for item in items:
        driver.send("items", item, key)


def test_the_newest_items_come_first_and_the_oldest_go(driver):
    append(driver, "a", 1, 2)
    assert driver.store("recent").last("a") == [2, 1]
    append(driver, "a", 3, 4, 5)
    assert driver.store("recent").last("a") == [5, 4, 3]
    assert driver.store("recent").last("b") == []


def test_a_commit_sends_the_items_that_came_and_not_all_that_are_kept(driver):
    append(driver, "a", 1, 2, 3)
    driver.commit()
    append(driver, "a", 4)
    driver.commit()
    assert driver.changelog("recent").pairs[4:] == [("i a 0", 4), ("n a", 4)]


def test_a_crash_takes_back_what_was_not_committed_and_reads_it_again(driver):
    append(driver, "a", 1, 2)
    driver.commit()
    append(driver, "a", 3)
    driver.crash()
    driver.restart()
    assert driver.store("recent").last("a") == [3, 2, 1]


@pytest.mark.parametrize("size", [None, "0", "many"])
def test_a_size_that_is_none_is_refused(size):
    keys = {key: value for key, value in JOB.items() if key != "stores.recent.recent.size"}
    given = {} if size is None else {"stores.recent.recent.size": size}
    with pytest.raises(ConfigError, match=r"stores\.recent\.recent\.size: an integer >= 1"):
        TaskTestDriver(Appending, keys | given)
