"""Starts a tested job's tasks once, in steps, and ends them in each way a container can end.

The job runs on the memory system, whichever system its file names. Its clock stands still, so a task that never comes
to rest is measured in real time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from samzapy.api.system import OutgoingColumns, StreamSpec, SystemProducer, SystemSettings
from samzapy.checkpoint import manager_for
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.container.builder import ContainerBuilder
from samzapy.container.lifecycle import Container
from samzapy.container.outputs.producers import state_transactions
from samzapy.container.run_loop import RunLoop
from samzapy.container.supervision.job_records import Ownership
from samzapy.container.tasks.in_flight import EventLoop
from samzapy.container.tasks.task_builder import Plugins, load_task_class
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import UnknownStream
from samzapy.failpoints import FailPointReached
from samzapy.job.lease import ContainerLease, ContainerReport, Directive
from samzapy.job.planner import ContainerModel
from samzapy.metrics import Registry
from samzapy.runner.base import PreparedJob
from samzapy.serializers import task_serdes
from samzapy.storage.spec import store_specs
from samzapy.system.clients import job_clients
from samzapy.system.local.database import Database
from samzapy.system.local.factory import MemoryLog, MemorySystemFactory
from samzapy.system.local.producer import Batches, LogProducer
from samzapy.system.local.streams import Topic
from samzapy.testing.store import put_back, take_image

#: The value of `systems.NAME.samza.factory` in a tested job.
FACTORY = "samzapy.testing.attempt:TestedSystemFactory"


class Line:
    """The connection between the clients of one attempt and their cluster.

    A line that is cut lets nothing through, as after a SIGKILL: no abort, no last flush.
    """

    def __init__(self) -> None:
        self.is_cut = False

    def cut(self) -> None:
        """Let nothing pass from now on."""
        self.is_cut = True


class TestedSystemFactory(MemorySystemFactory):
    """The memory system with two differences.

    1. Writing to a missing stream creates it, with as many partitions as the widest stream of the cluster.
    2. A record is in the log at once instead of at the next flush: so a crash shows the most repetitions that the job's
       guarantee allows.
    """

    __test__ = False

    def __init__(self, line: Line | None = None) -> None:
        self._line = line or Line()

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        return _TestedProducer(self.log(settings), transactional_id, timeout_ms, self._line)


class _TestedProducer(LogProducer):
    """Writes its records before it returns, as long as the line is not cut."""

    def __init__(self, log: MemoryLog, transactional_id: str | None, timeout_ms: int, line: Line) -> None:
        super().__init__(log, transactional_id, timeout_ms)
        self._cluster = log.cluster
        self._line = line

    def send_columns(self, columns: OutgoingColumns) -> None:
        super().send_columns(columns)
        self.flush()

    def _topic(self, stream: str) -> Topic:
        try:
            return super()._topic(stream)
        except UnknownStream:
            admin = self._cluster.admin(self._log.system)
            known = map(admin.describe, admin.list_streams())
            admin.create(StreamSpec(stream, max((item.partitions for item in known if item), default=1)))
            return super()._topic(stream)

    def _write(self, batches: Batches, end: Callable[[Database, str], None] | None = None) -> None:
        if not self._line.is_cut:
            super()._write(batches, end)


_SHORT_WAIT_S = 0.01


class PatientEventLoop(EventLoop):
    """Raises TimeoutError when no message has ended for `patience_s` seconds of waiting."""

    def __init__(self, patience_s: float) -> None:
        super().__init__()
        self._patience_s = patience_s
        self._waited_s = 0.0

    def run(self, timeout_s: float) -> None:
        began = SYSTEM_CLOCK.monotonic()
        super().run(timeout_s)
        # A machine that stands still for a while does not use up the patience.
        self._waited_s += min(SYSTEM_CLOCK.monotonic() - began, max(timeout_s, _SHORT_WAIT_S))
        if self._waited_s > self._patience_s:
            raise TimeoutError(f"no message in flight has ended within {self._patience_s:g} s (real time)")

    def news(self) -> None:
        self._waited_s = 0.0
        super().news()


class UncontestedLease(ContainerLease):
    """A lease that no other attempt takes."""

    duration_s = float("inf")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def report(self, report: ContainerReport) -> Directive:
        return Directive.CONTINUE


class Attempt:
    """One container with all tasks of the job, or the given one of several; the caller turns its run loop.

    It ends by `finish`, `crash` or `give_up`, or by the first call inside `alive` that raises.
    """

    def __init__(
        self,
        prepared: PreparedJob,
        epoch: int,
        clock: Clock,
        state: Path,
        patience_s: float,
        container: ContainerModel | None = None,
    ) -> None:
        """`epoch`: larger than any earlier attempt's; `state`: the folder of the stores; `patience_s`: the longest wait
        for asynchronous tasks, in real time."""
        job = prepared.config
        self._line = Line()
        self._state = state
        self._image: Path | None = None
        timeout_ms = job.task.transaction_timeout_ms
        clients = job_clients(job, "test", timeout_ms, lambda _: TestedSystemFactory(self._line))
        builder = ContainerBuilder(
            job,
            container or ContainerModel("0", prepared.model.tasks),
            clients,
            manager_for(job, clients),
            Plugins(
                store_specs(job),
                task_serdes(job),
                load_task_class(job.task.task_class),
                partial(PatientEventLoop, patience_s),
            ),
            metrics=Registry(),
            transactions=state_transactions(job).system,
            clock=clock,
        )
        self._container = Container(builder, UncontestedLease(epoch), {}, clock, Ownership.of(job, prepared.run_id))
        self.running = True

    @property
    def tasks(self) -> tuple[TaskInstance, ...]:
        """The tasks made so far."""
        return tuple(self._container.tasks)

    def start(self) -> RunLoop:
        """Start; raises the errors of a container's start."""
        with self.alive():
            return self._container.start()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Calls of the container: if one raises, the attempt has ended without a commit."""
        try:
            yield
        except BaseException:
            if self._image is None and not self._line.is_cut:
                self.give_up()
            else:
                self._vanish()
            raise

    def finish(self) -> None:
        """Commit and stop."""
        with self.alive():
            self._container.finish()
        self.running = False

    def give_up(self) -> None:
        """Close the tasks and everything else without a commit."""
        self.running = False
        self._container.abandon()

    def crash(self) -> None:
        """End as a SIGKILL would: no task is closed, and only the files of this instant are left."""
        self._cut()
        self._vanish()

    def die(self, point: str) -> None:
        """Crash at an armed fail point: calls after this instant have no effect."""
        self._cut()
        raise FailPointReached(point)

    @property
    def died(self) -> bool:
        """Whether it has crashed."""
        return self._line.is_cut

    def _cut(self) -> None:
        self._line.cut()
        if self._state.exists():
            self._image = take_image(self._state)

    def _vanish(self) -> None:
        self.running = False
        self._container.vanish()
        if self._image is not None:
            put_back(self._image, self._state)
            self._image = None
