import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from jobs.job_models import job_model

from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.status import ContainerFailure
from samzapy.coordinator.wire import AttemptProcess, JobSpec
from samzapy.errors import EnvironmentFailure, JobFailed, JobTakenOver
from samzapy.job.lease import ContainerReport, Directive
from samzapy.runner.base import RunOptions
from samzapy.runner.restarts import Backoff
from samzapy.runner.spark.supervisor import PACE_S, StoppedUncommitted, Supervisor, pace_of
from samzapy.runner.stopping import STOPPING


class QuickClock:
    """Every look takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    def wall_ms(self) -> int:
        return 1_000


class Spark:
    """Plays Spark: each submission is a function from the ids to an error or None, run at once or while looked at."""

    def __init__(self, coordinator: Coordinator, *attempts: Callable[..., str | None]) -> None:
        self.coordinator = coordinator
        self.attempts = list(attempts)
        self.submitted: list[tuple[str, ...]] = []
        self.alive = True
        self.forgotten = False
        self.ended_tasks: list[int] = []
        self._running = False
        self._reason: str | None = None

    def submit(self, ids, ended):
        self.submitted.append(ids)
        self._reason = self.attempts.pop(0)(self, ids)
        self._running = self._reason == "goes on"
        ended()
        return self

    def end_task(self, task_id, reason):
        self.ended_tasks.append(task_id)

    def resources(self):
        return "2 executors, 0 running tasks"

    def check_executors(self, *, had_some):
        if self.forgotten and had_some:
            raise EnvironmentFailure("no executors left")

    def check(self) -> None:
        if not self.alive:
            raise EnvironmentFailure("driver JVM has ended")

    @property
    def running(self) -> bool:
        return self._running

    def end(self, reason=None) -> None:
        self._running = False
        self._reason = reason

    def error(self):
        return self._reason

    def report(self, container, phase="running", **told):
        lease = LocalLease(self.coordinator, container)
        lease.report(ContainerReport(container, lease.epoch, phase, **told))
        return lease


def well(spark, ids):
    for container in ids:
        spark.report(container, "done", processed=1)


def fails(*containers, at=0, permanent=False, exit_code=1):
    def attempt(spark, ids):
        for container in ids:
            if container in containers:
                lease = spark.report(container, positions={"m.in[0]": at})
                spark.coordinator.fail(
                    ContainerFailure(container, lease.epoch, "TaskFailed", f"no {at}", exit_code, permanent)
                )
            else:
                spark.report(container, "done")
        return None if permanent else "Job aborted"

    return attempt


@pytest.fixture
def coordinator():
    return Coordinator("job", JobSpec(job_model(2), {}), 15.0)


@pytest.fixture
def clock():
    return QuickClock()


@pytest.fixture
def events():
    return []


@pytest.fixture
def supervise(coordinator, events, clock):
    def make(spark, limit=8):
        options = RunOptions(on_event=events.append)
        return Supervisor(coordinator, spark.submit, spark, Backoff(limit, 1.0, 30.0), clock, options, 30.0)

    return make


def test_a_run_ends_when_every_container_is_done(coordinator, supervise):
    spark = Spark(coordinator, well)
    assert supervise(spark).run().processed == 2
    assert spark.submitted == [("0", "1")]


def test_a_submission_that_fails_after_every_container_was_done_ends_the_run(coordinator, supervise, events):
    def done_and_killed(spark, ids):
        well(spark, ids)
        return "Python worker exited unexpectedly"

    spark = Spark(coordinator, done_and_killed)
    assert supervise(spark).run().processed == 2
    assert (spark.submitted, events) == ([("0", "1")], [])


def test_a_stop_before_the_first_submission_is_announced_and_starts_nothing(coordinator, supervise, events):
    spark = Spark(coordinator)
    supervisor = supervise(spark)
    supervisor.stop()
    assert supervisor.run().stopping
    assert not spark.submitted
    assert events == [STOPPING]


def test_what_is_not_done_is_submitted_again(coordinator, supervise, events):
    spark = Spark(coordinator, fails("1"), well)
    supervise(spark).run()
    assert spark.submitted == [("0", "1"), ("1",)]
    assert events == ["container 1 failed: no 0", "Spark gave up; submitting again in 1 s (1 of 8)"]


def test_a_reason_that_no_container_has_reported_is_told(coordinator, supervise, events):
    def unreported(spark, ids):
        return "a Python worker failed: ValueError: no number"

    supervise(Spark(coordinator, unreported, fails("1"), well)).run()
    assert events == [
        "Spark gave up (a Python worker failed: ValueError: no number); submitting again in 1 s (1 of 8)",
        "container 1 failed: no 0",
        "Spark gave up; submitting again in 2 s (2 of 8)",
    ]


def test_a_job_that_fails_at_the_same_place_is_given_up(coordinator, supervise):
    spark = Spark(coordinator, *[fails("0", at=7, exit_code=3)] * 3)
    with pytest.raises(JobFailed, match="gave up after 3 failed runs in a row: no 7") as failed:
        supervise(spark, limit=2).run()
    assert failed.value.exit_code == 3


def test_a_job_that_is_sound_for_long_each_time_is_never_given_up(coordinator, supervise, clock):
    def sound(spark, ids):
        clock.now += 300.0
        return fails("0")(spark, ids)

    spark = Spark(coordinator, *[sound] * 20, well)
    assert supervise(spark, limit=2).run().failed == 20


def test_a_permanent_failure_stops_the_others_and_is_not_tried_again(coordinator, supervise):
    spark = Spark(coordinator, fails("0", permanent=True, exit_code=2))
    with pytest.raises(JobFailed, match="container 0: no 0") as failed:
        supervise(spark).run()
    assert failed.value.exit_code == 2
    assert len(spark.submitted) == 1


def test_a_permanent_failure_of_the_only_container_that_runs_is_a_failure_and_not_a_stop(coordinator, supervise):
    def attempt(spark, ids):
        spark.report("1", "done")
        fails("0", permanent=True, exit_code=3)(spark, ("0",))
        return "goes on"

    with pytest.raises(JobFailed, match="container 0: no 0") as failed:
        supervise(Spark(coordinator, attempt)).run()
    assert failed.value.exit_code == 3


def test_a_stop_while_waiting_to_submit_again_ends_the_run(coordinator, supervise):
    spark = Spark(coordinator, fails("0"))
    supervisor = supervise(spark)
    supervisor._options = RunOptions(on_event=lambda line: supervisor.stop() if "again" in line else None)
    assert supervisor.run().failed == 1
    assert len(spark.submitted) == 1


def test_a_container_that_fails_while_it_stops_is_a_failure(coordinator, supervise):
    def attempt(spark, ids):
        spark.lease = spark.report("0")
        spark.report("1", "done")
        return "goes on"

    spark = Spark(coordinator, attempt)
    supervisor = supervise(spark)

    def disobey(status):
        if status.stopping and not status.failed:
            coordinator.fail(ContainerFailure("0", spark.lease.epoch, "ProducerError", "no ack", 1))
        elif status.containers[0].state == "running":
            supervisor.stop()

    supervisor._options = RunOptions(on_status=disobey)
    with pytest.raises(JobFailed, match="stopped, but not every container could commit: no ack"):
        supervisor.run()


def test_a_container_that_spark_ends_while_it_commits_for_a_stop_is_a_failure_and_is_not_submitted_again(
    coordinator, supervise, events
):
    def attempt(spark, ids):
        spark.leases = [spark.report(container) for container in ids]
        return "goes on"

    spark = Spark(coordinator, attempt)
    supervisor = supervise(spark)

    def abort(status):
        if not status.stopping:
            supervisor.stop()
        elif not status.failed:
            coordinator.fail(ContainerFailure("0", spark.leases[0].epoch, "ProducerError", "no ack", 1))
            spark.end("Job aborted")

    supervisor._options = RunOptions(on_status=abort, on_event=events.append)
    with pytest.raises(StoppedUncommitted, match="not every container could commit: no ack"):
        supervisor.run()
    assert events == [STOPPING, "container 0 failed: no ack"]


def test_a_container_that_vanishes_while_it_stops_is_a_failure(clock):
    coordinator = Coordinator("job", JobSpec(job_model(2), {}), 15.0, clock)

    def attempt(spark, ids):
        spark.leases = [spark.report(container) for container in ids]
        return "goes on"

    spark = Spark(coordinator, attempt)

    def vanish(status):
        if not status.stopping:
            supervisor.stop()
        elif status.containers[0].state == "running":
            spark.leases[0].report(ContainerReport("0", spark.leases[0].epoch, "done"))
            clock.now += 15.0

    options = RunOptions(on_status=vanish)
    supervisor = Supervisor(coordinator, spark.submit, spark, Backoff(8, 1.0, 30.0), clock, options, 300.0)
    with pytest.raises(StoppedUncommitted, match="container 1: lost without a last report"):
        supervisor.run()


def test_a_container_that_has_ended_well_for_spark_has_committed_though_its_last_report_was_lost(
    coordinator, supervise
):
    def attempt(spark, ids):
        spark.report("0")
        spark.report("1", "done")
        return "goes on"

    spark = Spark(coordinator, attempt)
    supervisor = supervise(spark)
    supervisor._options = RunOptions(on_status=lambda status: spark.end() if status.stopping else supervisor.stop())
    assert supervisor.run().stopping


def test_a_container_that_was_lost_before_the_stop_does_not_fail_it(coordinator, supervise):
    def attempt(spark, ids):
        spark.lease = spark.report("0")
        spark.report("1", "done")
        return "goes on"

    spark = Spark(coordinator, attempt)
    supervisor = supervise(spark)

    looks = []

    def lose_and_stop_later(status):
        looks.append(status)
        if len(looks) == 1:
            coordinator.fail(ContainerFailure("0", spark.lease.epoch, "TaskFailed", "no", 1))
        elif len(looks) == 3:
            supervisor.stop()

    supervisor._options = RunOptions(on_status=lose_and_stop_later)
    assert supervisor.run().failed == 1


def test_a_stop_is_passed_on_and_ends_the_run_when_no_container_runs_any_more(coordinator, supervise):
    def attempt(spark, ids):
        spark.leases = [spark.report(container) for container in ids]
        supervisor.stop()
        return "goes on"

    spark = Spark(coordinator, attempt)
    supervisor = supervise(spark)

    def obey(status):
        if status.stopping:
            for container, lease in zip("01", spark.leases, strict=True):
                lease.report(ContainerReport(container, lease.epoch, "done"))

    supervisor._options = RunOptions(on_status=obey)
    assert supervisor.run().stopping
    assert supervisor.stopped


def test_a_stop_before_anything_was_submitted_submits_nothing(coordinator, supervise):
    spark = Spark(coordinator)
    supervisor = supervise(spark)
    supervisor.stop()
    supervisor.run()
    assert spark.submitted == []


def test_containers_that_do_not_stop_in_time_are_a_failure(coordinator, supervise):
    def attempt(spark, ids):
        spark.report("0")
        supervisor.stop()
        return "goes on"

    supervisor = supervise(Spark(coordinator, attempt))
    with pytest.raises(JobFailed, match=r"task\.shutdown\.ms: containers did not stop within 30 s"):
        supervisor.run()


def test_a_driver_jvm_that_has_ended_is_not_submitted_to_again(coordinator, supervise):
    def attempt(spark, ids):
        spark.alive = False
        return "connection refused"

    with pytest.raises(EnvironmentFailure, match="driver JVM has ended"):
        supervise(Spark(coordinator, attempt)).run()


def registers(coordinator, container, task):
    epoch = coordinator.register(container, AttemptProcess("here", 1, 2, task))
    coordinator.report(ContainerReport(container, epoch, "running"))
    return epoch


def test_the_task_of_a_container_that_is_silent_for_longer_than_its_lease_is_ended_and_tried_again(clock, events):
    coordinator = Coordinator("job", JobSpec(job_model(2), {}), 15.0, clock)

    def attempt(spark, ids):
        registers(coordinator, "0", 70)
        registers(coordinator, "1", 71)
        return "goes on"

    def on_status(status):
        if spark.ended_tasks == [70, 71]:
            for container in "01":
                epoch = registers(coordinator, container, 80 + int(container))
                coordinator.report(ContainerReport(container, epoch, "done"))
            spark.end()
        elif not spark.ended_tasks:
            clock.now += 5.0

    spark = Spark(coordinator, attempt)
    options = RunOptions(on_status=on_status, on_event=events.append)
    status = Supervisor(coordinator, spark.submit, spark, Backoff(8, 1.0, 30.0), clock, options, 30.0).run()
    assert spark.ended_tasks == [70, 71]
    assert spark.submitted == [("0", "1")]
    assert [container.state for container in status.containers] == ["done", "done"]
    assert events[0] == "container 0: no heartbeat for 15 s; its worker is killed"


def test_a_task_that_nothing_ends_is_ended_again_a_lease_later_and_not_sooner(clock):
    coordinator = Coordinator("job", JobSpec(job_model(2), {}), 15.0, clock)
    ended_at = []

    def attempt(spark, ids):
        registers(coordinator, "0", 70)
        coordinator.report(ContainerReport("1", coordinator.register("1"), "done"))
        return "goes on"

    class Stubborn(Spark):
        def end_task(self, task_id, reason):
            ended_at.append(clock.now)
            if len(ended_at) == 3:
                supervisor.stop()
                coordinator.report(ContainerReport("0", coordinator.register("0"), "done"))
                self.end()

    spark = Stubborn(coordinator, attempt)
    supervisor = Supervisor(coordinator, spark.submit, spark, Backoff(8, 1.0, 30.0), clock, RunOptions(), 30.0)
    supervisor.run()
    assert all(later - sooner >= 15.0 for sooner, later in pairwise(ended_at))
    assert len(ended_at) == 3


def test_an_attempt_that_said_that_it_failed_is_not_overdue(clock):
    coordinator = Coordinator("job", JobSpec(job_model(2), {}), 15.0, clock)
    epoch = registers(coordinator, "0", 70)
    clock.now += 100.0
    assert [(late.container_id, late.epoch, late.spark_task) for late in coordinator.overdue()] == [("0", epoch, 70)]
    coordinator.fail(ContainerFailure("0", epoch, "TaskFailed", "no", 1))
    assert coordinator.overdue() == ()


def test_a_job_that_another_run_has_taken_over_is_given_up_at_once(coordinator, supervise):
    def attempt(spark, ids):
        for container in ids:
            spark.report(container)
        coordinator.abandon("another run of job 'x' has taken over")
        return "goes on"

    with pytest.raises(JobTakenOver, match="another run of job 'x' has taken over") as failed:
        supervise(Spark(coordinator, attempt)).run()
    assert failed.value.exit_code == 1


def test_one_container_that_finds_a_newer_run_ends_the_others_without_a_commit(coordinator, supervise):
    def attempt(spark, ids):
        spark.other = spark.report("0")
        spark.report("1")
        told = ContainerFailure("1", spark.report("1").epoch, "JobTakenOver", "another run", 1, permanent=True)
        coordinator.fail(told)
        return "goes on"

    spark = Spark(coordinator, attempt)
    with pytest.raises(JobTakenOver, match="another run"):
        supervise(spark).run()
    assert spark.other.report(ContainerReport("0", spark.other.epoch, "running")) is Directive.ABANDON


def test_containers_that_spark_does_not_start_are_named_with_what_spark_has(coordinator, events, clock):
    def late(spark, ids):
        return "goes on"

    class Late(Spark):
        looks = 0

        @property
        def running(self):
            self.looks += 1
            clock.now += 1.0
            if self.looks == 70:
                well(self, ["0", "1"])
                self.end()
            return self._running

    spark = Late(coordinator, late)
    Supervisor(
        coordinator, spark.submit, spark, Backoff(8, 1.0, 30.0), clock, RunOptions(on_event=events.append), 30.0
    ).run()
    told = [each for each in events if "not started" in each]
    assert {re.sub(r"\d+ s", "N s", each) for each in told} == {
        "containers 0, 1: not started by Spark after N s; it has 2 executors, 0 running tasks"
    }
    assert len(told) in range(2, 5), "the time to the next line doubles"


def test_containers_lost_with_every_executor_end_the_run(coordinator, supervise):
    def lost(spark, ids):
        spark.report("0", "running")
        spark.report("1", "running")
        spark.forgotten = True
        return "goes on"

    with pytest.raises(EnvironmentFailure, match="no executors left"):
        supervise(Spark(coordinator, lost)).run()


def test_the_looks_at_many_containers_are_rarer():
    assert [pace_of(containers) for containers in (1, 250, 500, 1_000)] == [PACE_S, PACE_S, 0.5, 1.0]
