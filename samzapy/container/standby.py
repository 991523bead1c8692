"""A standby container: reads the changelogs of a container's tasks into copies of their stores, and runs no task.

A machine that takes a task over then reads only the changelog's tail. A copy is like the task's store: the same layout,
the same marker, the same rules for its use. It lies next to the task's store (`Partition_0.standby-1`), and replaces it
when the task starts on this machine and the copy is further.

start   1  the lease
        2  open the copies, or set them aside, as a task would
        3  follow the changelogs (committed records only) from where the copies are
stop    1  write the records read, flush the copies to disk, close them: then an active container can use them
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemConsumer
from samzapy.clock import SYSTEM_CLOCK, Clock, Measured
from samzapy.config.job import JobConfig
from samzapy.container.supervision.heartbeat import Heartbeat, keep_running
from samzapy.container.supervision.watch import ServePort, no_port
from samzapy.container.supervision.worker_process import sweep_in_background
from samzapy.errors import SamzapyError
from samzapy.job.lease import ContainerLease, ContainerReport
from samzapy.job.planner import ContainerModel, replica_of
from samzapy.metrics import Registry
from samzapy.queries.committed import CommittedStores, PublishedStore
from samzapy.serializers import serde_registry
from samzapy.storage.changelog.restore import StoreRestore
from samzapy.storage.local.directory import standby_name
from samzapy.storage.opening import StoreOpener, StoreOwner, close_all
from samzapy.storage.spec import store_specs
from samzapy.storage.store import Store
from samzapy.system.clients import SystemClients, job_clients

logger = logging.getLogger(__name__)

_POLL_S, _POLL_RECORDS = 0.2, 50_000
#: Seconds between two checks of the changelogs' ends, and between two flushes of the engines.
_CHECK_S, _FLUSH_S = 1.0, 60.0
#: Seconds between two checks while the engines are busy: the lag is measured as often as that.
_MEASURED_S = 5.0


class StandbyContainer:
    """A standby of one container of a job. Runs once: `run` follows until `stop`, a directive, or a failure. It opens
    nothing before that."""

    def __init__(
        self,
        config: JobConfig,
        model: ContainerModel,
        lease: ContainerLease,
        *,
        on_lost: Callable[[str], None] = keep_running,
        check_s: float = _CHECK_S,
        clock: Clock = SYSTEM_CLOCK,
        serve_port: ServePort = no_port,
    ) -> None:
        """`check_s`: seconds between two checks of the ends of the changelogs; after each, the records read so far are
        written. `on_lost` is called when the lease is lost and the container still runs one lease duration later.
        `serve_port` serves its metrics and the copies."""
        self._config = config
        self._model = model
        self._lease = lease
        self._check_s, self._period_s = check_s, max(check_s, _MEASURED_S)
        self._clock = clock
        self._serve_port = serve_port
        self._metrics, self._committed = Registry(), CommittedStores()
        self._stores: dict[SystemStreamPartition, Store] = {}
        self._copies: dict[SystemStreamPartition, StoreRestore] = {}
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
                port = self._serve_port(self._config, self._model, self._lease, self._metrics, self._committed)
                stack.enter_context(port)
                clients = stack.enter_context(closing(job_clients(self._config, self._model.id)))
                self._open(clients, stack)
                stack.callback(self._committed.withdraw)
                self._follow(clients)
                self._heartbeat.phase("stopping")
                self._write()
                self._flush()
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
            metrics=self._metrics.numbers(),
        )

    def _measured(self) -> dict[str, float]:
        """The lag, if it is known."""
        lag = self._lag
        return {"lag": lag.value} if lag is not None and lag.is_known(self._clock.monotonic(), self._period_s) else {}

    def _open(self, clients: SystemClients, stack: ExitStack) -> None:
        """Raises StoreLocked while an earlier attempt still has the copies, EnvironmentFailure."""
        config, tasks = self._config, self._model.tasks
        specs = store_specs(config)
        copied = {name: spec for name, spec in specs.items() if spec.config.changelog is not None and spec.persistent}
        opener = StoreOpener(
            config, copied, serde_registry(config), admin_of=clients.admin, clock=self._clock, tasks=len(tasks)
        )
        replica = replica_of(self._model.id)
        owners = [StoreOwner(standby_name(task.name, replica), task.changelog_partition) for task in tasks]
        self._heartbeat.phase("restoring")
        # The start of the job has compared the serdes of its changelogs with those of the job file.
        opened = opener.open(owners, provisional=False)
        # The next attempt reads the unwritten records again.
        stack.callback(close_all, opened)
        for store in (store for stores in opened for store in stores.values()):
            if (copy := store.restore(endless=True)) is not None:
                self._stores[copy.ssp], self._copies[copy.ssp] = store, copy
        sweep_in_background(config, (), self._clock)
        for copy in self._copies.values():
            copy.share(len(self._copies))
        for system in sorted({ssp.system for ssp in self._copies}):
            consumer = self._consumers[system] = clients.changelog_consumer(system)
            consumer.start({ssp: copy.start for ssp, copy in self._copies.items() if ssp.system == system})

    def _publish(self) -> None:
        """Show the copies, each with the end that its changelog had at the last check."""
        published: dict[str, dict[int, PublishedStore]] = {}
        for ssp, store in self._stores.items():
            shown = PublishedStore(store.engine, partial(self._end_of, str(ssp)))
            published.setdefault(store.spec.config.name, {})[ssp.partition] = shown
        self._committed.publish(published)

    def _end_of(self, ssp: str) -> int:
        return self._ends.get(ssp, 0)

    def _follow(self, clients: SystemClients) -> None:
        checked = flushed = -_FLUSH_S
        while not self._heartbeat.should_stop():
            wait_s = min(_POLL_S, self._check_s)
            if not self._consumers:
                # Without consumers no poll waits.
                self._stopping.wait(wait_s)
            for consumer in self._consumers.values():
                for batch in consumer.poll(wait_s, _POLL_RECORDS):
                    self._copies[batch.ssp].add(batch)
            now = self._clock.monotonic()
            if now - checked < self._check_s:
                continue
            checked = now
            try:
                complete, now_ms = self._check(clients)
            except SamzapyError as silence:
                # The consumers wait for the broker, too, and another attempt would not help.
                if not silence.outage:
                    raise
                logger.debug("The ends of the changelogs are not known: %s", silence)
                continue
            if now - flushed >= _FLUSH_S:
                flushed = now
                for ssp, end in complete.items():
                    # So the copy of a changelog that is silent for longer than it keeps deletions does not look old.
                    self._copies[ssp].complete(end - 1, now_ms)
                self._flush()

    def _check(self, clients: SystemClients) -> tuple[dict[SystemStreamPartition, int], int]:
        """Compare the positions with the ends, and write the records read so far. Returns the ends of the changelogs
        that are read as a whole, and the wall-clock time at which these were the ends."""
        now_ms, began = self._clock.wall_ms(), self._clock.monotonic()
        ends: dict[SystemStreamPartition, int] = {}
        for system in self._consumers:
            ranges = clients.admin(system).offsets([ssp for ssp in self._copies if ssp.system == system])
            ends.update({ssp: log.upcoming for ssp, log in ranges.items()})
        positions = {ssp: self._consumers[ssp.system].position(ssp) for ssp in ends}
        self._write()
        self._lag = Measured(sum(max(0, end - positions[ssp]) for ssp, end in ends.items()), began)
        self._goal = self._goal or ends
        if all(positions[ssp] >= end for ssp, end in self._goal.items()):
            # Caught up once: from now on a take-over misses only the newest records.
            self._heartbeat.phase("running")
        self._ends = {str(ssp): end for ssp, end in ends.items()}
        self._positions = {str(ssp): position for ssp, position in positions.items()}
        # Not before a check: a reader has to know how far behind the copies are.
        self._publish()
        return {ssp: end for ssp, end in ends.items() if end and positions[ssp] >= end}, now_ms

    def _write(self) -> None:
        for copy in self._copies.values():
            copy.write_gathered()

    def _flush(self) -> None:
        for copy in self._copies.values():
            copy.flush()
