"""Runs a job on Spark: starts the coordinator, the application and the supervisor in this order, and ends them in reverse."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.runner.base import JobOutcome, PreparedJob, Runner, RunOptions
from samzapy.runner.driver import coordinator_of, watching
from samzapy.runner.restarts import backoff_of
from samzapy.runner.signals import StopSignals
from samzapy.runner.spark.application import SparkApplication
from samzapy.runner.spark.locality import Locality, place_records
from samzapy.runner.spark.master import Master, check_reach, coordinator_host
from samzapy.runner.spark.placement import ContainerSlot, SparkPlaces, StatePlaces
from samzapy.runner.spark.settings import TOKEN
from samzapy.runner.spark.slots import SlotRun
from samzapy.runner.spark.spark_job import SparkJob
from samzapy.runner.spark.supervisor import Supervisor


class SparkRunner(Runner):
    """Runs a job's containers as the tasks of a Spark job, until they end or a signal stops them.

    The coordinator's token is taken from the environment's SAMZAPY_TOKEN, else drawn.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._wait = threading.Event().wait

    def check(self, config: JobConfig) -> tuple[str, ...]:
        """Check that the executors can reach the streams and folders of the job file. Raises ConfigError."""
        return check_reach(config)

    def run(self, prepared: PreparedJob, options: RunOptions) -> JobOutcome:
        """Run to the end or to a signal. Raises JobFailed, JobTakenOver, ConfigError, EnvironmentFailure."""
        config = prepared.config
        master = _checked_master(prepared)
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
        directory = os.getcwd() if master.on_this_machine else None  # noqa: PTH109  # text for the wire
        spec = JobSpec(prepared.model, config.raw, prepared.ends, directory, prepared.run_id, prepared.transactions)
        coordinator = coordinator_of(prepared, spec, self._clock)
        host = coordinator_host(config, master)
        # Spark takes seconds to stop. A signal in that time must not end the process before it has said why the job failed,
        # so the handlers go last.
        with ExitStack() as handlers, ExitStack() as stack:
            service = CoordinatorService(coordinator, token, host, config.spark.coordinator_port)
            stack.callback(service.close)
            options.on_event(f"status page: {service.url}/?token={token}")
            spark = stack.enter_context(SparkApplication(config, master, token, verbose=options.verbose))
            locality = stack.enter_context(Locality(place_records(config)))
            placed = config.placement.chooses and not master.one_executor
            supervisor = Supervisor(
                coordinator,
                self._submitter(coordinator, spark, service.url, locality if placed else None),
                spark,
                backoff_of(config.spark),
                self._clock,
                options,
                config.task.shutdown_ms / 1000,
            )
            handlers.enter_context(StopSignals(supervisor.stop, spark.kill))
            stack.enter_context(watching(prepared, coordinator))
            status = supervisor.run()
        return JobOutcome(status, supervisor.stopped)

    def _submitter(
        self, coordinator: Coordinator, spark: SparkApplication, url: str, locality: Locality | None
    ) -> Callable[[tuple[str, ...], Callable[[], None]], SlotRun]:
        """The function that submits containers: to the places that `locality` knows, or wherever Spark likes (None)."""
        model, clock = coordinator.spec.model, self._clock

        def start(ids: Sequence[str], locations: Sequence[str] | None, ended: Callable[[], None]) -> SparkJob:
            return SparkJob(spark.context, url, ids, ended, locations)

        def submit(ids: tuple[str, ...], ended: Callable[[], None]) -> SlotRun:
            if locality is None:
                return SlotRun([ContainerSlot(ids)], (), coordinator, start, SparkPlaces(), clock, ended, tries=1)
            spark.wait_for(locality.hosts(), self._wait)
            containers = [ContainerSlot((i,)) for i in ids]
            standbys = [ContainerSlot((i,)) for each in ids for i in model.standbys_of(each)]
            policy = StatePlaces(coordinator, spark.executors, locality)
            return SlotRun(containers, standbys, coordinator, start, policy, clock, ended)

        return submit


def _checked_master(prepared: PreparedJob) -> Master:
    """The master of the job. Raises ConfigError if it has too few slots or executors for the containers."""
    address = prepared.config.spark.master
    containers, standbys = len(prepared.model.containers), len(prepared.model.standbys)
    master = Master.parse(address) if address else Master.default(containers)
    master.check_standbys(standbys)
    if prepared.ends is None or standbys:
        master.check_slots(containers + standbys)
    return master
