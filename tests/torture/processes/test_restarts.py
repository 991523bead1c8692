"""Graceful stops, crash loops, a hundred starts in one process, clocks that jump, and too little memory."""

import os
import sys
from pathlib import Path

import pytest
from crash_job import CrashJob
from outcomes import GUARANTEES
from rigs.job_process import JobProcess

from samzapy.clock import SYSTEM_CLOCK
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.verify.processes import until

HERE = Path(__file__).parent
#: The command and its processes find the ledger's task, and the code under test, where this process does.
IMPORTS = {"PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)])}


def write_job(folder, flat):
    (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in flat.items()))


@pytest.fixture
def job_on_disk(tmp_path):
    """A ledger job that other processes can run, too."""
    jobs = []

    def make(guarantee):
        system = {"systems.sys.samza.factory": "local", "systems.sys.path": str(tmp_path / "local.db")}
        jobs.append(CrashJob(system, "ledger", tmp_path / "state", guarantee))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_job_asked_to_stop_commits_and_repeats_nothing_in_any_guarantee(job_on_disk, guarantee, tmp_path, outcome):
    job = job_on_disk(guarantee)
    write_job(tmp_path, job.flat | {"task.commit.ms": "200"})
    for _ in range(2):
        job.send(500)
        wanted = job.outputs().total() + 1
        process = JobProcess(tmp_path, "job.properties", "--runner", "local", **IMPORTS)
        try:
            await_outputs(job, wanted, process)
            process.terminate()
            assert process.wait() == 0, process.errors
        finally:
            process.close()
    job.send(100)
    job.run()
    numbers = job.numbers(faults=2)
    assert (numbers["lost"], numbers["duplicated"], numbers["mismatches"]) == (0, 0, 0)
    outcome("asked to stop (SIGTERM)", **numbers)


def await_outputs(job, wanted, process):
    until(lambda: job.outputs().total() >= wanted, lambda: process.errors)


@pytest.mark.parametrize(
    ("point", "guarantee"), [*zip(["start.3", "start.6", "start.7", "commit.4"], GUARANTEES, strict=True)]
)
def test_thirty_crashes_in_a_row_leave_nothing_behind(ledger, guarantee, point, outcome):
    job = ledger(guarantee)
    job.send(60)
    job.run()
    job.send(20)
    files = []
    for _ in range(30):
        arm(point)
        with pytest.raises(FailPointReached):
            job.run()
        files.append(len(job.store_files()))
    assert not job.set_aside()
    # Compactions come and go; a file left behind by every crash in both stores would be thirty more.
    assert max(files[15:]) <= max(files[:15]) + 10
    assert not job.recover()
    outcome("thirty crashes in a row", **job.numbers(faults=30))


class JumpingClock:
    """The machine's clock, its wall time off by hours that change at every look, its intervals as they are or none."""

    def __init__(self, hours, frozen=False):
        self._hours = hours
        self._looks = 0
        self._frozen = SYSTEM_CLOCK.monotonic() if frozen else None

    def monotonic(self):
        return SYSTEM_CLOCK.monotonic() if self._frozen is None else self._frozen

    def wall_ms(self):
        self._looks += 1
        return max(0, SYSTEM_CLOCK.wall_ms() + self._hours[self._looks % len(self._hours)] * 3_600_000)


CLOCKS = {
    "an hour ahead": lambda: JumpingClock([1]),
    "an hour behind": lambda: JumpingClock([-1]),
    "back and forth": lambda: JumpingClock([1, -1, 30, -30]),
    "since 1970": lambda: JumpingClock([-1_000_000]),
    "frozen": lambda: JumpingClock([0], frozen=True),
}


@pytest.mark.parametrize(
    ("clock", "guarantee"), [*zip(CLOCKS, [*GUARANTEES, "exactly-once"], strict=True), ("frozen", "at-least-once")]
)
def test_a_clock_that_jumps_between_and_within_runs_changes_nothing(ledger, guarantee, clock, outcome):
    job = ledger(guarantee)
    for use in (SYSTEM_CLOCK, CLOCKS[clock](), SYSTEM_CLOCK):
        job.send(50)
        job.run(use)
    job.send(50)
    arm("commit.4")
    with pytest.raises(FailPointReached):
        job.run(CLOCKS[clock]())
    disarm()
    job.run(CLOCKS[clock]())
    outcome("clock jumps", **job.numbers(faults=1))
