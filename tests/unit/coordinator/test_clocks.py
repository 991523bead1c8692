"""The job's clocks: the least of its tasks', the checkpoint time that all of them have, and who holds them."""

import logging

import pytest
from jobs.job_models import job_model

from samzapy.coordinator.clocks import Clocks, KeptClocks
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import ContainerReport, TaskProgress
from samzapy.testing import ManualClock


@pytest.fixture
def hand():
    return ManualClock()


@pytest.fixture
def clocks(hand):
    return Clocks(["a", "b"], KeptClocks(), 60.0, hand)


def test_the_job_s_clock_is_the_least_of_its_tasks_and_never_goes_back(clocks):
    clocks.update({"a": TaskProgress(50)})
    assert clocks.status().job is None
    clocks.update({"b": TaskProgress(30), "another job's": TaskProgress(1)})
    assert clocks.status().job == 30
    clocks.update({"b": TaskProgress(20)})
    assert clocks.status().job == 30
    clocks.update({"b": TaskProgress(90)})
    assert clocks.status().job == 50


def test_a_task_without_anything_to_do_does_not_hold_the_job(clocks):
    clocks.update({"a": TaskProgress(50), "b": TaskProgress(None, idle=True)})
    assert clocks.status().job == 50
    clocks.update({"a": TaskProgress(70), "b": TaskProgress(55)})
    assert clocks.status().job == 55


def test_clocks_go_on_where_an_earlier_run_has_left_them(hand):
    clocks = Clocks(["a", "b"], KeptClocks({"a": 40, "b": 60, "gone": 1}, 30), 60.0, hand)
    assert (clocks.status().job, clocks.checkpoint, clocks.kept) == (40, 30, 30)


def test_the_checkpoint_clock_is_the_greatest_time_that_every_task_has(clocks):
    clocks.update({"a": TaskProgress(50, checkpoints=(0, 20, 40))})
    assert clocks.checkpoint is None
    clocks.update({"b": TaskProgress(45, checkpoints=(0, 20, 30))})
    assert clocks.checkpoint == 20
    clocks.update({"b": TaskProgress(45, checkpoints=(30,))})
    assert clocks.checkpoint == 20
    clocks.update({"b": TaskProgress(45, checkpoints=(30, 40))})
    assert clocks.checkpoint == 40
    assert clocks.kept is None
    clocks.keep(40)
    assert clocks.kept == 40


def test_a_task_that_has_processed_nothing_since_has_every_later_time(clocks):
    clocks.update({"a": TaskProgress(50, checkpoints=(20, 40)), "b": TaskProgress(None, checkpoints=(0,), open=True)})
    assert clocks.checkpoint == 40


def test_a_task_that_starts_again_has_to_say_anew_what_it_has(clocks):
    clocks.update({"a": TaskProgress(50, checkpoints=(0, 20)), "b": TaskProgress(50, checkpoints=(0,))})
    clocks.restart(["a"])
    clocks.update({"b": TaskProgress(50, checkpoints=(0, 20))})
    assert clocks.checkpoint == 0
    clocks.update({"a": TaskProgress(50, checkpoints=(0, 20))})
    assert clocks.checkpoint == 20


def test_a_stalled_clock_names_the_task_and_the_partition_once(clocks, hand, caplog):
    clocks.update({"a": TaskProgress(50), "b": TaskProgress(30, "m.in[3]")})
    hand.advance_to(61.0)
    with caplog.at_level(logging.WARNING):
        clocks.update({"b": TaskProgress(30, "m.in[3]")})
        assert clocks.status().stalled is None  # nobody has gone on: the job is idle
        clocks.update({"a": TaskProgress(80)})
        clocks.update({"a": TaskProgress(81)})
    told = "the job's clock has stood still for 61 s: it waits for b, partition m.in[3]"
    assert str(clocks.status().stalled) == told
    assert [record.getMessage() for record in caplog.records] == [told]
    clocks.update({"b": TaskProgress(60, "m.in[3]")})
    assert clocks.status().stalled is None


def test_the_status_has_the_clocks(hand):
    job = Coordinator("counts", JobSpec(job_model(2), {}), 15.0, hand, clocks=KeptClocks())
    leases = [LocalLease(job, container, clock=hand) for container in "01"]
    for container, lease in zip("01", leases, strict=True):
        told = TaskProgress(1_700_000_000_000, "m.<in>[0]", checkpoints=(1_699_999_990_000,))
        lease.report(ContainerReport(container, lease.epoch, "running", clocks={f"Partition {container}": told}))
    status = job.status()
    assert status.to_json()["clocks"]["job"] == 1_700_000_000_000
    assert status.to_json()["clocks"]["tasks"]["Partition 0"]["held_by"] == "m.<in>[0]"
    assert leases[0].checkpoint_clock is None
    job.keep_checkpoint_clock(status.clocks.checkpoint)
    leases[0].report(ContainerReport("0", leases[0].epoch, "running"))
    assert leases[0].checkpoint_clock == 1_699_999_990_000
