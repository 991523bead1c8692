"""The inputs of a running job: one that grows is announced, one that is created again under its name ends the run."""

import threading
from contextlib import contextmanager
from functools import partial

import pytest
from jobs.memory_job import Calls, CountingTask, MemoryJob

from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import JobRecords
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import EnvironmentFailure
from samzapy.runner import driver
from samzapy.runner.base import RunOptions, StopSwitch
from samzapy.runner.checks import Checks
from samzapy.runner.driver import coordinator_of
from samzapy.runner.input_streams import InputStreamsWatch
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare, preparing


class Run:
    """A local run in a thread of its own."""

    def __init__(self, job):
        self.events, self.switch, self.error = Calls(), StopSwitch(), None
        self._thread = threading.Thread(target=self._run, args=(job,), daemon=True)
        self._thread.start()

    def _run(self, job):
        options = RunOptions(on_event=lambda line: self.events.append((line,)), stop=self.switch)
        try:
            with preparing(load_job(job.flat)) as startable:
                LocalRunner().run(startable, options)
        except Exception as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def end(self):
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.error


@pytest.fixture
def run_of(monkeypatch):
    """Runs whose inputs are looked at ten times a second."""
    monkeypatch.setattr(driver, "InputStreamsWatch", partial(InputStreamsWatch, pace_s=0.1))
    return Run


@pytest.fixture
def job(tmp_path):
    return MemoryJob(tmp_path, **{"task.commit.ms": "100"})


@contextmanager
def watched(prepared, coordinator, events):
    checks = Checks(JobRecords.of(prepared.config, "checks"))
    with (
        InputStreamsWatch(prepared, coordinator, lambda line: events.append((line[:6],)), checks, pace_s=0.01),
        checks,
    ):
        yield


def test_an_input_that_is_created_again_while_the_job_runs_stops_it_and_fails_the_run(job):
    events = Calls()
    prepared = prepare(load_job(job.flat))
    coordinator = coordinator_of(prepared, JobSpec(prepared.model, prepared.config.raw, prepared.ends))
    replaced = pytest.raises(EnvironmentFailure, match=r"mem\.in: it was deleted and created again while the job ran")
    with replaced, watched(prepared, coordinator, events):
        job.admin.delete("in")
        job.admin.create(StreamSpec("in", 2))
        events.wait_for(("error:",), 1)
        assert coordinator.stopping


def test_a_run_that_fails_for_another_reason_says_that_one(job):
    events = Calls()
    prepared = prepare(load_job(job.flat))
    coordinator = coordinator_of(prepared, JobSpec(prepared.model, prepared.config.raw, prepared.ends))
    other = pytest.raises(KeyError)
    with other, watched(prepared, coordinator, events):
        job.admin.delete("in")
        job.admin.create(StreamSpec("in", 2))
        events.wait_for(("error:",), 1)
        raise KeyError


def test_an_input_that_grows_while_it_is_read_is_announced_once_and_read_by_the_next_run(job, run_of):
    job.send((0, "a", {"id": 1}))
    run = run_of(job)
    CountingTask.calls.wait_for(("process",), 1)
    job.admin.grow("in", 4)
    heard = (
        "warning: mem.in has grown from 2 to 4 partitions: the next start of the job reads the new ones, from their beginning",
    )
    run.events.wait_for(heard, 1)
    job.admin.grow("in", 6)
    run.events.wait_for((heard[0].replace("2 to 4", "4 to 6"),), 1)
    run.switch.ask()
    assert run.end() is None
    assert [line for (line,) in run.events if "has grown" in line][1:] == [heard[0].replace("2 to 4", "4 to 6")]
