"""A method that may send and returns something instead: the result would go nowhere."""

import pytest

from samzapy import (
    AsyncStreamTask,
    BatchTask,
    CoroutineTask,
    InitableTask,
    StreamTask,
    WindowableTask,
)
from samzapy.errors import TaskFailed
from samzapy.testing import TaskTestDriver

JOB = {
    "job.name": "returned",
    "task.inputs": "sys.in",
    "task.window.ms": "1000",
    "systems.sys.samza.factory": "memory",
    "systems.sys.default.stream.samza.msg.serde": "json",
}


class Other:
    """What a method returns."""


class Returning(StreamTask, WindowableTask, InitableTask):
    where = ""

    def returned(self, where):
        return Other() if where == self.where else None

    def init(self, context):
        return self.returned("init")

    def process(self, envelope, collector, coordinator):
        return self.returned("process")

    def window(self, collector, coordinator):
        return self.returned("window")


class ReturningOfABatch(BatchTask):
    def process_batch(self, batch, collector, coordinator):
        return [Other()]


class ReturningLater(CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        return Other()


class ReturningAtOnce(AsyncStreamTask):
    def process_async(self, envelope, collector, coordinator, callback):
        callback.complete(Other)
        return Other()


def drive(task, policy="fail"):
    with TaskTestDriver(task, JOB | {"task.error.process.policy": policy}) as driver:
        driver.send("in", 1)
        driver.window()


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize(
    ("task", "where", "named"),
    [
        (Returning, "process", r"process of sys\.in\[0\]@0 returned an Other"),
        (Returning, "window", "window returned an Other"),
        (ReturningOfABatch, "", r"process_batch of sys\.in\[0\]@0 returned a list"),
        (ReturningLater, "", r"process of sys\.in\[0\]@0 returned an Other"),
        (ReturningAtOnce, "", r"process_async of sys\.in\[0\]@0 returned an Other"),
    ],
)
def test_a_result_that_is_returned_ends_the_attempt(task, where, named, policy, monkeypatch):
    monkeypatch.setattr(task, "where", where, raising=False)
    message = rf"^Partition 0: {named}, which goes nowhere: call collector\.send\(\.\.\.\), and return nothing$"
    with pytest.raises(TaskFailed, match=message):
        drive(task, policy)


def test_what_init_returns_means_nothing(monkeypatch):
    monkeypatch.setattr(Returning, "where", "init")
    drive(Returning)
