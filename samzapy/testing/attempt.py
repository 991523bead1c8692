"""One start of a tested job's tasks, in steps, and the ways it can end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from samzapy.api.lease import ContainerLease, ContainerReport, Directive
from samzapy.checkpoint import manager_for
from samzapy.clock import Clock
from samzapy.container.asynchronous.event_loop import EventLoop
from samzapy.container.factory import load_task_class
from samzapy.container.lifecycle import Container
from samzapy.container.ownership import Ownership
from samzapy.container.parts import Parts, Plugins
from samzapy.container.run_loop import RunLoop
from samzapy.container.task_instance import TaskInstance
from samzapy.failpoints import FailPointReached
from samzapy.job.model import ContainerModel
from samzapy.job.transactions import state_transactions
from samzapy.metrics import Registry
from samzapy.runner.base import PreparedJob
from samzapy.serializers import serde_registry
from samzapy.storage.engines import load_engines
from samzapy.system.clients import job_clients
from samzapy.system.factories import has_transactions
from samzapy.testing.image import put_back, take_image
from samzapy.testing.patience import PatientEventLoop
from samzapy.testing.system import Line, TestedSystemFactory


class _Lease(ContainerLease):
    """Nobody else wants the container."""

    duration_s = float("inf")

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        return self._epoch

    def report(self, report: ContainerReport) -> Directive:
        return Directive.CONTINUE


class _PatientParts(Parts):
    """As they are, but nobody waits for ever."""

    patience_s = 0.0

    @cached_property
    def events(self) -> EventLoop:
        return PatientEventLoop(self.patience_s)


class Attempt:
    """All tasks of the job in one container, which somebody else turns; ended by `finish`, `crash` or `give_up`, or by the
    first call of `alive` that raises."""

    def __init__(self, prepared: PreparedJob, epoch: int, clock: Clock, state: Path, patience_s: float) -> None:
        """`epoch`: larger than any earlier attempt's; `state`: the folder of the stores; `patience_s`: how long, in real
        time, asynchronous tasks are waited for."""
        job = prepared.config
        self._line = Line()
        self._state = state
        self._image: Path | None = None
        timeout_ms = job.task.transaction_timeout_ms
        clients = job_clients(job, "test", timeout_ms, lambda _: TestedSystemFactory(self._line))
        parts = _PatientParts(
            job,
            ContainerModel("0", prepared.model.tasks),
            clients,
            manager_for(job, clients),
            Plugins(load_engines(job), serde_registry(job), load_task_class(job.task.task_class)),
            Registry(),
            state_transactions(job, has_transactions).system,
        )
        parts.patience_s = patience_s
        self._container = Container(parts, _Lease(epoch), {}, clock, Ownership(job, prepared.run_id))
        self.running = True

    @property
    def tasks(self) -> tuple[TaskInstance, ...]:
        """The tasks that were made so far."""
        return tuple(self._container.tasks)

    def start(self) -> RunLoop:
        """Start; raises whatever a container's start raises."""
        with self.alive():
            return self._container.start()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """What is done inside is the container's doing: if it raises, the attempt has ended, without a commit."""
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
        """Close everything without a commit; the tasks are told."""
        self.running = False
        self._container.abandon()

    def crash(self) -> None:
        """End as a SIGKILL would: the tasks are not told, and what a disk would have had at this instant is all that is left."""
        self._cut()
        self._vanish()

    def die(self, point: str) -> None:
        """What an armed fail point does: the crash is now, and whatever is still called until it is noticed is in vain."""
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
