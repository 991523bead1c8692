"""A stop while the container waits to try a message again: it ends, whatever the message is part of."""

from typing import ClassVar

import pytest
from jobs.memory_job import MemoryJob

from samzapy import CoroutineTask, InitableTask
from samzapy.errors import TaskFailed


def run_to_stop(job, task):
    task.tries = 0
    task.container, _ = job.container(until_end=False)
    return task.container.run()


class StubbornCoroutine(CoroutineTask, InitableTask):
    """Has its container stopped by the first try at a message that always fails."""

    tries: ClassVar[int] = 0
    container = None

    def init(self, context):
        self.counts = context.get_store("counts")

    async def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, envelope.offset)
        if envelope.key == "bad":
            kind = type(self)
            kind.tries += 1
            if kind.tries == 1:
                kind.container.stop()
            raise ValueError("told to")


def stubborn_job(folder, task=StubbornCoroutine, **keys):
    return MemoryJob(folder, partitions=1, task=task, **{"task.shutdown.ms": "30000"} | keys)


@pytest.mark.parametrize("concurrency", ["1", "5"])
@pytest.mark.parametrize("then", [" then skip", ""])
def test_a_stop_leaves_an_asynchronous_message_to_be_repeated_to_the_next(tmp_path, concurrency, then):
    keys = {"task.error.process.policy": f"retry(3, 60s){then}", "task.max.concurrency": concurrency}
    job = stubborn_job(tmp_path, **keys)
    job.send((0, "a", {"id": 1}), (0, "bad", {"id": 2}))
    for _ in range(2):  # the second start tries it again, by the whole policy
        report = run_to_stop(job, StubbornCoroutine)
        assert (StubbornCoroutine.tries, report.metrics["errors"].get("process.skipped", 0)) == (1, 0)
        assert job.changelog() == {"a": 0} | ({} if concurrency == "1" else {"bad": 1})


def test_a_stop_with_messages_done_behind_a_waiting_one_makes_no_commit(tmp_path):
    keys = {"task.error.process.policy": "retry(3, 60s) then skip", "task.max.concurrency": "5"}
    job = stubborn_job(tmp_path, **keys, **{"task.shutdown.ms": "100"})
    job.send((0, "bad", {"id": 1}), (0, "a", {"id": 2}))
    for _ in range(2):
        with pytest.raises(TaskFailed, match=r"messages are still in flight 100 ms .*1 to be tried again"):
            run_to_stop(job, StubbornCoroutine)
        assert StubbornCoroutine.tries == 1
        assert job.changelog() == {}


def test_a_stop_waits_for_a_repetition_that_other_messages_have_overtaken(tmp_path):
    keys = {"task.error.process.policy": "retry(2, 1ms) then skip", "task.max.concurrency": "5"}
    job = stubborn_job(tmp_path, **keys)
    job.send((0, "bad", {"id": 1}), (0, "a", {"id": 2}))
    assert run_to_stop(job, StubbornCoroutine).metrics["errors"]["process.skipped"] == 1
    assert StubbornCoroutine.tries == 3
    assert job.changelog() == {"bad": 0, "a": 1}
