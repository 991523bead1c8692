"""The run of a job's containers on a Spark that is played by the test: retries, stops, failures and silence."""

import re

import pytest
from jobs.job_models import job_model
from rigs.store_rig import TickingClock

from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.status import ContainerFailure
from samzapy.coordinator.wire import AttemptProcess, JobSpec
from samzapy.errors import EnvironmentFailure, JobFailed, JobTakenOver
from samzapy.job.lease import ContainerReport, Directive
from samzapy.runner.base import Backoff, RunOptions
from samzapy.runner.spark import supervisor as supervisor_module
from samzapy.runner.spark.placement import Locality, Places
from samzapy.runner.spark.supervisor import StoppedUncommitted, Supervisor
from samzapy.runner.stopping import STOPPING

GOES_ON = "goes on"


@pytest.fixture(autouse=True)
def quick_steps(monkeypatch):
    monkeypatch.setattr(supervisor_module, "PACE_S", 0.001)


class Attempt:
    def __init__(self, result):
        self.running = result == GOES_ON
        self._result = result
        self.cancelled = False

    def end(self, reason=None):
        self.running, self._result = False, reason

    def error(self):
        return self._result

    def cancel(self):
        self.cancelled = True
        self.running = False


class Spark:
    """Each attempt is a function of this Spark and the container, run at once: it returns an error, None or GOES_ON."""

    def __init__(self, clock, *attempts):
        self.clock = clock
        self.coordinator = Coordinator("job", JobSpec(job_model(2), {}), 15.0, clock)
        self.attempts = list(attempts)
        self.started = []
        self.submitted = []
        self.alive = True
        self.forgotten = False
        self.killed = []
        self.events = []
        self.on_status = self.on_event = lambda _: None
        self.leases = {}

    def supervise(self, limit=8, shutdown_s=60.0):
        options = RunOptions(on_event=self._on_event, on_status=self._on_status)
        places = Places(self.coordinator, list, Locality(None))
        self.supervisor = Supervisor(
            self.coordinator,
            self.submit,
            places,
            self,
            self.clock,
            options,
            backoff=lambda: Backoff(limit, 1.0, 30.0),
            shutdown_s=shutdown_s,
        )
        return self.supervisor

    def _on_event(self, line):
        self.events.append(line)
        self.on_event(line)

    def _on_status(self, status):
        self.on_status(status)

    def submit(self, container, locations, ended):
        self.submitted.append(container)
        attempt = self.attempts.pop(0) if self.attempts else well
        self.started.append(Attempt(attempt(self, container)))
        ended()
        return self.started[-1]

    def end_task(self, task_id, reason):
        self.killed.append(task_id)

    def resources(self):
        return "2 executors, 0 running tasks"

    def check_executors(self, *, had_some):
        if self.forgotten and had_some:
            raise EnvironmentFailure("no executors left")

    def check(self):
        if not self.alive:
            raise EnvironmentFailure("driver JVM has ended")

    def report(self, container, phase="running", **more):
        lease = self.leases[container] = LocalLease(self.coordinator, container)
        lease.report(ContainerReport(container, lease.epoch, phase, **more))

    def ends(self, container):
        lease = self.leases[container]
        return lease.report(ContainerReport(container, lease.epoch, "done"))

    def fails(self, container, message="no ack", **more):
        failure = ContainerFailure(container, self.leases[container].epoch, "ProducerError", message, 1, **more)
        self.coordinator.fail(failure)


def well(spark, container):
    spark.report(container, "done", processed=1)


def runs(spark, container):
    spark.report(container)
    return GOES_ON


def fails(at=0, *, permanent=False, exit_code=1):
    def attempt(spark, container):
        spark.report(container, positions={"m.in[0]": at})
        epoch = spark.leases[container].epoch
        spark.coordinator.fail(ContainerFailure(container, epoch, "TaskFailed", f"no {at}", exit_code, permanent))
        return None if permanent else "Job aborted"

    return attempt


@pytest.fixture
def clock():
    return TickingClock(0.2)


@pytest.fixture
def spark_of(clock):
    return lambda *attempts: Spark(clock, *attempts)


def test_a_run_ends_when_every_container_is_done(spark_of):
    spark = spark_of(well, well)
    assert spark.supervise().run().processed == 2
    assert spark.submitted == ["0", "1"]


def test_an_attempt_that_fails_after_its_container_was_done_is_not_repeated(spark_of):
    def done_and_killed(spark, container):
        well(spark, container)
        return "Python worker exited unexpectedly"

    spark = spark_of(done_and_killed)
    assert spark.supervise().run().processed == 2
    assert (spark.submitted, spark.events) == (["0", "1"], [])


def test_a_container_that_fails_is_submitted_again_at_once(spark_of):
    spark = spark_of(well, fails())
    spark.supervise().run()
    assert spark.submitted == ["0", "1", "1"]
    assert spark.events == ["container 1 failed: no 0", "container 1: starting again at once (1 of 8)"]


def test_a_reason_that_no_container_has_reported_is_reported(spark_of):
    spark = spark_of(well, lambda spark, container: "a Python worker failed: ValueError: no number", fails())
    spark.supervise().run()
    assert spark.events == [
        "container 1: Spark gave up (a Python worker failed: ValueError: no number); starting again at once (1 of 8)",
        "container 1 failed: no 0",
        "container 1: starting again in 1 s (2 of 8)",
    ]


def test_a_container_that_fails_too_often_in_a_row_ends_the_run(spark_of):
    spark = spark_of(runs, *[fails(7, exit_code=3)] * 3)
    with pytest.raises(JobFailed, match="gave up container 1 after 3 failures in a row: no 7") as failed:
        spark.supervise(limit=2).run()
    assert failed.value.exit_code == 3
    assert spark.started[0].cancelled


def test_a_permanent_failure_stops_the_others_and_is_not_tried_again(spark_of):
    spark = spark_of(fails(permanent=True, exit_code=2), runs)
    spark.on_status = lambda status: spark.ends("1") if status.stopping else None
    with pytest.raises(JobFailed, match="container 0: no 0") as failed:
        spark.supervise().run()
    assert failed.value.exit_code == 2
    assert spark.submitted == ["0", "1"]


def test_a_stop_before_the_first_submission_is_announced_and_starts_nothing(spark_of):
    spark = spark_of()
    supervisor = spark.supervise()
    supervisor.stop()
    assert supervisor.run().stopping
    assert (spark.submitted, spark.events) == ([], [STOPPING])


def test_a_stop_is_passed_on_and_ends_the_run_when_no_container_runs(spark_of):
    spark = spark_of(runs, runs)
    supervisor = spark.supervise()

    def on_status(status):
        if not status.stopping and spark.leases:
            supervisor.stop()
        elif spark.leases:
            spark.ends("0")
            spark.ends("1")

    spark.on_status = on_status
    assert supervisor.run().stopping
    assert supervisor.stopped
    assert not any(attempt.cancelled for attempt in spark.started)


@pytest.mark.parametrize("spark_says", [GOES_ON, "Job aborted"])
def test_a_container_that_fails_while_it_stops_is_a_failure(spark_of, spark_says):
    spark = spark_of(runs)
    supervisor = spark.supervise()

    def on_status(status):
        if not status.stopping and status.containers[0].state == "running":
            supervisor.stop()
        elif status.stopping and not status.failed:
            spark.fails("0")
            if spark_says != GOES_ON:
                spark.started[0].end(spark_says)

    spark.on_status = on_status
    with pytest.raises(StoppedUncommitted, match="stopped, but not every container could commit: no ack"):
        supervisor.run()
    assert spark.events == [STOPPING, "container 0 failed: no ack"]
    assert spark.submitted == ["0", "1"]


def test_a_container_that_vanishes_while_it_stops_is_a_failure(spark_of, clock):
    spark = spark_of(runs, runs)
    supervisor = spark.supervise(shutdown_s=300.0)

    def on_status(status):
        if not status.stopping and spark.leases:
            supervisor.stop()
        elif status.stopping and status.containers[0].state == "running":
            spark.ends("0")
            clock.advance(15.0)

    spark.on_status = on_status
    with pytest.raises(StoppedUncommitted, match="container 1: lost without a last report"):
        supervisor.run()


def test_a_container_that_has_ended_well_for_spark_has_committed(spark_of, clock):
    """Its last report was lost."""
    spark = spark_of(runs)
    supervisor = spark.supervise(shutdown_s=300.0)

    def on_status(status):
        if not status.stopping and spark.leases:
            supervisor.stop()
        elif spark.leases:
            spark.started[0].end()
            clock.advance(15.0)

    spark.on_status = on_status
    assert supervisor.run().stopping


def test_a_container_that_was_lost_before_the_stop_does_not_fail_it(spark_of):
    spark = spark_of(runs)
    supervisor, steps = spark.supervise(), []

    def on_status(status):
        steps.append(status)
        if len(steps) == 2:
            spark.fails("0")
        elif len(steps) == 4:
            supervisor.stop()

    spark.on_status = on_status
    assert supervisor.run().failed == 1


def test_containers_that_do_not_stop_in_time_are_a_failure(spark_of):
    spark = spark_of(runs, runs)
    supervisor = spark.supervise(shutdown_s=10.0)
    spark.on_status = lambda status: supervisor.stop() if spark.submitted else None
    with pytest.raises(JobFailed, match=r"task\.shutdown\.ms: containers did not stop within 10 s"):
        supervisor.run()


def test_a_driver_jvm_that_has_ended_is_not_submitted_to_again(spark_of):
    def attempt(spark, container):
        spark.alive = False
        return "connection refused"

    spark = spark_of(attempt)
    with pytest.raises(EnvironmentFailure, match="driver JVM has ended"):
        spark.supervise().run()


def registers(task):
    def attempt(spark, container):
        epoch = spark.coordinator.register(container, AttemptProcess("here", 1, 2, task))
        spark.coordinator.report(ContainerReport(container, epoch, "running"))
        return GOES_ON

    return attempt


def test_the_worker_of_a_container_that_is_silent_for_longer_than_its_lease_is_killed(spark_of, clock):
    spark = spark_of(registers(70), registers(71))

    def on_status(status):
        if spark.killed == [70, 71] and len(spark.submitted) == 2:
            for attempt in spark.started:
                attempt.end("a Python worker was killed")
        elif spark.submitted and not spark.killed:
            clock.advance(5.0)

    spark.on_status = on_status
    status = spark.supervise().run()
    assert spark.killed == [70, 71]
    assert spark.submitted == ["0", "1", "0", "1"]
    assert [container.state for container in status.containers] == ["done", "done"]
    assert spark.events[0] == "container 0: no heartbeat for 15 s; its worker is killed"


def test_a_job_that_another_run_has_taken_over_is_given_up_at_once(spark_of):
    spark = spark_of(runs, runs)
    spark.on_status = lambda status: spark.coordinator.abandon("another run of job 'x' has taken over")
    with pytest.raises(JobTakenOver, match="another run of job 'x' has taken over") as failed:
        spark.supervise().run()
    assert failed.value.exit_code == 1


def test_one_container_that_finds_a_newer_run_ends_the_others_without_a_commit(spark_of):
    def taken_over(spark, container):
        spark.report(container)
        epoch = spark.leases[container].epoch
        spark.coordinator.fail(ContainerFailure(container, epoch, "JobTakenOver", "another run", 1, permanent=True))
        return GOES_ON

    spark = spark_of(runs, taken_over)
    with pytest.raises(JobTakenOver, match="another run"):
        spark.supervise().run()
    assert spark.ends("0") is Directive.ABANDON


def test_containers_that_spark_does_not_start_are_named_with_what_spark_has(spark_of):
    waits = lambda spark, container: GOES_ON  # noqa: E731
    spark, steps = spark_of(waits, waits), []

    def on_status(status):
        steps.append(status)
        if len(steps) == 200:
            for container, attempt in zip("01", spark.started, strict=True):
                well(spark, container)
                attempt.end()

    spark.on_status = on_status
    spark.supervise().run()
    lines = [line for line in spark.events if "not started" in line]
    assert {re.sub(r"\d+ s", "N s", line) for line in lines} == {
        "containers 0, 1: not started by Spark after N s; it has 2 executors, 0 running tasks"
    }
    assert len(lines) in range(2, 6), "the time to the next line doubles"


def test_a_container_in_back_off_is_not_said_to_wait_for_spark(spark_of):
    spark = spark_of(*[fails()] * 14, well, well)
    spark.supervise().run()
    assert {part for part in ("in 30 s", "not started") if part in str(spark.events)} == {"in 30 s"}


def test_containers_lost_with_every_executor_end_the_run(spark_of):
    spark = spark_of(runs, runs)
    spark.forgotten = True
    with pytest.raises(EnvironmentFailure, match="no executors left"):
        spark.supervise().run()
