"""A signal that comes between the claim of a job and the start of its containers."""

import os
import signal
import subprocess
import sys
import uuid

import pytest

from samzapy import StreamTask
from samzapy.admin.running import has_ended
from samzapy.api.system import StreamSpec
from samzapy.checkpoint.records import read_owner
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import open_job
from samzapy.runner.base import RunOptions, StartableJob
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import preparing
from samzapy.runner.stopping import STOPPING, StopSignals, StopSwitch
from samzapy.system.clients import system_factory


class NeverCalled(StreamTask):
    def process(self, envelope, collector, coordinator):
        raise AssertionError("no container should run")


class StoppedWhenClaimed(StartableJob):
    """A job that gets a signal right after it was claimed."""

    def __init__(self, job, number):
        self.config, self.model = job.config, job.model
        self._job, self._number = job, number

    @property
    def endless(self):
        return self._job.endless

    def announce(self):
        return self._job.announce()

    def claim(self):
        prepared = self._job.claim()
        os.kill(os.getpid(), self._number)
        return prepared


@pytest.fixture
def config():
    made = load_job(
        {
            "job.name": "stopped",
            "job.default.system": "sys",
            "task.class": f"{__name__}:NeverCalled",
            "task.inputs": "sys.in",
            "systems.sys.samza.factory": "memory",
            "systems.sys.cluster": uuid.uuid4().hex,
        }
    )
    settings = made.systems["sys"]
    system_factory(settings).admin(settings, "test").create(StreamSpec("in", 1))
    return made


@pytest.fixture(autouse=True)
def terminal():
    """The tests may run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_is_stopped_right_after_its_claim_says_so_and_gives_the_job_back(config, number):
    events = []
    with preparing(config) as job:
        outcome = LocalRunner().run(StoppedWhenClaimed(job, number), RunOptions(on_event=events.append))
    assert outcome.stopped
    assert outcome.status.processed == 0
    assert events == [STOPPING]
    with open_job(config, "test") as (_, checkpoints):
        assert has_ended(checkpoints, read_owner(checkpoints)), "the next run waits for nothing"


def test_a_signal_is_kept_until_it_is_known_how_the_job_stops():
    before = signal.getsignal(signal.SIGTERM)
    called, switch = [], StopSwitch()
    with StopSignals(switch):
        os.kill(os.getpid(), signal.SIGTERM)
        assert switch.asked
        with switch.stops(lambda: called.append("stop")):
            assert called == ["stop"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_terminal_that_goes_away_and_one_sigterm_stop_the_job_in_order():
    called, switch = [], StopSwitch()
    with StopSignals(switch) as signals, switch.stops(lambda: called.append("stop")):
        signals.abort = lambda: called.append("abort")
        assert not called
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
    assert called == ["stop"]


def test_a_run_under_nohup_outlives_its_terminal():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    switch = StopSwitch()
    with StopSignals(switch):
        os.kill(os.getpid(), signal.SIGHUP)
        assert not switch.asked
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_thread_of_a_jobs_code_does_not_hold_up_the_end_of_a_process():
    code = "import threading as t; from samzapy.runner.stopping import end_within; end_within(0.1, 7)"
    code += "; t.Event().wait(0.3); t.Thread(target=t.Event().wait, name='poller').start(); print('still here')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (7, "still here\n")
    assert done.stderr == "warning: the process ends without its threads poller\n"
