"""Runs a job on Spark: claims it, and starts the coordinator, the application and the supervisor; ends them in reverse.

Spark takes seconds to start, which needs no ownership. So it starts in a thread while the job is claimed. If another run of
the job is active, the job is claimed only when Spark has its executors and their Python workers.

`SparkJob` runs containers as one Spark job, waits for it in a thread, and puts its failure into one line.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from pyspark import RDD
from pyspark.serializers import CPickleSerializer

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.wire import CoordinatorAddress, JobSpec, Place
from samzapy.errors import EnvironmentFailure, JobTakenOver
from samzapy.queries.exchange import Exchange
from samzapy.runner.base import JobOutcome, PreparedJob, Runner, RunOptions, StartableJob, run_token
from samzapy.runner.driver import coordinator_of, watching
from samzapy.runner.handover import OwnershipWatch
from samzapy.runner.restarts import backoff_of
from samzapy.runner.serving import coordinator_identity, records_of, serve
from samzapy.runner.spark.application import SparkApplication, collected, one_line
from samzapy.runner.spark.driver_address import coordinator_host
from samzapy.runner.spark.master import Master, check_reach, checked_master, without_sparks_secrets
from samzapy.runner.spark.placement import ContainerSlot, Locality, SparkPlaces, StatePlaces, exactly, place_records
from samzapy.runner.spark.sources import OwnSpark, SparkSource
from samzapy.runner.spark.spares import Spares
from samzapy.runner.spark.starting import Start, StartingSpark
from samzapy.runner.spark.supervisor import SlotRun, StoppedUncommitted, Supervisor
from samzapy.runner.spark.user_code import TravellingCode
from samzapy.runner.spark.worker import do_nothing, run_task
from samzapy.runner.stopping import STOPPING, StopSignals
from samzapy.version import VERSION

logger = logging.getLogger(__name__)


def placed(context: Any, elements: Sequence[str], locations: Sequence[str]) -> Any:
    """One partition for each element, all of them at one of `locations` if there is room within `spark.locality.wait`."""
    jvm, pickled = context._jvm, CPickleSerializer()  # noqa: SLF001  # the only way to it
    seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    preferred = seq(list(locations))
    pairs = [jvm.scala.Tuple2(bytearray(pickled.dumps(element)), preferred) for element in elements]
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    made = context._jsc.sc().makeRDD(seq(pairs), tag)  # noqa: SLF001
    return RDD(made.toJavaRDD(), context, pickled)


_PYTHON_MISMATCH = re.compile(r"\[PYTHON_VERSION_MISMATCH\]\s*(.*?)\.(?:\s|$)", re.DOTALL)
#: samzapy, its dependencies and Spark's Python. Any other missing module is one of the user's code, and the error of
#: that code names it.
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named "
    r"'(samzapy[\w.]*|pyspark|py4j|confluent_kafka|rocksdict|orjson|msgpack|numpy|javaproperties|urllib3|psutil)'"
)
_OTHER_SAMZAPY = re.compile(r"EnvironmentFailure: (samzapy \S+ is installed for the executor's Python, .*)")
#: An executor's samzapy that lacks the function of the task.
_OLDER_SAMZAPY = re.compile(rf"Can't get attribute '{run_task.__name__}' on <module 'samzapy\b")


class SparkJob:
    """An attempt of a slot. Starts at once; its thread calls `ended` after Spark has ended the job, well or not."""

    def __init__(
        self,
        context: Any,
        coordinator: CoordinatorAddress,
        container_ids: Sequence[str],
        ended: Callable[[], None],
        locations: Sequence[str] | None = None,
        *,
        code: TravellingCode = TravellingCode(),  # noqa: B008  # frozen
        collect: Callable[[Any], object] = collected,
    ) -> None:
        """`locations`: where each container should run if there is room, as Spark names hosts and executors; None leaves
        it to Spark. `code`: the user's code, as far as it goes with the job. `collect` runs an RDD's job."""
        self._context = context
        self._locations = locations
        self._group = uuid4().hex
        self._work = partial(run_task, VERSION, pickle.dumps((coordinator, code)))
        self._collect = collect
        self._ids = list(container_ids)
        self._ended = ended
        self._error: Exception | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, name="spark-job", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether Spark still works on it."""
        return not self._over

    def cancel(self) -> None:
        """Make Spark kill the tasks, if Spark still runs; then `ended` is called."""
        try:
            self._context.cancelJobGroup(self._group)
        except Exception as cause:  # noqa: BLE001  # py4j raises many errors after the JVM has ended
            logger.info("Spark did not cancel the job of container %s: %s", ", ".join(self._ids), one_line(cause))

    def error(self) -> str | None:
        """The reason why Spark gave up, in one line; None if every task ended. Raises EnvironmentFailure for problems that a
        retry cannot solve."""
        self._thread.join()
        if self._error is None:
            return None
        message = str(self._error)
        mismatch = _PYTHON_MISMATCH.search(message) or _OTHER_SAMZAPY.search(message)
        if mismatch is not None:
            raise EnvironmentFailure(" ".join(mismatch[1].split())) from self._error
        missing = _NO_MODULE.search(message)
        if missing is not None:
            raise EnvironmentFailure(
                f"the executors' Python has no {missing[1]}: install samzapy there, or name another Python "
                "(job.spark.conf.spark.pyspark.python; with a session of your own PYSPARK_PYTHON, set before it is made)"
            ) from self._error
        if _OLDER_SAMZAPY.search(message):
            raise EnvironmentFailure(
                f"the executors' Python has an older samzapy, the driver has {VERSION}: install {VERSION} there"
            ) from self._error
        return one_line(self._error)

    def _run(self) -> None:
        try:
            if self._locations is None:
                tasks = self._context.parallelize(self._ids, len(self._ids))
            else:
                self._context.setJobGroup(self._group, f"container {', '.join(self._ids)}")
                tasks = placed(self._context, self._ids, self._locations)
            self._collect(tasks.mapPartitions(self._work))
        except Exception as cause:  # noqa: BLE001  # every reason is kept for `error`
            self._error = cause
        finally:
            # Before `ended`, which looks at it.
            self._over = True
            self._ended()


@dataclass(frozen=True)
class _Part:
    """A run of the job with the same inputs: its containers, their coordinator with its service, and their code and place."""

    prepared: PreparedJob
    coordinator: Coordinator
    service: CoordinatorService
    code: TravellingCode
    master: Master

    def free_ports(self) -> None:
        """Stop listening at the ports of the job file: before that, the next run cannot listen there."""
        if self.prepared.config.spark.coordinator_port or self.prepared.config.page_port:
            self.service.close()


class SparkRunner(Runner):
    """Runs a job's containers as the tasks of a Spark job, until they end or a signal stops them.

    The coordinator's token that acts comes from the environment variable SAMZAPY_TOKEN; without it, the token is random.
    """

    def __init__(self, source: SparkSource = OwnSpark(), clock: Clock = SYSTEM_CLOCK) -> None:  # noqa: B008  # no state
        """`source`: where the Spark of a run comes from."""
        self._source = source
        self._clock = clock
        self._wait = threading.Event().wait

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
        master = checked_master(config, len(job.model.containers), len(job.model.standbys), endless=job.endless)
        code = TravellingCode.of(config)
        token = run_token()
        host = coordinator_host(config.spark, master)
        identity = coordinator_identity(
            config.spark.coordinator_tls, host, self._clock, remote=not master.on_this_machine
        )

        def start(spark: Start) -> SparkApplication:
            source = self._source.application(config, master, token, verbose=options.verbose, began=spark.began)
            return spark.opened.enter_context(source)

        everyone = len(job.model.containers) + len(job.model.standbys)
        # Spark takes seconds to stop. A signal in that time must not end the process before it has said why the job failed,
        # so the handlers go last; and containers are answered until Spark has stopped.
        with (
            ExitStack() as handlers,
            ExitStack() as services,
            StartingSpark(
                start, everyone, master.address, config.spark.start_timeout_ms, self._clock, options.on_event
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
            service = _served(coordinator, prepared.config, token, at)
            services.callback(service.close)
            options.on_event(f"status page: {service.pinned_page}")
            options.on_page(service.pinned_page)
            outcome = self._supervised(_Part(prepared, coordinator, service, code, master), starting, signals, options)
        return replace(outcome, restart=None) if signals.received or options.stop.asked else outcome

    def _supervised(
        self, part: _Part, starting: StartingSpark, signals: StopSignals, options: RunOptions
    ) -> JobOutcome:
        """Supervise the containers to their end."""
        prepared, coordinator, config = part.prepared, part.coordinator, part.prepared.config

        def asked() -> bool:
            return signals.received or options.stop.asked

        uncommitted: StoppedUncommitted | None = None
        with ExitStack() as stack:
            watch = stack.enter_context(watching(prepared, coordinator, options.on_event, asked))
            spark = starting.application(lambda: asked() or coordinator.stopping or coordinator.abandoned is not None)
            if spark is None:
                return self._ended_before_spark(part, watch, options)
            locality = Locality(place_records(config))
            locality.watch(watch.checks)
            places = locality if config.placement.chooses and not part.master.one_executor else None
            submit = self._submitter(coordinator, spark, part.service.address, part.code, places)
            supervisor = self._supervisor(coordinator, submit, spark, config, options)
            signals.calls(supervisor.stop, spark.kill)
            stack.enter_context(options.stop.stops(supervisor.stop))
            if not part.master.one_executor:
                Spares(spark, coordinator, partial(_ready, spark)).watch(watch.checks)
            try:
                status = supervisor.run()
            except StoppedUncommitted as failure:
                if not watch.may_restart or watch.lets_go:
                    raise
                options.on_event(f"{failure}; the containers start again from their last commit")
                status, uncommitted = coordinator.status(), failure
            if watch.lets_go:
                part.free_ports()
        # A stop or a handover may have come until the run had noted its end.
        if uncommitted is not None and watch.restart is None:
            raise uncommitted
        return JobOutcome(status, supervisor.stopped, watch.restart)

    @staticmethod
    def _ended_before_spark(part: _Part, watch: OwnershipWatch, options: RunOptions) -> JobOutcome:
        """The end of a run that was asked to stop while Spark started, so that no container has run. Raises JobTakenOver."""
        if part.coordinator.abandoned is not None:
            raise JobTakenOver(part.coordinator.abandoned)
        if not part.coordinator.stopping:
            options.on_event(STOPPING)
            part.coordinator.stop()
        if watch.lets_go:
            part.free_ports()
        return JobOutcome(part.coordinator.status(), stopped=True)

    def _supervisor(
        self,
        coordinator: Coordinator,
        submit: Callable[[tuple[str, ...], Callable[[], None]], SlotRun],
        spark: SparkApplication,
        config: JobConfig,
        options: RunOptions,
    ) -> Supervisor:
        backoff, shutdown_s = backoff_of(config.spark), config.task.shutdown_ms / 1000
        return Supervisor(coordinator, submit, spark, backoff, self._clock, options, shutdown_s)

    def _submitter(
        self,
        coordinator: Coordinator,
        spark: SparkApplication,
        address: CoordinatorAddress,
        code: TravellingCode,
        locality: Locality | None,
    ) -> Callable[[tuple[str, ...], Callable[[], None]], SlotRun]:
        """The function that submits containers: to the places in `locality`, or, without it, to any place that Spark chooses."""
        model, clock = coordinator.spec.model, self._clock

        def start(ids: Sequence[str], locations: Sequence[str] | None, ended: Callable[[], None]) -> SparkJob:
            return SparkJob(spark.context, address, ids, ended, locations, code=code, collect=spark.collect)

        def submit(ids: tuple[str, ...], ended: Callable[[], None]) -> SlotRun:
            if locality is None:
                return SlotRun([ContainerSlot(ids)], (), coordinator, start, SparkPlaces(), clock, ended, tries=1)
            spark.wait_for(locality.hosts(), self._wait)
            containers = [ContainerSlot((i,)) for i in ids]
            standbys = [ContainerSlot((i,)) for each in ids for i in model.standbys_of(each)]
            policy = StatePlaces(coordinator, spark.executors, locality)
            return SlotRun(containers, standbys, coordinator, start, policy, clock, ended)

        return submit


def _ready(spark: SparkApplication, place: Place) -> None:
    """Make an executor run a task that does nothing."""
    spark.collect(placed(spark.context, ["nothing"], [exactly(place)]).mapPartitions(do_nothing))


def _spec(prepared: PreparedJob, master: Master) -> JobSpec:
    """The job as its containers get it."""
    config = prepared.config
    directory = os.getcwd() if master.on_this_machine else None  # noqa: PTH109  # text for the wire
    raw = config.raw if master.on_this_machine else without_sparks_secrets(config.raw)
    return JobSpec(prepared.model, raw, prepared.ends, directory, prepared.run_id, prepared.transactions)


def _served(coordinator: Coordinator, config: JobConfig, token: str, at: Addresses) -> CoordinatorService:
    """The coordinator's service. Raises EnvironmentFailure."""
    return serve(
        coordinator,
        records_of(config, coordinator, Exchange(coordinator.holder)),
        token,
        at,
    )
