"""Asynchronous tasks: a call whose work is left in the awaitable that it returns."""

import pytest

from samzapy import AsyncStreamTask, CoroutineTask, InitableTask, WindowableTask
from samzapy.errors import TaskFailed
from samzapy.testing import TaskTestDriver

JOB = {
    "job.name": "awaitables",
    "task.inputs": "sys.in",
    "task.window.ms": "1000",
    "systems.sys.samza.factory": "memory",
    "systems.sys.default.stream.samza.msg.serde": "json",
}


async def forgotten():
    """Nobody waits for it."""


class Forgets(CoroutineTask, InitableTask, WindowableTask):
    """Forgets to await in the method named."""

    where = ""

    def forget(self, where):
        return forgotten() if where == self.where else None

    async def init(self, context):
        return self.forget("init")

    async def process(self, envelope, collector, coordinator):
        return self.forget("process")

    async def window(self, collector, coordinator):
        return self.forget("window")


class ForgetsInCallbacks(AsyncStreamTask):
    where = ""

    def process_async(self, envelope, collector, coordinator, callback):
        if self.where == "process_async":
            return forgotten()
        callback.complete(forgotten)
        return None


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize(
    ("task", "where", "named"),
    [
        (Forgets, "init", "init"),
        (Forgets, "process", r"process of sys\.in\[0\]@0"),
        (Forgets, "window", "window"),
        (ForgetsInCallbacks, "process_async", r"process_async of sys\.in\[0\]@0"),
        (ForgetsInCallbacks, "then", r"complete\(then\) of sys\.in\[0\]@0"),
    ],
)
def test_an_awaitable_that_nobody_awaits_ends_the_attempt(task, where, named, policy, monkeypatch):
    monkeypatch.setattr(task, "where", where)

    def run():
        with TaskTestDriver(task, JOB | {"task.error.process.policy": policy}) as driver:
            driver.send("in", 1)
            driver.window()

    with pytest.raises(TaskFailed, match=rf"^Partition 0: {named} returned a coroutine, which is never awaited"):
        run()
