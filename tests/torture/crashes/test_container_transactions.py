"""A container's state is one transaction of all its tasks: cut at any step it is that of one commit, and a run that was
stopped at any step writes none of it any more once its successor has started, whatever containers that one has.
"""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import javaproperties
import psutil
import pytest
from containers_run import ContainersRun
from crash_job import CrashJob, fold, measured
from crash_rounds import CrashRounds, RoundsByCase
from outcomes import GUARANTEES, PLAIN

from samzapy.config.loader import load_job
from samzapy.runner.prepare import prepare
from samzapy.verify.processes import until

HERE = Path(__file__).parent
COMMIT_STEPS = [f"commit.{n}" for n in ("1", "2", "3a", "3", "4", "5a", "5", "6", "7")]
STEPS = COMMIT_STEPS + [f"start.{n}" for n in (1, 2, 3, 5, 6, 7)]
TASKS = 5
LEASE_S = 2.0
#: What a run that finds a newer one ends with, whether a container finds it or the run's watch.
GIVEN_WAY = ("JobTakenOver: ", "TaskMigrated: a newer attempt runs this container")
PATIENCE_S = 90.0

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)], scope="module")
def system(request):
    """A system's name and its keys in a job file."""
    keys = {"systems.sys.samza.factory": request.param}
    if request.param == "memory":
        return request.param, keys | {"systems.sys.cluster": uuid.uuid4().hex}
    return request.param, keys | {"systems.sys.consumer.bootstrap.servers": request.getfixturevalue("kafka")}


@pytest.fixture(scope="module")
def rounds():
    jobs = RoundsByCase()
    yield jobs
    jobs.close()


def is_one_commit(job, guarantee):
    """What is committed of all tasks belongs to the positions that are: nothing is ahead of the others, or behind."""
    # Whoever starts next aborts what the crash has left open; only then is it known what is committed.
    prepare(load_job(job.flat))
    held, exact = job.state(), fold(job.ids_before(job.positions()))
    if guarantee == "at-most-once":
        for key, ids in held.items():
            assert ids == sorted(set(ids))
            assert set(ids) <= set(exact[key])
    else:
        assert held == exact


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_crash_leaves_all_tasks_of_a_container_at_one_commit(
    system, rounds, guarantee, step, tmp_path_factory, outcome
):
    name, keys = system

    def make():
        folder = tmp_path_factory.mktemp("state") / "state"
        job = CrashJob(keys, uuid.uuid4().hex[:8], folder, guarantee, partitions=TASKS)
        return CrashRounds(job, guarantee, events=50, lost_state=True)

    with rounds.of((name, guarantee), make) as crashed:
        numbers = crashed.run(step, look=lambda job: is_one_commit(job, guarantee))
    outcome("crash with several tasks a container", guarantee=guarantee, system=name, **numbers)


class StoppedRun:
    """A run in a process of its own that stops itself, as by SIGSTOP, at the first passing of a step by one of its
    containers."""

    def __init__(self, job, folder, step, containers):
        file, self._log = folder / "zombie.properties", folder / "zombie.log"
        state = {"job.logged.store.base.dir": str(folder / "zombie-state"), "task.commit.ms": "200"}
        file.write_text(javaproperties.dumps(job.flat | state, timestamp=None))
        environ = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
            "SAMZAPY_FAIL": f"{step}:1:stop",
        }
        command = [sys.executable, str(HERE / "containers_run.py"), str(file), str(containers)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)

    @property
    def said(self):
        return self._log.read_text()

    def wait_until_stopped(self):
        process = psutil.Process(self._process.pid)
        until(lambda: process.status() == psutil.STATUS_STOPPED, lambda: self.said, PATIENCE_S)

    def go_on(self):
        """SIGCONT; returns the exit code."""
        self._process.send_signal(signal.SIGCONT)
        return self._process.wait(PATIENCE_S)

    def close(self):
        self._process.kill()
        self._process.wait()


class Overlaps:
    """One job of which, round after round, a run stops at a step and a successor with other containers does the
    rest."""

    def __init__(self, job):
        self.job = job

    def run(self, step, containers, folder, stopped=2):
        """A run of `stopped` containers stops, one of `containers` follows. Returns what happened to the round's
        messages."""
        job, before, outputs_before = self.job, self.job.state(), self.job.outputs()
        ids = range(job.sent, job.sent + 80)
        job.send(40)
        zombie = StoppedRun(job, folder, step, stopped)
        try:
            zombie.wait_until_stopped()
            job.send(40)
            self.succeed(containers, folder / "successor")
            owned = job.state(), job.positions()
            assert zombie.go_on() == 1, zombie.said
        finally:
            zombie.close()
        assert zombie.said.rpartition("error: ")[2].startswith(GIVEN_WAY), zombie.said
        assert (job.state(), job.positions()) == owned
        guarantee = job.flat["task.guarantee"]
        numbers = measured(job.outputs() - outputs_before, job.state(), ids, guarantee, before)
        return {"guarantee": guarantee, "system": "kafka", "events": len(ids), "faults": 1, **numbers}

    def succeed(self, containers, folder):
        """A run of so many containers, its local state in the folder, to the ends of the inputs."""
        self.job.flat["job.logged.store.base.dir"] = str(folder)
        ContainersRun(self.job.flat, containers).run()


@pytest.fixture
def overlaps(request, rounds, tmp_path_factory):
    """`overlaps(guarantee, keys)`: a context with the module's job of that kind, which has been run once."""

    def make(guarantee, **keys):
        def started():
            bootstrap = request.getfixturevalue("kafka")
            system = {"systems.sys.samza.factory": "kafka", "systems.sys.consumer.bootstrap.servers": bootstrap}
            folder = tmp_path_factory.mktemp("state") / "state"
            job = CrashJob(system | keys, uuid.uuid4().hex[:8], folder, guarantee, partitions=4)
            job.flat["job.spark.lease.ms"] = str(int(LEASE_S * 1000))
            return Overlaps(job)

        return rounds.of(("overlap", guarantee, *keys), started)

    return make


@pytest.mark.kafka
@pytest.mark.parametrize("step", COMMIT_STEPS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_run_stopped_in_its_commit_writes_no_state_behind_its_successor(overlaps, tmp_path, guarantee, step, outcome):
    with overlaps(guarantee) as job:
        numbers = job.run(step, 3 if COMMIT_STEPS.index(step) % 2 else 1, tmp_path)
    outcome("stopped in a commit, other containers after it", **numbers)


@pytest.mark.kafka
def test_a_run_stopped_before_its_positions_processes_nothing_of_that_poll(overlaps, tmp_path, outcome):
    with overlaps("at-most-once") as job:
        numbers = job.run("ahead.1", 1, tmp_path)
    outcome("stopped in a commit, other containers after it", **numbers)


@pytest.mark.kafka
@pytest.mark.parametrize("step", ["commit.2", "commit.3", "commit.4", "commit.5a", "commit.5"])
@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once"])
def test_without_transactions_a_successor_waits_out_a_stopped_runs_lease(overlaps, tmp_path, guarantee, step, outcome):
    with overlaps(guarantee, **{"task.state.transactions": "false"}) as job:
        # Of one container: what a second one had on its way when the process stopped would arrive behind the
        # successor's records, and nothing but a transaction refuses it.
        numbers = job.run(step, 1, tmp_path, stopped=1)
    promise = PLAIN if guarantee == "at-least-once" else guarantee
    outcome("stopped in a commit, no transactions", **numbers | {"guarantee": promise})
