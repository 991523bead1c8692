"""A standby container: reads the changelogs of a container's tasks into copies of their stores, and runs no task.

A machine that takes a task over then reads only the changelog's tail. A copy is like the task's store: the same layout,
the same marker, the same rules for its use. It lies beside the task's store (`Partition_0.standby-1`), and replaces it
when the task starts on this machine and the copy is further.

start   1  the lease
        2  open the copies, or set them aside, as a task would
        3  follow the changelogs (committed records only) from where the copies are
stop    1  write the records read, flush the copies to disk, close them: then an active container can use them
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial

from samzapy.api.engine import StorageEngine
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.clock import SYSTEM_CLOCK, Clock, Measured
from samzapy.config.job import JobConfig
from samzapy.container.supervision.heartbeat import Heartbeat, keep_running
from samzapy.container.supervision.watch import ServePort, no_port
from samzapy.container.supervision.worker_process import sweep_in_background
from samzapy.errors import SamzapyError
from samzapy.job.lease import ContainerLease, ContainerReport
from samzapy.job.model import ContainerModel, replica_of
from samzapy.metrics import Registry
from samzapy.queries.committed import CommittedStores, Published, PublishedStore
from samzapy.serializers import serde_registry
from samzapy.storage.local.directory import standby_name
from samzapy.storage.opening import JobStores, StoreOpener, TaskSettings, job_stores
from samzapy.storage.spec import store_specs
from samzapy.system.clients import SystemClients, job_clients

logger = logging.getLogger(__name__)

_POLL_S, _POLL_RECORDS = 0.2, 50_000
#: Seconds between two looks at the changelogs' ends, and between two flushes of the engines.
_LOOK_S, _FLUSH_S = 1.0, 60.0
#: Seconds between two looks while the engines are busy: the lag is measured as often as that.
_MEASURED_S = 5.0


class StandbyStores:
    """The copies that one standby container keeps of one task's stores. One thread."""

    def __init__(self, job: JobStores, task: TaskSettings, replica: int) -> None:
        """Opens them. Raises StoreLocked while an earlier attempt still has them, EnvironmentFailure."""
        kept = {
            name: store
            for name, store in job.configs.items()
            if store.changelog is not None and job.engines[name].persistent
        }
        own = replace(task, name=standby_name(task.name, replica))
        self._opener = StoreOpener(replace(job, configs=kept), own)
        self._opener.begin()
        self._following = {store.ssp: store for store in self._opener.following()}
        for store in self._following.values():
            store.share(len(self._following) * task.tasks_in_container)

    @property
    def starts(self) -> dict[SystemStreamPartition, int]:
        """The offsets at which the reads of the changelogs start."""
        return {ssp: store.start for ssp, store in self._following.items()}

    @property
    def engines(self) -> Mapping[SystemStreamPartition, tuple[str, StorageEngine]]:
        """The store and the engine with its copy, by changelog partition."""
        return self._opener.engines

    def add(self, batch: RecordBatch) -> None:
        """Take records of one changelog partition, in order. Raises RestoreError, KeyError for another task's."""
        self._following[batch.ssp].add(batch)

    def write(self) -> None:
        """Put the taken records into the engines."""
        for store in self._following.values():
            store.write_gathered()

    def complete(self, ends: Mapping[SystemStreamPartition, int], now_ms: int) -> None:
        """Note that everything before these ends was taken, and that they were the ends at `now_ms`. So the copy of a
        changelog that is silent for longer than it keeps deletions does not look old."""
        for ssp, end in ends.items():
            self._following[ssp].complete(end - 1, now_ms)

    def flush(self) -> None:
        """Flush the engines' memory to disk."""
        for store in self._following.values():
            store.flush()

    def close(self) -> None:
        """Close the engines. The next attempt reads the unwritten records again."""
        self._opener.abandon()


def standby_container(
    config: JobConfig,
    model: ContainerModel,
    lease: ContainerLease,
    on_lost: Callable[[str], None] = keep_running,
    look_s: float = _LOOK_S,
    clock: Clock = SYSTEM_CLOCK,
    serve_port: ServePort = no_port,
) -> StandbyContainer:
    """A standby of one container of the job, ready to `run`; it opens nothing before that. `serve_port` serves
    its HTTP port."""

    def stores(clients: SystemClients) -> JobStores:
        engines, serdes = store_specs(config), serde_registry(config)
        return job_stores(config, serdes=serdes, engines=engines, admin_of=clients.admin, clock=clock)

    clients = partial(job_clients, config, model.id)
    sweep = partial(sweep_in_background, config, (), clock)
    port = partial(serve_port, config, model, lease)
    return StandbyContainer(model, lease, StandbyParts(clients, stores, sweep, port), on_lost, look_s, clock)


@dataclass(frozen=True)
class StandbyParts:
    """The parts of a job that a standby needs. `clients` and `stores` are made when it runs; `sweep` is called once
    the copies are open; `port` serves its metrics and the copies."""

    clients: Callable[[], SystemClients]
    stores: Callable[[SystemClients], JobStores]
    sweep: Callable[[], object]
    port: Callable[[Registry, CommittedStores], AbstractContextManager[object]] = no_port


class StandbyContainer:
    """Runs once: `run` follows until `stop`, a directive, or a failure."""

    def __init__(
        self,
        model: ContainerModel,
        lease: ContainerLease,
        parts: StandbyParts,
        on_lost: Callable[[str], None],
        look_s: float,
        clock: Clock,
    ) -> None:
        """`look_s`: seconds between two looks at the ends of the changelogs; after each, the records read so far are
        written. `on_lost` is called when the lease is lost and the container still runs one lease duration later."""
        self._serve_port, self._committed = parts.port, CommittedStores()
        self._look_s, self._period_s = look_s, max(look_s, _MEASURED_S)
        self._new_clients = parts.clients
        self._stores_of = parts.stores
        self._sweep = parts.sweep
        self._model = model
        self._lease = lease
        self._clock = clock
        self._metrics = Registry()
        self._stores: dict[str, StandbyStores] = {}
        self._owner: dict[SystemStreamPartition, StandbyStores] = {}
        self._consumers: dict[str, SystemConsumer] = {}
        self._positions: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._goal: dict[SystemStreamPartition, int] = {}
        self._lag: Measured[int] | None = None
        self._metrics.watch("standby", self._measured)
        self._heartbeat = Heartbeat(lease, self.report, clock, on_lost)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ask for an end with complete copies; callable from any thread."""
        self._heartbeat.request_stop()
        self._stopping.set()

    def run(self) -> ContainerReport:
        """Follow until asked to stop; returns the last report. Raises TaskMigrated, and the errors of systems and
        stores."""
        self._heartbeat.start()
        try:
            with ExitStack() as stack:
                stack.enter_context(self._serve_port(self._metrics, self._committed))
                clients = stack.enter_context(closing(self._new_clients()))
                self._open(clients, stack)
                stack.callback(self._committed.withdraw)
                self._follow(clients)
                self._heartbeat.phase("stopping")
                self._write(flush=True)
        except BaseException:
            self._heartbeat.finish("failed")
            raise
        return self._heartbeat.finish("done")

    def report(self, phase: str) -> ContainerReport:
        """A report of the present state, with the changelogs' positions and ends."""
        return ContainerReport(
            container_id=self._model.id,
            epoch=self._lease.epoch,
            phase=phase,
            positions=dict(self._positions),
            ends=dict(self._ends) if self._measured() else {},
            metrics=self._metrics.snapshot(),
        )

    def _measured(self) -> dict[str, float]:
        """The lag, if it is known."""
        lag = self._lag
        return {"lag": lag.value} if lag is not None and lag.is_known(self._clock.monotonic(), self._period_s) else {}

    def _open(self, clients: SystemClients, stack: ExitStack) -> None:
        tasks, job = self._model.tasks, self._stores_of(clients)
        self._heartbeat.phase("restoring")
        for task in tasks:
            # The start of the job has compared the serdes of its changelogs with those of the job file.
            settings = TaskSettings(task.name, task.changelog_partition, len(tasks))
            stores = StandbyStores(job, settings, replica_of(self._model.id))
            stack.callback(stores.close)
            self._stores[task.name] = stores
            self._owner.update(dict.fromkeys(stores.starts, stores))
        self._sweep()
        starts = {ssp: start for stores in self._stores.values() for ssp, start in stores.starts.items()}
        for system in sorted({ssp.system for ssp in starts}):
            consumer = self._consumers[system] = clients.consumer(system)
            consumer.start({ssp: start for ssp, start in starts.items() if ssp.system == system})

    def _published(self) -> Published:
        """The copies, each with the end that its changelog had at the last look."""
        found: dict[str, dict[int, PublishedStore]] = {}
        for stores in self._stores.values():
            for ssp, (name, engine) in stores.engines.items():
                end = partial(self._end_of, str(ssp))
                found.setdefault(name, {})[ssp.partition] = PublishedStore(engine, end)
        return found

    def _end_of(self, ssp: str) -> int:
        return self._ends.get(ssp, 0)

    def _follow(self, clients: SystemClients) -> None:
        looked = flushed = -_FLUSH_S
        while not self._heartbeat.should_stop():
            if not self._consumers:
                # Without consumers no poll waits.
                self._stopping.wait(min(_POLL_S, self._look_s))
            for consumer in self._consumers.values():
                for batch in consumer.poll(min(_POLL_S, self._look_s), _POLL_RECORDS):
                    self._owner[batch.ssp].add(batch)
            now = self._clock.monotonic()
            if now - looked >= self._look_s:
                looked = now
                flush = now - flushed >= _FLUSH_S
                flushed = now if flush else flushed
                self._look_safely(clients, flush=flush)

    def _look_safely(self, clients: SystemClients, *, flush: bool) -> None:
        """Look; an outage is outlasted here, since the consumers wait for the broker, too, and another attempt would
        not help."""
        try:
            self._look(clients, flush=flush)
        except SamzapyError as silence:
            if not silence.outage:
                raise
            logger.debug("The ends of the changelogs are not known: %s", silence)

    def _look(self, clients: SystemClients, *, flush: bool) -> None:
        """Write the records read so far, and compare the positions with the ends."""
        now_ms, began = self._clock.wall_ms(), self._clock.monotonic()
        ends: dict[SystemStreamPartition, int] = {}
        for system in self._consumers:
            ranges = clients.admin(system).offsets([ssp for ssp in self._owner if ssp.system == system])
            ends.update({ssp: found.upcoming for ssp, found in ranges.items()})
        positions = {ssp: self._consumers[ssp.system].position(ssp) for ssp in ends}
        self._write(flush=flush, complete={s: end for s, end in ends.items() if positions[s] >= end}, now_ms=now_ms)
        lag = sum(max(0, end - positions[ssp]) for ssp, end in ends.items())
        self._lag = Measured(lag, began)
        self._goal = self._goal or ends
        if all(positions[ssp] >= end for ssp, end in self._goal.items()):
            # Caught up once: from now on a take-over misses only the newest records.
            self._heartbeat.phase("running")
        self._ends = {str(ssp): end for ssp, end in ends.items()}
        self._positions = {str(ssp): position for ssp, position in positions.items()}
        # Not before a look: a reader has to hear how far behind the copies are.
        self._committed.publish(self._published())

    def _write(
        self, *, flush: bool, complete: Mapping[SystemStreamPartition, int] | None = None, now_ms: int = 0
    ) -> None:
        for stores in self._stores.values():
            stores.write()
            if flush:
                stores.complete({s: end for s, end in (complete or {}).items() if s in stores.starts and end}, now_ms)
                stores.flush()
