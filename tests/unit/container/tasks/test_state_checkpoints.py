"""Which of a task's state checkpoints are recovered, kept and removed."""

import pytest
from jobs.kept_states import KeptStates

from samzapy.api.event_time import StateCheckpointTask, TaskClock, TimedState
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.tasks.context import KeptStateCheckpoints
from samzapy.errors import RestoreError, TaskFailed
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("m", "in", 0)


class TakingTask(StateCheckpointTask):
    def __init__(self, failure=None):
        self.asked = []
        self.failure = failure

    def take_checkpoint(self, clock, collector):
        self.asked.append(clock)
        if self.failure:
            raise self.failure
        return TimedState(10, b"taken")


class Rig:
    """Attempts of one task; `job_clock` is the job's."""

    def __init__(self):
        self.store = KeptStates()
        self.job_clock = None
        self.clock = ManualClock()
        self.offsets = {SSP: 0}

    def attempt(self, *, committed=True, reset=False):
        return KeptStateCheckpoints(
            "Partition 0",
            self.store,
            10,
            lambda: self.job_clock,
            self.offsets,
            self.clock,
            committed=committed,
            reset=reset,
        )

    def persist(self, kept, *times):
        for time in times:
            self.offsets[SSP] += 1
            kept.persist(TimedState(time, b"%d" % time))


@pytest.fixture
def rig():
    return Rig()


def test_a_task_that_has_committed_must_have_a_state(rig):
    with pytest.raises(RestoreError, match=r"Partition 0: the job has committed and has no state checkpoint"):
        rig.attempt().recover()


@pytest.mark.parametrize(
    ("job_clock", "expected", "left"),
    [
        (None, 10, [10]),
        (5, 10, [10]),
        (10, 10, [10]),
        (29, 20, [10, 20]),
        (30, 30, [10, 20, 30]),
        (99, 30, [10, 20, 30]),
    ],
)
def test_recovery_is_at_the_greatest_time_of_the_job_and_later_ones_go(rig, job_clock, expected, left):
    rig.persist(rig.attempt(), 10, 20, 30)
    rig.job_clock = job_clock
    kept = rig.attempt()
    found = kept.recover()
    assert (found.time_ms, found.value) == (expected, b"%d" % expected)
    assert (rig.store.times(), kept.kept[0]) == (left, tuple(left))


def test_what_no_recovery_needs_is_removed_once_the_jobs_clock_has_passed(rig):
    kept = rig.attempt()
    rig.persist(kept, 10, 20, 30)
    assert rig.store.times() == [10, 20, 30]
    rig.job_clock = 25
    rig.persist(kept, 40)
    assert rig.store.times() == [20, 30, 40]
    rig.job_clock = 40
    rig.persist(kept, 40)
    assert rig.store.times() == [40]


def test_a_state_that_cannot_be_taken_fails_the_task(rig):
    kept = rig.attempt(committed=False)
    rig.persist(kept, 0)
    rig.offsets[SSP] += 1
    with pytest.raises(TaskFailed, match="Partition 0: take_checkpoint failed: TypeError: not plain"):
        kept.take(TakingTask(TypeError("not plain")), TaskClock(12), None)


def test_it_is_overdue_an_interval_of_processing_time_after_the_last_one(rig):
    kept = rig.attempt(committed=False)
    rig.persist(kept, 0)
    assert not kept.overdue
    rig.clock.advance_to(0.010)
    assert kept.overdue
    rig.persist(kept, 0)
    assert not kept.overdue
