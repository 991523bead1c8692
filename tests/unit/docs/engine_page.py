"""The view and the engine of docs/how-to/extend/engine.md."""

import pytest
from first_seen import FirstSeen

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.testing import TaskTestDriver

NEW = SystemStream("memory", "new")
JOB = {
    "task.inputs": "memory.orders",
    "task.guarantee": "exactly-once",
    "systems.memory.samza.factory": "memory",
    "systems.memory.default.stream.samza.key.serde": "string",
    "systems.memory.default.stream.samza.msg.serde": "json",
    "stores.seen.factory": "first_seen:FirstSeenFactory",
    "stores.seen.changelog": "memory.seen",
}


class NewOrdersTask(StreamTask, InitableTask):
    def init(self, context):
        self.seen = context.get_store("seen", FirstSeen)

    def process(self, envelope, collector, coordinator):
        if self.seen.is_new(envelope.key):
            collector.send(OutgoingMessageEnvelope(NEW, envelope.message, key=envelope.key))


def test_an_order_that_comes_again_after_a_crash_is_not_new():
    with TaskTestDriver(NewOrdersTask, JOB) as driver:
        driver.send("orders", {"total": 5}, key="a")
        driver.commit()
        driver.crash()
        driver.restart()
        driver.send("orders", {"total": 5}, key="a")
        driver.commit()
        assert driver.committed("new").keys == ["a"]


VISITS = {
    "task.inputs": "memory.visits",
    "systems.memory.samza.factory": "memory",
    "systems.memory.default.stream.samza.key.serde": "string",
    "systems.memory.default.stream.samza.msg.serde": "json",
    "stores.visits.factory": "sqlite_engine:SqliteEngineFactory",
    "stores.visits.key.serde": "string",
    "stores.visits.msg.serde": "long",
    "stores.visits.changelog": "memory.changes",
}


class CountTask(StreamTask, InitableTask):
    def init(self, context):
        self.visits = context.get_store("visits")

    def process(self, envelope, collector, coordinator):
        self.visits.put(envelope.key, (self.visits.get(envelope.key) or 0) + 1)


@pytest.mark.parametrize("step", range(1, 8))
def test_counts_are_right_after_a_crash_at_any_step(step):
    with TaskTestDriver(CountTask, VISITS) as driver:
        for _ in range(3):
            driver.send("visits", {}, key="ann")
            driver.send("visits", {}, key="bob")
            driver.commit()
        driver.send("visits", {}, key="ann")
        driver.crash(at=f"commit.{step}")
        driver.restart()
        driver.commit()
        assert list(driver.store("visits").all()) == [("ann", 4), ("bob", 3)]
