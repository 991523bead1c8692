"""Runs a job on Spark: claims it, and starts the coordinator, the application and the supervisor; ends them in reverse.

Spark takes seconds to start, which needs no ownership. So it starts in a thread while the job is claimed
(`StartingSpark`). If another run of the job is active, the job is claimed only when Spark has its executors. Spark may
also wait for ever: for a cluster manager that has no room, for executors that do not come up,
for a JVM that hangs. A run never waits in silence, and ends after `START_S`.

A `SparkRun` is the run of a claimed job:

    STARTING --_start--> RUNNING --Supervisor.run: every container is done, or has stopped--> ENDED
        |                                                                                      ^
        +--_end_before_spark: it was asked to stop, or has lost the job-----------------------+
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from types import TracebackType
from typing import Any, final

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.server import made_for
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import EnvironmentFailure, JobTakenOver
from samzapy.runner.base import Backoff, JobOutcome, PreparedJob, Runner, RunOptions, StartableJob, run_token
from samzapy.runner.driver import coordinator_of, serve, watching
from samzapy.runner.handover import OwnershipWatch
from samzapy.runner.spark.application import SparkApplication, SparkJob
from samzapy.runner.spark.jvm import DriverJvm
from samzapy.runner.spark.master import Master, check_reach, checked_master, coordinator_host, without_sparks_secrets
from samzapy.runner.spark.placement import Locality, Places, place_records
from samzapy.runner.spark.sources import OwnSpark, SparkSource
from samzapy.runner.spark.supervisor import Patience, StoppedUncommitted, Supervisor
from samzapy.runner.spark.user_code import pickled_code
from samzapy.runner.stopping import STOPPING, StopSignals

#: Seconds that Spark may take to start.
START_S = 600.0
#: Seconds for Spark to get its executors, which it may not while the previous run holds the resources.
_WARM_S = 15.0
#: Seconds between two checks of a Spark that starts.
_PACE_S = 0.25
#: Seconds that the end of a run waits for a Spark that still starts, to stop it in order, and for one that was killed.
_STARTED_S, _KILLED_S = 30.0, 5.0

logger = logging.getLogger(__name__)


def _in_thread(name: str, call: Callable[[], Any]) -> Future[Any]:
    """The result of a call in a thread of its own, which does not keep the process from its end."""
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as cause:  # noqa: BLE001  # it is raised where the result is asked for
            result.set_exception(cause)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


@final
class StartingSpark:
    """Starts Spark in a thread when entered, and stops it when left: `opened` is closed in order, `kill` ends it at
    once."""

    def __init__(
        self,
        start: Callable[[StartingSpark], SparkApplication],
        address: str,
        clock: Clock,
        on_event: Callable[[str], None],
    ) -> None:
        """`start` puts the closers of Spark on `opened`. `address`: Spark's master. `on_event` gets a line when Spark
        takes long."""
        self._start = start
        self._address = address
        self._clock = clock
        self._on_event = on_event
        self.opened = ExitStack()
        self._jvm: DriverJvm | None = None
        self._closing = threading.Lock()
        self._given_up = self._killed = False

    def __enter__(self) -> StartingSpark:
        self._patience = Patience(self._clock)
        self._started = _in_thread("spark-start", self._begin)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._kill()
        if not self._is_over_within(_KILLED_S if self._killed else _STARTED_S):
            self._kill()
            self._is_over_within(_KILLED_S)
        self._close(gives_up=True)

    def began(self, jvm: DriverJvm) -> None:
        """Spark's JVM runs, and does not answer yet."""
        self._jvm = jvm
        if self._killed:
            jvm.kill()

    def _kill(self) -> None:
        """Kill the JVM, now or as soon as there is one."""
        self._killed = True
        if self._jvm is not None:
            self._jvm.kill()

    def _begin(self) -> SparkApplication:
        try:
            return self._start(self)
        finally:
            self._close(gives_up=False)

    def _close(self, *, gives_up: bool) -> None:
        """Close what has been opened. A Spark without a JVM of this run cannot be killed, and may still start after the
        run has given it up: at its end the start itself closes it then."""
        with self._closing:
            self._given_up |= gives_up
            if self._given_up:
                self.opened.close()

    def application(self, stopped: Callable[[], bool] = bool) -> SparkApplication | None:
        """Spark, once it has started; None, and no Spark at all, if `stopped` says so before.

        Raises EnvironmentFailure, also after the limit, and ConfigError."""
        while not self._is_over_within(0):
            if stopped():
                self._kill()
                return None
            waited = self._patience.waited
            last = "" if self._jvm is None else f"; its last line: {self._jvm.last_line}"
            if waited >= START_S:
                self._kill()
                raise EnvironmentFailure(
                    f"job.spark.master: Spark did not start on {self._address} within {START_S:g} s{last}"
                )
            if self._patience.is_out():
                self._on_event(f"Spark has not started on {self._address} after {waited:.0f} s{last}")
        application: SparkApplication = self._started.result()
        return application

    def warm(self) -> None:
        """Wait until Spark has started and, at most `_WARM_S`, until it has its executors. Raises as `application`."""
        spark = self.application()
        if spark is not None:
            wait([_in_thread("spark-executors", spark.wait_for_executors)], _WARM_S)

    def _is_over_within(self, seconds: float) -> bool:
        """Whether the start is over, well or not; waits a moment at least."""
        until = self._clock.monotonic() + seconds
        while not wait([self._started], _PACE_S).done:
            if self._clock.monotonic() >= until:
                return False
        return True


class SparkRunner(Runner):
    """Runs a job's containers as the tasks of Spark jobs, until they end or a signal stops them.

    The coordinator's token that acts comes from the environment variable SAMZAPY_TOKEN; without it, the token is
    random."""

    def __init__(self, source: SparkSource = OwnSpark()) -> None:  # noqa: B008  # no state
        self._source = source

    def fit(self, config: JobConfig) -> JobConfig:
        fitted = self._source.fit(config)
        warnings = check_reach(fitted)
        self._source.check(fitted)
        return replace(fitted, warnings=(*warnings, *fitted.warnings))

    def run(self, job: StartableJob, options: RunOptions) -> JobOutcome:
        config = job.config
        # Before the job is claimed, for callers that have not checked it.
        self._source.check(config)
        containers, standbys = len(job.model.containers), len(job.model.standbys)
        master = checked_master(config, containers, standbys, endless=job.endless)
        code = pickled_code(config)
        token = run_token()
        host = coordinator_host(config.spark, master)
        tls = not master.on_this_machine if config.spark.coordinator_tls is None else config.spark.coordinator_tls
        identity = made_for(host, datetime.now(timezone.utc)) if tls else None

        def start(starting: StartingSpark) -> SparkApplication:
            source = self._source.application(config, master, token, verbose=options.verbose, began=starting.began)
            return starting.opened.enter_context(source)

        # Spark takes seconds to stop. A signal in that time must not end the process before it has said why the job
        # failed, so the handlers go last; and containers are answered until Spark has stopped.
        with (
            ExitStack() as handlers,
            ExitStack() as services,
            StartingSpark(start, master.address, SYSTEM_CLOCK, options.on_event) as starting,
        ):
            if job.announce():
                starting.warm()
            signals = handlers.enter_context(StopSignals(options.stop))
            prepared = job.claim()
            options.on_claimed(prepared)
            model = prepared.model
            checked_master(config, len(model.containers), len(model.standbys), endless=prepared.endless)
            coordinator = coordinator_of(prepared, _spec(prepared, master))
            at = Addresses(host, config.spark.coordinator_port, config.page_port, identity, config.page_hosts)
            service = serve(prepared.config, coordinator, token, at)
            services.callback(service.close)
            options.on_event(f"status page: {service.pinned_page}")
            options.on_page(service.pinned_page)
            run = SparkRun(prepared, coordinator, service, starting, code, options, signals)
            outcome = run.run()
        return replace(outcome, restart=None) if options.stop.asked else outcome


@dataclass(frozen=True)
class SparkRun:
    """A claimed job: its coordinator with the service, the Spark that starts, and the user's code."""

    prepared: PreparedJob
    coordinator: Coordinator
    service: CoordinatorService
    starting: StartingSpark
    code: bytes
    options: RunOptions
    signals: StopSignals

    def run(self) -> JobOutcome:
        """Run to the end. Raises JobFailed, JobTakenOver, EnvironmentFailure."""
        uncommitted: StoppedUncommitted | None = None
        supervisor: Supervisor | None = None
        with watching(self.prepared, self.coordinator, self.options) as watch:
            spark = self.starting.application(self._is_over)
            if spark is None:
                self._end_before_spark()
            else:
                if spark.context.uiWebUrl:
                    self.coordinator.links["Spark"] = spark.context.uiWebUrl
                supervisor = self._start(spark, watch)
                self.signals.abort = spark.kill
                try:
                    with self.options.stop.stops(supervisor.stop):
                        supervisor.run()
                except StoppedUncommitted as failure:
                    if not watch.may_restart or watch.lets_go:
                        raise
                    self.options.on_event(f"{failure}; the job starts again from its last commit")
                    uncommitted = failure
            config = self.prepared.config
            if watch.lets_go and (config.spark.coordinator_port or config.page_port):
                # The next run waits for the job, and for these ports.
                self.service.close()
        # A stop or a handover may have come until the run had noted its end.
        if uncommitted is not None and watch.restart is None:
            raise uncommitted
        return JobOutcome(self.coordinator.status(), supervisor is None or supervisor.stopped, watch.restart)

    def _is_over(self) -> bool:
        return self.options.stop.asked or self.coordinator.stopping or self.coordinator.abandoned is not None

    def _start(self, spark: SparkApplication, watch: OwnershipWatch) -> Supervisor:
        """The supervisor of the containers on that Spark, with its rows of the checks."""
        config = self.prepared.config
        locality = Locality(place_records(config))
        places = Places(self.coordinator, spark.executors, locality, spark.leaving)
        locality.watch(watch.checks)
        spark.wait_for(locality.hosts())
        places.watch(watch.checks)
        work = pickle.dumps((self.service.address, self.code))

        def submit(container_id: str, locations: Sequence[str], ended: Callable[[], None]) -> SparkJob:
            return SparkJob(spark, work, container_id, locations, ended)

        return Supervisor(
            self.coordinator,
            submit,
            places,
            spark,
            SYSTEM_CLOCK,
            self.options,
            backoff=partial(Backoff, config.spark.max_resubmits),
            shutdown_s=config.task.shutdown_ms / 1000,
        )

    def _end_before_spark(self) -> None:
        """End a run that was asked to stop while Spark started, so that no container has run. Raises
        JobTakenOver."""
        if self.coordinator.abandoned is not None:
            raise JobTakenOver(self.coordinator.abandoned)
        if not self.coordinator.stopping:
            self.options.on_event(STOPPING)
            self.coordinator.stop()


def _spec(prepared: PreparedJob, master: Master) -> JobSpec:
    config = prepared.config
    directory = os.getcwd() if master.on_this_machine else None  # noqa: PTH109  # text for the wire
    raw = config.raw if master.on_this_machine else without_sparks_secrets(config.raw)
    return JobSpec(prepared.model, raw, prepared.ends, directory, prepared.run_id, prepared.transactions)
