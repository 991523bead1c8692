"""Draining: everything that was there is processed, the tasks are told, and all of it is committed."""

import asyncio
from typing import ClassVar

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy import CoroutineTask, DrainListenerTask, EndOfStreamListenerTask, OutgoingMessageEnvelope, StreamTask
from samzapy.errors import TaskFailed


class Draining(EndOfStreamListenerTask, DrainListenerTask):
    log: ClassVar[list] = []
    calls: ClassVar[list] = []
    while_at: ClassVar[dict] = {}

    def see(self, envelope, collector):
        number = envelope.message["id"]
        self.log.append(number)
        collector.send(OutgoingMessageEnvelope(OUT, {"id": number}, key=envelope.key))
        if number in self.while_at:
            self.while_at[number]()

    def on_end_of_stream(self, collector, coordinator):
        self.log.append("end")

    def on_drain(self, collector, coordinator):
        self.log.append("drain")
        collector.send(OutgoingMessageEnvelope(OUT, {"id": "drained"}, key="k"))
        if "drain" in self.while_at:
            self.while_at["drain"]()


class DrainingTask(Draining, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.see(envelope, collector)


class DrainingCoroutine(Draining, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        for _ in range(3):
            await asyncio.sleep(0)
        self.see(envelope, collector)


TASKS = [DrainingTask, DrainingCoroutine]


def job_of(folder, task=DrainingTask, partitions=1, **keys):
    Draining.log.clear()
    Draining.while_at.clear()
    own = {"stores.counts.factory": "inmemory", "task.max.concurrency": "5"}
    return MemoryJob(folder, partitions=partitions, task=task, **own | keys)


def send(job, *numbers, partitions=1):
    job.send(*[(n % partitions, "k", {"id": n}) for n in numbers])


def drained(job, **overrides):
    """Run an endless container that is asked to drain from its first report on."""
    container, coordinator = job.container(until_end=False, **overrides)
    coordinator.drain()
    return container.run()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "guarantee",
    [
        "exactly-once",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("at-most-once", "at-least-once", "effectively-once")),
    ],
)
def test_a_drain_processes_tells_and_commits_what_was_there_and_no_more(tmp_path, task, guarantee):
    job = job_of(tmp_path, task, partitions=3, **{"task.guarantee": guarantee, "task.commit.ms": "20000"})
    send(job, *range(30), partitions=3)
    Draining.while_at[29] = lambda: send(job, 100, 101)
    assert drained(job).phase == "done"
    assert sorted(Draining.log, key=str) == sorted([*range(30), *["drain"] * 3], key=str)
    assert [message for _, message in job.outputs()].count({"id": "drained"}) == 3
    Draining.log.clear()
    job.run()
    assert sorted(Draining.log, key=str) == [100, 101, "end", "end", "end"]


def test_a_job_at_its_ends_drains_at_once_and_commits_what_on_drain_did(tmp_path):
    job = job_of(tmp_path)
    drained(job)
    assert Draining.log == ["drain"]
    assert job.outputs() == [("k", {"id": "drained"})]


def test_a_crash_while_draining_drains_again_from_the_last_commit(tmp_path):
    job = job_of(tmp_path, **{"task.guarantee": "exactly-once", "task.commit.ms": "20000"})
    send(job, 1, 2)

    def crash():
        raise ValueError("told to")

    Draining.while_at["drain"] = crash
    with pytest.raises(TaskFailed, match="on_drain failed: ValueError: told to"):
        drained(job)
    Draining.while_at.clear()
    drained(job)
    assert [message["id"] for _, message in job.outputs()] == [1, 2, "drained"]
