"""Restarts a container in place after a failure that may pass.

After an aborted transaction, or one with an unknown outcome, all work since the last commit is void: inputs, caches,
uncommitted bytes, and the state of the user's object. So nothing is rewound piece by piece. The container is closed and
started again, in the order of `lifecycle`. That takes about a second.

An outage of the broker counts against no limit: a container that has run before waits for its end here (`Outage`), and
so reaches none of the rungs. The first start of a run fails at once, since its address may be wrong.

This is the lowest rung of the ladder of retries. A rung retries what it can, then raises to the next one; it knows
nothing of the rungs above it.

    rung            retries after                            at most                          then
    1  in place     a call that may succeed next time        5 starts in a row, 12 s of       the worker's attempt fails
       (here)       (RESTARTABLE; a ProducerError where      pauses; starts that commit
                    task.error.produce asks for retries)     begin the count again
    2  driver       an attempt that failed, a worker or      job.spark.max.resubmits in a     the run fails
                    an executor that died: submits the       row, with back-off
                    container again

A local run has no Spark: its runner takes the place of rung 2, with the same limit and pauses. Two kinds of
failure climb at once: one that another start would only repeat (a configuration error, a record that is too large), and
the loss of the lease or of the job, after which the container is another attempt's.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial

from samzapy import errors
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import AsyncStreamTask, CoroutineTask
from samzapy.checkpoint import manager_for
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.error_policy import Stage
from samzapy.config.guarantee_warnings import guarantee_warnings
from samzapy.config.job import JobConfig
from samzapy.config.task import TaskConfig
from samzapy.container.builder import ContainerBuilder
from samzapy.container.errors.user_failures import user_failure
from samzapy.container.lifecycle import Container
from samzapy.container.outputs.producers import StateTransactions, state_transactions, weakened_state
from samzapy.container.supervision.heartbeat import Heartbeat
from samzapy.container.supervision.job_records import Ownership
from samzapy.container.supervision.lag import LagWatch
from samzapy.container.supervision.outage import Outage
from samzapy.container.supervision.watch import OWN_PROCESS, ContainerProcess, ContainerWatch, Reporting, ignore_stall
from samzapy.container.supervision.worker_process import ProcessUsage, provide_descriptors
from samzapy.container.tasks.synchronous import SECONDS
from samzapy.container.tasks.task_builder import Plugins, load_task_class
from samzapy.failpoints import arm_from_environment
from samzapy.job.lease import ContainerLease, ContainerReport, Directive
from samzapy.job.planner import ContainerModel
from samzapy.metrics import Registry, SnapshotHeader
from samzapy.metrics.registry import RECENT, recent
from samzapy.queries.committed import CommittedStores
from samzapy.serializers import task_serdes
from samzapy.storage.spec import store_specs
from samzapy.system.clients import job_clients, load_factory

logger = logging.getLogger(__name__)

#: A broker that times a transaction out fences its producer, so a fenced producer may still be the rightful one. The
#: next start rebuilds a damaged store from its changelog.
_ABORTED = errors.TransactionAborted, errors.TransactionIndeterminate
RESTARTABLE = (*_ABORTED, errors.ProducerFenced, errors.RetriableError, errors.StoreCorrupted)

#: The seconds before each start in a row.
_PAUSES_S = (0.4, 0.8, 1.6, 3.2, 6.4)


class RestartingContainer:
    """Runs containers built by `build` until one ends without a failure; `run` and `stop` work as in a container."""

    def __init__(
        self,
        *,
        build: Callable[[], Container],
        lease: ContainerLease,
        ownership: Ownership,
        task: TaskConfig,
        around: Sequence[AbstractContextManager[object]],
        clock: Clock,
        ask: Callable[[], object],
    ) -> None:
        """`task`: for the repetitions of a failed send, which repeat all work since the last commit, and for the
        warning about long transactions. `around`: entered while containers run. `ask`: as of `Outage`."""
        self._around = around
        self._build = build
        self._ownership = ownership
        self._clock = clock
        self._transaction_timeout_ms = task.transaction_timeout_ms
        self._lease = lease
        self._asked_for = tuple(task.errors.policies[Stage.PRODUCE].pauses_s())
        self._current: Container | None = None
        self._stopped = threading.Event()
        self._resumes = lease.resumes
        self._outage = Outage(ask, self._stopped.wait)

    def stop(self) -> None:
        """Ask for a commit and a graceful stop; may be called from a signal handler or another thread."""
        self._stopped.set()
        current = self._current
        if current is not None:
            current.stop()

    def run(self) -> ContainerReport:
        """Run to the end. Raises a container's error if a restart cannot help, or if another attempt owns the
        container. The log has the traceback of a failure of the user's code."""
        try:
            with ExitStack() as entered:
                for item in self._around:
                    entered.enter_context(item)
                return self._run()
        except errors.SamzapyError as failure:
            result = user_failure(failure)
            if result is not None:
                cause = failure.__cause__
                # The message of an error of samzapy's own has the line of the user's code.
                shown = None if cause is None or isinstance(cause, errors.SamzapyError) else cause
                logger.error("%s", failure, exc_info=shown)  # noqa: TRY400  # of the user's own
            raise

    def _run(self) -> ContainerReport:
        in_a_row = 0
        while True:
            container = self._current = self._build()
            if self._stopped.is_set():
                container.stop()
            try:
                return container.run()
            except errors.SamzapyError as failure:
                self._resumes = self._resumes or bool(container.tasks)
                if failure.outage and self._resumes:
                    in_a_row = 0
                    self._check_lease(container, failure)
                    report = self._outlast(container, failure)
                    if report is not None:
                        return report
                    continue
                in_a_row = 1 if container.commits > 1 else in_a_row + 1
                pauses = self._pauses(failure)
                if in_a_row > len(pauses):
                    raise
                self._check_lease(container, failure)
                if isinstance(failure, errors.StaleEpoch):
                    self._outgrow(failure)
                self._wait(container, failure, pauses[in_a_row - 1])

    def _pauses(self, failure: errors.SamzapyError) -> Sequence[float]:
        """The seconds before each start in a row; empty for a failure that no restart helps."""
        if isinstance(failure, errors.RecordRefused):
            return ()
        if isinstance(failure, RESTARTABLE):
            return max(_PAUSES_S, self._asked_for, key=len)
        return self._asked_for if isinstance(failure, errors.ProducerError) else ()

    @contextmanager
    def _between(self, container: Container, phase: str) -> Iterator[Heartbeat]:
        """Between two starts no container reports, and a broker's outage may outlast a lease."""
        between = Heartbeat(self._lease, container.report, self._clock)
        between.phase(phase)
        between.start()
        try:
            yield between
        except BaseException:
            between.finish("restarting")
            raise

    def _outlast(self, container: Container, failure: errors.SamzapyError) -> ContainerReport | None:
        """Wait for the end of an outage; returns the last report if a stop has come before. Nothing is left to commit
        then."""
        with self._between(container, "waiting") as between:
            anew = container.commits > 1
            if not self._outage.outlast(
                failure, lambda: not (between.should_stop() or self._stopped.is_set()), anew=anew
            ):
                logger.warning("Stopped in an outage, without a commit: the next start goes on from the last one")
                return between.finish("done")
            self._check_ownership()
            between.finish("restarting")
            return None

    def _wait(self, container: Container, failure: errors.SamzapyError, seconds: float) -> None:
        with self._between(container, "restarting") as between:
            self._check_ownership()
            logger.warning("Starting again from the last commit after: %s", failure)
            if isinstance(failure, errors.ProducerFenced):
                logger.warning(
                    "No newer attempt has fenced it, so the broker did: a transaction was open for longer than "
                    "task.transaction.timeout.ms (%d); raise this key, commit more often, or do less in one process()",
                    self._transaction_timeout_ms,
                )
            self._stopped.wait(seconds)
            between.finish("restarting")

    def _check_lease(self, container: Container, failure: errors.SamzapyError) -> None:
        try:
            directive = self._lease.report(container.report("restarting"))
        except errors.RetriableError as silence:
            lost = f"{failure}; and the coordinator does not answer ({silence})"
            raise errors.TaskMigrated(lost, outage=silence.outage) from failure
        if directive is Directive.ABANDON:
            raise errors.TaskMigrated(f"a newer attempt runs this container ({failure})") from failure

    def _outgrow(self, failure: errors.StaleEpoch) -> None:
        """Continue under a greater epoch, if this run owns the job. If that is unknown, the greater epoch owns it."""
        if not self._ownership.known:
            raise errors.TaskMigrated(str(failure)) from failure
        self._ownership.poll_once()
        self._lease.outgrow(failure.newest)

    def _check_ownership(self) -> None:
        try:
            self._ownership.poll_once()
        except errors.JobTakenOver:
            raise
        except errors.SamzapyError as silence:
            # The next start finds out. It may fence the rightful owner, which then restarts once more.
            level = logging.DEBUG if silence.outage else logging.WARNING
            logger.log(level, "Cannot tell whether another run has taken over (%s)", silence)


def build_container(
    config: JobConfig,
    model: ContainerModel,
    lease: ContainerLease,
    *,
    ends: Mapping[SystemStreamPartition, int] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    run_id: str | None = None,
    transactions: bool = True,
    process: ContainerProcess = OWN_PROCESS,
) -> RestartingContainer:
    """A container that is ready to `run`. It connects, opens and restores nothing before that.

    `ends`: the offset before which each partition ends in a bounded run. `run_id`: the run that the container is part
    of; it gives way to a newer run. `transactions`: False if a system has refused the job's transactional ids.
    `process`: the process around it. Raises ConfigError, TooFewFiles.
    """
    arm_from_environment(os.environ)
    engines = store_specs(config)
    provide_descriptors(config, model, engines)
    task_class = load_task_class(config.task.task_class)
    plugins = Plugins(engines, task_serdes(config), task_class)
    ownership = Ownership.of(config, run_id)
    metrics = Registry()
    state = state_transactions(config) if transactions else StateTransactions(None, "task.guarantee")
    metrics.gauge("promises", "weakened").set(
        len((*guarantee_warnings(config, load_factory, task_class), *weakened_state(config.stores, state)))
    )
    metrics.watch("container", ProcessUsage())
    is_async = issubclass(task_class, (AsyncStreamTask, CoroutineTask))
    slots = config.task.asynchronous.max_concurrency * len(model.tasks) if is_async else 1
    metrics.watch(RECENT, recent(metrics, metrics.histogram("process", "seconds", SECONDS), clock, slots))

    def build() -> Container:
        metrics.counter("container", "starts").inc()
        clients = job_clients(config, model.id)
        metrics.watch("clients", clients.metrics)
        checkpoints = manager_for(config, clients)
        builder = ContainerBuilder(
            config, model, clients, checkpoints, plugins, metrics=metrics, transactions=state.system, clock=clock
        )
        return Container(
            builder, lease, ends or {}, clock, ownership, on_lost=process.on_lost, watch=watch, committed=stores
        )

    watch = _watch(config, model, clock, process)
    stores = CommittedStores()
    header = SnapshotHeader(config.name, config.id, model.id, socket.gethostname())
    tasks = frozenset(task.name for task in model.tasks)
    clients_of_metrics = job_clients(config, f"{model.id}-metrics")
    reporting = Reporting(config.metrics_reporters, header, tasks, metrics, clients_of_metrics, clock)
    return RestartingContainer(
        build=build,
        lease=lease,
        ownership=ownership,
        task=config.task,
        around=(reporting, watch, process.serve_port(config, model, lease, metrics, stores)),
        clock=clock,
        ask=partial(_ask, config, model),
    )


def _watch(config: JobConfig, model: ContainerModel, clock: Clock, process: ContainerProcess) -> ContainerWatch:
    seen, clients = config.supervision, job_clients(config, f"{model.id}-lag")
    lag = LagWatch(model.ssps, clients, clock, group=config.job_name if seen.mirror else "")
    on_stalled = process.on_stalled if seen.stall_fails else ignore_stall
    return ContainerWatch(lag, clock, seen.stall_ms / 1000, process.lines, on_stalled)


def _ask(config: JobConfig, model: ContainerModel) -> None:
    """Ask for the ends of the container's inputs: their leaders answer, and no controller is needed."""
    with closing(job_clients(config, f"{model.id}-waiting")) as clients:
        clients.ends(model.ssps)
