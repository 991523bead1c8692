"""Runs all tasks of a job in one container, in this process; `runner_of` chooses between this runner and Spark's.

The container itself outlasts an outage and restarts at once, for some seconds (`RestartingContainer`). `Restarts`
handles failures that last longer, with the pauses and the limit of Spark jobs (`job.spark.max.resubmits`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.container.errors.user_failures import one_line, user_failure
from samzapy.container.restart import RestartingContainer, build_container
from samzapy.container.supervision.job_records import Ownership
from samzapy.container.supervision.watch import ContainerProcess, ServePort, no_port
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.status import ContainerFailure
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import (
    EnvironmentFailure,
    JobFailed,
    JobTakenOver,
    ProducerError,
    RecordRefused,
    RestoreStalled,
    RetriableError,
    SamzapyError,
    TaskMigrated,
    Unreachable,
)
from samzapy.job.lease import Stall
from samzapy.job.planner import ContainerModel, JobModel
from samzapy.runner.base import Backoff, JobOutcome, PreparedJob, Runner, RunOptions, StartableJob, run_token, starts
from samzapy.runner.checks import Row
from samzapy.runner.driver import coordinator_of, serve, watching
from samzapy.runner.stopping import STOPPING, StopSignals

_LOOPBACK = "127.0.0.1"
#: Seconds between two statuses.
STATUS_PACE_S = 0.25
#: After these failures another start may succeed. A broker that does not answer may also cost the lease.
_MAY_PASS = (RetriableError, ProducerError, Unreachable, RestoreStalled, TaskMigrated)
#: The classes among them that the next start would only repeat.
_STAYS = (RecordRefused, JobTakenOver)


@dataclass(eq=False, kw_only=True)
class Restarts:
    """Runs containers made by `build`, one after the other, until one ends well. Signal handlers and threads may call
    `stop`.

    - `note` gets each failure, `on_failure` each that is followed by a restart, and a phrase about the restart.
    - `may_restart` returns whether this run still owns the job.
    - Once a container `has_run`, outages are outlasted: its systems were reached.
    - `wait` sleeps between two starts, and returns early after a stop.
    """

    build: Callable[[], RestartingContainer]
    backoff: Backoff
    clock: Clock
    note: Callable[[Exception], object]
    on_failure: Callable[[SamzapyError, str], None]
    may_restart: Callable[[], bool]
    has_run: Callable[[], bool]
    stopped: threading.Event = field(default_factory=threading.Event)
    wait: Callable[[float], object] | None = None
    _current: RestartingContainer | None = field(default=None, init=False)

    def stop(self) -> None:
        """Make the container commit and stop, and do not restart it."""
        self.stopped.set()
        if self._current is not None:
            self._current.stop()

    def run(self) -> None:
        """Run to the end, or to a stop. Raises the container's errors, and JobFailed after too many failed starts in a
        row."""
        while not self.stopped.is_set():
            container = self._current = self.build()
            if self.stopped.is_set():
                return
            began = self.clock.monotonic()
            try:
                container.run()
            except Exception as failure:
                self.note(failure)
                if not isinstance(failure, _MAY_PASS) or isinstance(failure, _STAYS):
                    raise
                if self.stopped.is_set() or not self.may_restart():
                    raise
                self._pause(failure, self.clock.monotonic() - began)
            else:
                return

    def _pause(self, failure: SamzapyError, lasted_s: float) -> None:
        outage = failure.outage and self.has_run()
        delay = self.backoff.after(lasted_s, outage=outage)
        if delay is None:
            if not self.backoff.limit:
                raise failure
            message = f"gave up after {self.backoff.failures + 1} failed starts in a row: {failure}"
            raise JobFailed(message, failure.exit_code) from failure
        count = "" if outage else f" ({self.backoff.failures} of {self.backoff.limit})"
        self.on_failure(failure, f"starting again {starts(delay)}{count}")
        (self.wait or self.stopped.wait)(delay)


class LocalRunner(Runner):
    """Runs the job in one container, for any `job.container.count`: one process runs Python on one core only.

    After a transient failure, such as a broker that does not answer, it restarts from the last commit, up to the same
    limit as on Spark. It raises any other failure at once."""

    def run(self, job: StartableJob, options: RunOptions) -> JobOutcome:
        job.announce()
        with StopSignals(options.stop):
            outcome = self._supervised(job.claim(), options)
        return replace(outcome, restart=None) if options.stop.asked else outcome

    def _supervised(self, prepared: PreparedJob, options: RunOptions) -> JobOutcome:
        config, token, is_reported = prepared.config, run_token(), False
        options.on_claimed(prepared)
        if prepared.model.standbys:
            options.on_event(
                "job.standbytasks.replication.factor: this process runs every task, so there are no standbys"
            )
        model = JobModel((ContainerModel("0", prepared.model.tasks),))
        spec = JobSpec(model, config.raw, prepared.ends, run_id=prepared.run_id, transactions=prepared.transactions)
        # The container logs in this process.
        coordinator = coordinator_of(prepared, spec, listen=lambda *_: None)

        def report() -> bool:
            nonlocal is_reported
            if options.stop.asked and not is_reported:
                is_reported = True
                options.on_event(STOPPING)
            options.on_status(coordinator.status())
            return True

        ownership = Ownership.of(config, prepared.run_id)
        restarts = self._restarts(prepared, coordinator, ownership, options, token)
        with ExitStack() as stack:
            stack.enter_context(options.stop.stops(restarts.stop))
            stack.callback(report)
            stack.callback(ownership.close)
            close_page = stack.enter_context(_page(config, coordinator, options, token))
            watch = stack.enter_context(watching(prepared, coordinator, options))
            watch.checks.add(Row("status", STATUS_PACE_S, report), asks=False)
            try:
                restarts.run()
            except TaskMigrated as cause:
                if coordinator.abandoned is None or isinstance(cause, JobTakenOver):
                    raise
                raise JobTakenOver(coordinator.abandoned) from cause
            if watch.lets_go:
                close_page()
        return JobOutcome(coordinator.status(), options.stop.asked or coordinator.stopping, watch.restart)

    def _restarts(
        self, prepared: PreparedJob, coordinator: Coordinator, ownership: Ownership, options: RunOptions, token: str
    ) -> Restarts:
        config, (model,) = prepared.config, coordinator.spec.model.containers
        serve_port = _port(config, options, token)
        lease: LocalLease | None = None

        def build() -> RestartingContainer:
            nonlocal lease
            ownership.close()
            lease = LocalLease(coordinator, model.id, ownership.poll)
            return build_container(
                config,
                model,
                lease,
                ends=prepared.ends,
                run_id=prepared.run_id,
                transactions=prepared.transactions,
                process=ContainerProcess(on_stalled=give_up, serve_port=serve_port),
            )

        def give_up(stall: Stall) -> None:
            """End the process: the user's code does not return, so nothing else ends the run."""
            options.on_event(f"error: container {model.id}: stalled: {stall} (task.stall.policy=fail)")
            os._exit(1)

        def note(error: Exception) -> None:
            """Note a failure as on Spark: for the page, the metrics and the last status."""
            kind, code = type(error).__name__, error.exit_code if isinstance(error, SamzapyError) else 1
            epoch = 0 if lease is None else lease.epoch
            failure = ContainerFailure(model.id, epoch, kind, one_line(error), code, user=user_failure(error))
            coordinator.fail(failure)

        return Restarts(
            build=build,
            backoff=Backoff(config.spark.max_resubmits),
            clock=SYSTEM_CLOCK,
            note=note,
            on_failure=lambda failure, then: options.on_event(f"container {model.id} failed: {failure}; {then}"),
            may_restart=lambda: coordinator.abandoned is None,
            has_run=lambda: coordinator.has_run(model.id),
        )


def _is_served(config: JobConfig) -> bool:
    """Whether the run has a page: the job file names a port for it, or turns queries on."""
    return config.page_port is not None or config.supervision.query.enabled


def _port(config: JobConfig, options: RunOptions, token: str) -> ServePort:
    """The container's HTTP port, if the page or the job file needs one."""
    if not _is_served(config) and not config.prometheus_port:
        return no_port
    # A server is needed by this job only.
    from samzapy.coordinator.port import PortSettings, container_port  # noqa: PLC0415
    from samzapy.coordinator.server import Tokens  # noqa: PLC0415

    if config.prometheus_port:
        at = f"{_LOOPBACK}:{config.prometheus_port}"
        options.on_event(f"metrics of the container: http://{at}/metrics, with the bearer token {Tokens(token).read}")
    return partial(container_port, PortSettings(_LOOPBACK, token))


@contextmanager
def _page(config: JobConfig, coordinator: Coordinator, options: RunOptions, token: str) -> Iterator[Callable[[], None]]:
    """Serve the status page on this machine, if the job file names a port for it or turns queries on. Yields a function
    that closes it earlier."""
    if not _is_served(config):
        yield lambda: None
        return
    # A server is needed by this job only.
    from samzapy.coordinator.service import Addresses  # noqa: PLC0415

    addresses = Addresses(port=config.page_port or 0, names=config.page_hosts)
    with closing(serve(config, coordinator, token, addresses)) as service:
        options.on_event(f"status page: {service.page}")
        options.on_page(service.page)
        yield service.close


def runner_of(name: str, session: object = None) -> Runner:
    """`spark` or `local`. `session`: the SparkSession or SparkContext to run on; None for the session of this process
    or of its `spark-submit`, and without one a new Spark.

    Raises EnvironmentFailure without pyspark, ConfigError for a session that cannot run jobs, ValueError for other
    names."""
    if name == "local":
        return LocalRunner()
    if name != "spark":
        raise ValueError(f"runner: expected spark or local, got {name!r}")
    try:
        from samzapy.runner.spark.runner import SparkRunner  # noqa: PLC0415  # pyspark takes its time
        from samzapy.runner.spark.sources import spark_source  # noqa: PLC0415
    except ImportError as cause:
        raise EnvironmentFailure(f"Spark cannot be imported ({cause}): install pyspark") from cause
    return SparkRunner(spark_source(session))
