import json
from dataclasses import replace

import pytest
from jobs.job_models import job_model

from samzapy.clock import Measured
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.status import ContainerFailure, PartitionStatus
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import ContainerReport, Facts, PartitionLag, Stall, UserFailure
from samzapy.testing import ManualClock

MODEL = job_model(2, "memory")


def coordinator() -> Coordinator:
    return Coordinator("counts", JobSpec(MODEL, {"job.name": "counts"}), 15.0)


def report(lease: LocalLease, container: str = "0", **told) -> ContainerReport:
    return ContainerReport(container, lease.epoch, told.pop("phase", "running"), **told)


def test_messages_of_all_containers_and_attempts_are_added_up():
    job = coordinator()
    first = LocalLease(job, "0")
    first.report(report(first, processed=10, commits=1))
    first.report(report(first, processed=30, commits=2))
    second = LocalLease(job, "0")
    second.report(report(second, processed=5))
    other = LocalLease(job, "1")
    other.report(report(other, "1", processed=100, commits=4))
    assert (job.status().processed, job.status().commits) == (135, 6)


def test_until_a_new_attempt_reports_it_starts_and_has_the_positions_of_the_one_before():
    job = coordinator()
    first = LocalLease(job, "0")
    stall = Stall("in process of m.in[0]@3", 60.0)
    known = {"positions": {"m.in[0]": 40}, "ends": {"m.in[0]": 100}, "metrics": {"container": {"starts": 1.0}}}
    lags = {"m.in[0]": PartitionLag(40, 90, 50, 7)}
    restoring = {"Partition 0/s": (1, 9)}
    first.report(report(first, processed=30, restoring=restoring, facts=Facts(Measured(lags, job.now), stall), **known))
    before = job.status().containers[0]
    assert (before.phase, before.stalled, before.restoring, before.remaining) == ("running", stall, (1, 9), 60)
    second = LocalLease(job, "0")
    status = job.status().containers[0]
    assert (status.state, status.phase) == ("running", "starting")
    assert (status.stalled, status.restoring, status.remaining) == (None, None, None)
    assert status.partitions == {"m.in[0]": PartitionStatus(40, 90, 50, 0.007)}
    assert (status.processed, status.ends, status.metrics) == (30, known["ends"], known["metrics"])
    second.report(report(second, phase="restoring", restoring=restoring))
    assert (job.status().containers[0].phase, job.status().containers[0].restoring) == ("restoring", (1, 9))


def test_what_remains_is_known_when_every_container_has_told_its_ends():
    job = coordinator()
    left, right = LocalLease(job, "0"), LocalLease(job, "1")
    right.report(report(right, "1", phase="starting", ends={"memory.in[1]": 10}))
    left.report(report(left, positions={"memory.in[0]": 40}, ends={"memory.in[0]": 100}))
    assert job.status().remaining is None
    right.report(report(right, "1", positions={"memory.in[1]": 12}, ends={"memory.in[1]": 10}))
    assert job.status().remaining == 60
    left.report(report(left, phase="done", positions={"memory.in[0]": 100}, ends={"memory.in[0]": 100}))
    assert job.status().remaining == 0
    assert job.status().containers[0].state == "done"


def test_every_attempts_restores_are_kept():
    job = coordinator()
    for records in (3, 7):
        lease = LocalLease(job, "0")
        lease.report(report(lease, restored={"Partition 0/s": (records, 0.5, "changelog")}))
    assert [(r.store, r.records, r.source) for r in job.status().restored] == [
        ("Partition 0/s", 3, "changelog"),
        ("Partition 0/s", 7, "changelog"),
    ]


def test_counts_of_weakened_promises_are_added_up_over_containers_and_attempts():
    job = coordinator()
    first = LocalLease(job, "0")
    first.report(report(first, metrics={"errors": {"process.skipped": 3, "process.retried": 9}}))
    second = LocalLease(job, "0")
    second.report(report(second, metrics={"errors": {"process.skipped": 1}, "guarantee": {"outside-transaction": 7}}))
    other = LocalLease(job, "1")
    other.report(report(other, "1", metrics={"errors": {"process.skipped": 2, "serialize.skipped": 0}}))
    assert job.status().counts == {"errors.process.skipped": 6, "guarantee.outside-transaction": 7}
    assert job.status().to_json()["counts"] == job.status().counts


def test_an_attempt_that_starts_again_in_place_keeps_its_sums():
    job = coordinator()
    lease = LocalLease(job, "0")
    lease.report(report(lease, processed=10, commits=3, metrics={"errors": {"process.skipped": 2}}))
    lease.report(report(lease, phase="starting", metrics={"errors": {"process.skipped": 2}}))
    lease.report(report(lease, processed=4, commits=1, metrics={"errors": {"process.skipped": 5}}))
    status = job.status()
    assert (status.processed, status.commits, status.counts) == (14, 4, {"errors.process.skipped": 5})


def test_standbys_are_told_apart_from_the_containers_and_their_failures_are_not_the_jobs(caplog):
    standby = replace(MODEL.containers[0], id="0-1")
    coordinator = Coordinator("job", JobSpec(replace(MODEL, standbys=(standby,)), {}), 15.0)
    assert coordinator.knows("0-1")
    lease = LocalLease(coordinator, "0-1")
    lease.report(ContainerReport("0-1", lease.epoch, "running", positions={"m.log[0]": 3}, ends={"m.log[0]": 5}))
    status = coordinator.status()
    assert [container.id for container in status.containers] == ["0", "1"]
    assert [(told.id, told.state, told.remaining) for told in status.standbys] == [("0-1", "running", 2)]
    assert status.remaining is None
    for _ in range(3):
        coordinator.fail(ContainerFailure("0-1", lease.epoch, "RestoreError", "no", 1))
    assert caplog.messages == ["standby 0-1 failed, and starts again: no"]
    assert coordinator.status().failed == 0
    assert coordinator.status().standbys[0].state == "lost"


def test_the_lag_of_a_job_is_that_of_its_partitions_when_they_were_last_asked_for():
    job = coordinator()
    lease, other = LocalLease(job, "0"), LocalLease(job, "1")
    lease.report(report(lease, facts=Facts(Measured({"m.in[0]": PartitionLag(3, 10, 7, 1_500)}, job.now))))
    assert job.status().lag is None
    other.report(report(other, "1", facts=Facts(Measured({"m.in[1]": PartitionLag(5, 5, 0, 0)}, job.now))))
    lease.report(report(lease, facts=Facts()))
    assert job.status().lag == 7
    shown = job.status().to_json()["containers"][0]
    assert shown["lags"] == {"m.in[0]": {"position": 3, "end": 10, "lag": 7, "age_ms": 1_500}}
    assert (shown["lag"], shown["stalled"], shown["failure"]) == (7, None, None)


def test_a_partition_has_the_position_of_the_time_when_its_end_was_measured():
    job = coordinator()
    lease = LocalLease(job, "0")
    lease.report(report(lease, positions={"m.in[0]": 9, "m.in[1]": 1}, ends={"m.in[0]": 20}))
    first = job.status().containers[0]
    assert first.partitions == {"m.in[0]": PartitionStatus(9, 20, 11), "m.in[1]": PartitionStatus(1)}
    assert first.lag == 11
    seen = {"m.in[0]": PartitionLag(3, 10, 7, 1_500), "m.in[2]": PartitionLag(4, 6, 2)}
    lease.report(report(lease, positions={"m.in[0]": 9, "m.in[1]": 1}, facts=Facts(Measured(seen, job.now))))
    then = job.status().containers[0]
    assert then.partitions["m.in[0]"] == PartitionStatus(3, 10, 7, 1.5)
    assert then.partitions["m.in[2]"] == PartitionStatus(4, 6, 2)
    assert then.lag == 9


def test_containers_that_are_to_hear_of_something_soon_report_ten_times_as_often():
    job = coordinator()
    lease = LocalLease(job, "0")
    assert lease.pace_s == 1.0
    for hurried, pace_s in ((True, 0.1), (False, 1.0)):
        job.hurried = hurried
        lease.report(report(lease))
        assert lease.pace_s == pace_s


def test_a_standby_reports_four_times_as_often_so_that_it_hears_soon_that_it_has_to_make_room():
    standby = replace(MODEL.containers[0], id="0-1")
    job = Coordinator("job", JobSpec(replace(MODEL, standbys=(standby,)), {}), 15.0)
    assert (job.pace_s("0"), job.pace_s("0-1")) == (1.0, 0.25)
    job.hurried = True
    assert job.pace_s("0-1") == 0.1


@pytest.mark.parametrize(("containers", "pace_s"), [(2, 1.0), (200, 1.0), (650, 3.25), (100_000, 5.0)])
def test_a_larger_job_reports_less_often_but_three_times_per_lease(containers, pace_s):
    assert Coordinator("job", JobSpec(job_model(containers), {}), 15.0).pace_s("0") == pace_s


@pytest.fixture
def hand():
    return ManualClock()


@pytest.fixture
def dated(hand):
    return Coordinator("counts", JobSpec(MODEL, {}), 15.0, hand)


def measured(job, **more):
    lags = {"memory.in[0]": PartitionLag(40, 90, 50, 7)}
    return {"positions": {"memory.in[0]": 44}, "facts": Facts(Measured(lags, job.now)), **more}


def test_a_stale_lag_is_null_in_the_status_however_often_its_container_reports(dated, hand):
    lease = LocalLease(dated, "0")
    lease.report(report(lease, **measured(dated, ends={"memory.in[0]": 100})))
    for _ in range(15):
        hand.advance(1)
        lease.report(report(lease, positions={"memory.in[0]": 45}, ends={"memory.in[0]": 100}))
    fresh = dated.status()
    assert (fresh.containers[0].lag, fresh.to_json()["containers"][0]["lag_age_s"]) == (50, 15.0)
    hand.advance(1)
    lease.report(report(lease, positions={"memory.in[0]": 46}, ends={"memory.in[0]": 100}))
    shown = dated.status().to_json()
    container = shown["containers"][0]
    assert (container["lag"], container["lags"], container["lag_age_s"], shown["lag"]) == (None, None, 16.0, None)
    assert dated.status().containers[0].partitions == {"memory.in[0]": PartitionStatus(46)}
    lease.report(report(lease, **measured(dated)))
    assert dated.status().to_json()["containers"][0]["lag_age_s"] == 0.0
    assert dated.status().containers[0].lag == 50


def test_a_stale_container_has_neither_lag_nor_metrics_without_any_report(dated, hand):
    lease = LocalLease(dated, "0")
    lease.report(report(lease, **measured(dated, metrics={"container": {"resident-bytes": 7.0}})))
    hand.advance(15)
    assert dated.status().containers[0].metrics
    hand.advance(1)
    status = dated.status().containers[0]
    assert (status.lag, status.metrics, status.lag_age_s(dated.now)) == (None, {}, 16.0)


def test_a_container_that_is_done_is_not_stale(dated, hand):
    lease = LocalLease(dated, "0")
    lease.report(report(lease, phase="done", **measured(dated, metrics={"container": {"starts": 1.0}})))
    other = LocalLease(dated, "1")
    hand.advance(1_000)
    other.report(report(other, "1", **measured(dated)))
    status = dated.status()
    assert (status.containers[0].metrics, status.containers[0].lag_age_s(status.at)) == (
        {"container": {"starts": 1.0}},
        None,
    )
    assert status.lag == 50


def test_a_stale_standby_does_not_say_how_far_it_is_behind(hand):
    standby = replace(MODEL.containers[0], id="0-1")
    job = Coordinator("job", JobSpec(replace(MODEL, standbys=(standby,)), {}), 15.0, hand)
    lease = LocalLease(job, "0-1")
    lease.report(ContainerReport("0-1", lease.epoch, "running", positions={"m.log[0]": 3}, ends={"m.log[0]": 5}))
    hand.advance(15)
    assert (job.status().standbys[0].lag, job.status().standbys[0].lag_age_s(job.now)) == (2, None)
    hand.advance(1)
    assert job.status().standbys[0].lag is None


def test_a_large_status_has_the_newest_history_and_counts_what_it_leaves_out():
    job = coordinator()
    lease = LocalLease(job, "0")
    restored = {f"Partition {task}/s": (task, 0.1, "changelog") for task in range(1_000)}
    lease.report(report(lease, restored=restored))
    other = LocalLease(job, "1")
    other.report(report(other, "1", restored={"Partition 1000/s": (1_000, 0.1, "changelog")}))
    for number in range(150):
        job.fail(ContainerFailure("0", lease.epoch, "TaskFailed", f"no {number}", 1))
    shown = job.status().to_json()
    assert (shown["restored_left_out"], shown["failed"]) == (1, 150)
    assert (len(shown["restored"]), shown["restored"][-1]["records"]) == (1_000, 1_000)
    assert [each["message"] for each in shown["failures"]] == [f"no {number}" for number in range(50, 150)]
    assert len(json.dumps(shown)) < 200_000


def handled(offset, what="skipped"):
    where, place = f"process of m.in[0]@{offset}", ("m.in[0]", offset, offset)
    return UserFailure("KeyError", "'user'", "Partition 0", where, "tasks.py:3", "", *place, what, 1_000)


def test_skipped_and_dead_lettered_messages_of_the_last_hour_are_kept():
    hand = ManualClock()
    job = Coordinator("counts", JobSpec(MODEL, {"job.name": "counts"}), 15.0, hand)
    lease = LocalLease(job, "0", clock=hand)
    lease.report(report(lease, facts=Facts(handled=(handled(1), handled(2, "retried")))))
    hand.advance(3_000)
    lease.report(report(lease, facts=Facts(handled=(handled(3, "dead-lettered"),))))
    found = job.status().handled
    assert [(each.container, each.failure.first, each.age_s) for each in found] == [("0", 1, 3_000), ("0", 3, 0)]
    assert job.status().containers[0].failure.first == 3
    hand.advance(700)
    assert [each.failure.first for each in job.status().handled] == [3]


def test_at_most_a_hundred_handled_messages_are_kept():
    job = coordinator()
    lease = LocalLease(job, "0")
    for offset in range(0, 250, 10):
        lease.report(report(lease, facts=Facts(handled=tuple(handled(offset + each) for each in range(10)))))
    assert [each.failure.first for each in job.status().handled] == list(range(150, 250))
