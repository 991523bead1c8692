"""Runs a job on Spark: claims it, and starts the coordinator, the application and the supervisor; ends them in reverse.

Spark takes seconds to start, which needs no ownership. So it starts in a thread while the job is claimed. If another
run of the job is active, the job is claimed only when Spark has its executors and their Python workers.

A `SparkRun` is the run of a claimed job:

    STARTING --_start--> RUNNING --_supervise: every container is done, or has stopped--> ENDED
        |                                                                                  ^
        +--_end_before_spark: it was asked to stop, or has lost the job-------------------+
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import JobTakenOver
from samzapy.runner.base import JobOutcome, PreparedJob, Runner, RunOptions, StartableJob, run_token
from samzapy.runner.driver import coordinator_of, watching
from samzapy.runner.handover import OwnershipWatch
from samzapy.runner.restarts import backoff_of
from samzapy.runner.serving import coordinator_identity, serve
from samzapy.runner.spark.application import SparkApplication
from samzapy.runner.spark.attempt import SparkJob
from samzapy.runner.spark.driver_address import coordinator_host
from samzapy.runner.spark.master import Master, check_reach, checked_master, without_sparks_secrets
from samzapy.runner.spark.placement import Executors, Locality, Places, place_records
from samzapy.runner.spark.sources import OwnSpark, SparkSource
from samzapy.runner.spark.starting import Start, StartingSpark
from samzapy.runner.spark.supervisor import StoppedUncommitted, Supervisor
from samzapy.runner.spark.user_code import TravellingCode
from samzapy.runner.stopping import STOPPING, StopSignals


class SparkRunner(Runner):
    """Runs a job's containers as the tasks of Spark jobs, until they end or a signal stops them.

    The coordinator's token that acts comes from the environment variable SAMZAPY_TOKEN; without it, the token is
    random."""

    def __init__(self, source: SparkSource = OwnSpark(), clock: Clock = SYSTEM_CLOCK) -> None:  # noqa: B008  # no state
        """`source`: where the Spark of a run comes from."""
        self._source = source
        self._clock = clock

    def fit(self, config: JobConfig) -> JobConfig:
        """The job for the Spark that is there already, if there is one. Raises ConfigError."""
        return self._source.fit(config)

    def check(self, config: JobConfig) -> tuple[str, ...]:
        """Check that the executors can reach the streams and folders of the job file, and that Spark can start. Raises
        ConfigError, EnvironmentFailure."""
        warnings = check_reach(config)
        self._source.check(config)
        return warnings

    def run(self, job: StartableJob, options: RunOptions) -> JobOutcome:
        """Run to the end or to a signal. Raises JobFailed, JobTakenOver, ConfigError, EnvironmentFailure."""
        config = job.config
        # Before the job is claimed, for callers that have not checked it.
        self._source.check(config)
        containers, standbys = len(job.model.containers), len(job.model.standbys)
        master = checked_master(config, containers, standbys, endless=job.endless)
        code = TravellingCode.of(config)
        token = run_token()
        host = coordinator_host(config.spark, master)
        identity = coordinator_identity(
            config.spark.coordinator_tls, host, self._clock, remote=not master.on_this_machine
        )

        def start(spark: Start) -> SparkApplication:
            source = self._source.application(config, master, token, verbose=options.verbose, began=spark.began)
            return spark.opened.enter_context(source)

        limit_ms = config.spark.start_timeout_ms
        # Spark takes seconds to stop. A signal in that time must not end the process before it has said why the job
        # failed, so the handlers go last; and containers are answered until Spark has stopped.
        with (
            ExitStack() as handlers,
            ExitStack() as services,
            StartingSpark(
                start, containers + standbys, master.address, limit_ms, self._clock, options.on_event
            ) as starting,
        ):
            if job.announce():
                starting.warm()
            signals = handlers.enter_context(StopSignals())
            prepared = job.claim()
            options.on_claimed(prepared)
            model = prepared.model
            checked_master(config, len(model.containers), len(model.standbys), endless=prepared.endless)
            coordinator = coordinator_of(prepared, _spec(prepared, master), self._clock)
            at = Addresses(host, config.spark.coordinator_port, config.page_port, identity, config.page_hosts)
            service = serve(prepared.config, coordinator, token, at)
            services.callback(service.close)
            options.on_event(f"status page: {service.pinned_page}")
            options.on_page(service.pinned_page)
            run = SparkRun(
                prepared=prepared,
                coordinator=coordinator,
                service=service,
                starting=starting,
                code=code,
                options=options,
                signals=signals,
            )
            outcome = run.run(self._clock)
        return replace(outcome, restart=None) if run.stop_asked else outcome


@dataclass(frozen=True, kw_only=True)
class SparkRun:
    """A claimed job: its coordinator with the service, the Spark that starts, and the user's code."""

    prepared: PreparedJob
    coordinator: Coordinator
    service: CoordinatorService
    starting: StartingSpark
    code: TravellingCode
    options: RunOptions
    signals: StopSignals

    @property
    def stop_asked(self) -> bool:
        """Whether a stop was asked for, by a signal or a program."""
        return self.signals.received or self.options.stop.asked

    def run(self, clock: Clock) -> JobOutcome:
        """Run to the end. Raises JobFailed, JobTakenOver, EnvironmentFailure."""
        uncommitted: StoppedUncommitted | None = None
        with watching(self.prepared, self.coordinator, self.options.on_event, lambda: self.stop_asked) as watch:
            spark = self.starting.application(self._is_over)
            if spark is None:
                return self._end_before_spark(watch)
            supervisor = self._start(spark, watch, clock)
            try:
                self._supervise(supervisor, spark)
            except StoppedUncommitted as failure:
                if not watch.may_restart or watch.lets_go:
                    raise
                self.options.on_event(f"{failure}; the job starts again from its last commit")
                uncommitted = failure
            self._free_ports(watch)
        # A stop or a handover may have come until the run had noted its end.
        if uncommitted is not None and watch.restart is None:
            raise uncommitted
        return JobOutcome(self.coordinator.status(), supervisor.stopped, watch.restart)

    def _is_over(self) -> bool:
        return self.stop_asked or self.coordinator.stopping or self.coordinator.abandoned is not None

    def _start(self, spark: SparkApplication, watch: OwnershipWatch, clock: Clock) -> Supervisor:
        """The supervisor of the containers on that Spark, with its rows of the checks."""
        config = self.prepared.config
        locality, executors = Locality(place_records(config)), Executors(spark.executors)
        locality.watch(watch.checks)
        spark.wait_for(locality.hosts())
        executors.watch(watch.checks)
        work = pickle.dumps((self.service.address, self.code))

        def submit(container_id: str, locations: Sequence[str], ended: Callable[[], None]) -> SparkJob:
            return SparkJob(spark, work, container_id, locations, ended)

        return Supervisor(
            self.coordinator,
            submit,
            Places(self.coordinator, executors, locality),
            spark,
            clock,
            self.options,
            backoff=partial(backoff_of, config.spark),
            shutdown_s=config.task.shutdown_ms / 1000,
        )

    def _supervise(self, supervisor: Supervisor, spark: SparkApplication) -> None:
        self.signals.calls(supervisor.stop, spark.kill)
        with self.options.stop.stops(supervisor.stop):
            supervisor.run()

    def _end_before_spark(self, watch: OwnershipWatch) -> JobOutcome:
        """The end of a run that was asked to stop while Spark started, so that no container has run. Raises
        JobTakenOver."""
        if self.coordinator.abandoned is not None:
            raise JobTakenOver(self.coordinator.abandoned)
        if not self.coordinator.stopping:
            self.options.on_event(STOPPING)
            self.coordinator.stop()
        self._free_ports(watch)
        return JobOutcome(self.coordinator.status(), stopped=True)

    def _free_ports(self, watch: OwnershipWatch) -> None:
        """Stop listening at the ports of the job file for the next run, if that waits for the job."""
        config = self.prepared.config
        if watch.lets_go and (config.spark.coordinator_port or config.page_port):
            self.service.close()


def _spec(prepared: PreparedJob, master: Master) -> JobSpec:
    """The job as its containers get it."""
    config = prepared.config
    directory = os.getcwd() if master.on_this_machine else None  # noqa: PTH109  # text for the wire
    raw = config.raw if master.on_this_machine else without_sparks_secrets(config.raw)
    return JobSpec(prepared.model, raw, prepared.ends, directory, prepared.run_id, prepared.transactions)
