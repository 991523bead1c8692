"""The end of the inputs: told once a run, as far as commits have it, whatever crashes come after."""

from typing import ClassVar

import pytest
from jobs.memory_job import OUT, MemoryJob, Run

from samzapy import DrainListenerTask, EndOfStreamListenerTask, InitableTask, OutgoingMessageEnvelope, StreamTask
from samzapy.api.task import CoroutineTask
from samzapy.errors import TaskFailed


class Totalling(InitableTask, EndOfStreamListenerTask, DrainListenerTask):
    """Sends a total at its end, with a commit. The second task that is told its end fails as often as it is told to."""

    calls: ClassVar[list] = []
    failures: ClassVar[list] = []
    stops: ClassVar[list] = []

    def init(self, context):
        self.name = context.task.task_name
        self.total = 0

    def on_end_of_stream(self, collector, coordinator):
        self.calls.append((self.name, "end"))
        if len(self.calls) > 1 and self.failures:
            raise self.failures.pop()
        collector.send(OutgoingMessageEnvelope(OUT, self.total, key=self.name))
        coordinator.commit()
        if self.stops:
            coordinator.shutdown()

    def on_drain(self, collector, coordinator):
        self.on_end_of_stream(collector, coordinator)


class TotallingTask(Totalling, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.total += 1


class TotallingCoroutine(Totalling, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        self.total += 1


def job_of(folder, task=TotallingTask, guarantee="exactly-once", **keys):
    Totalling.failures.clear()
    Totalling.stops.clear()
    job = MemoryJob(folder, task=task, **{"task.guarantee": guarantee, "task.commit.ms": "20000"} | keys)
    job.send(*[(0, "a", {}), (0, "a", {}), (1, "b", {})])
    return job


TASKS = [TotallingTask, TotallingCoroutine]
BOTH = [("Partition 0", "end"), ("Partition 1", "end")]


@pytest.mark.parametrize("until_end", [True, False], ids=["ended", "drained"])
@pytest.mark.parametrize("task", TASKS)
def test_an_end_that_is_committed_is_not_told_again_in_the_run(tmp_path, task, until_end):
    job = job_of(tmp_path, task)
    run = Run(job.config, until_end=until_end)
    if not until_end:
        run.coordinator.drain()
    Totalling.failures.append(ValueError("told to"))
    with pytest.raises(TaskFailed, match="told to"):
        run.container().run()
    first, second = job.task.calls
    assert sorted([first, second]) == BOTH
    # The last attempt comes as after the loss of the result of the second one.
    for _ in range(2):
        run.container().run()
        assert list(job.task.calls) == [first, second, second]
        assert sorted(name for name, _ in job.outputs()) == ["Partition 0", "Partition 1"]


def test_the_next_run_is_told_its_own_end(tmp_path):
    job = job_of(tmp_path)
    for times in (1, 2):
        Run(job.config).container().run()
        assert list(job.task.calls) == BOTH * times


def test_a_request_to_stop_at_the_end_is_made_again(tmp_path):
    job = job_of(tmp_path)
    Totalling.stops.append(True)
    run = Run(job.config)
    for times in (1, 2):
        run.container().run()
        assert list(job.task.calls) == BOTH * times
