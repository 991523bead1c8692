"""Runs one task of a job in a replay: in a real container, a step at a time, with a commit after each step.

A step is one message of a task that takes messages one by one, one poll of a batch task, or the work that came due
between two of them: windows, timers, idle inputs. The clock stands at the time of the current record and never goes
back. So every run is the same if the user's code is deterministic. Messages that are not shown come in the same order
and at the same times, but no commits follow them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from samzapy.api.batch import BatchTask
from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import AnyTask
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.config.tasks.error_policy import ErrorPolicy
from samzapy.config.tasks.task import ChooserConfig, TaskConfig
from samzapy.container.builder import ContainerBuilder
from samzapy.container.errors.user_failures import user_failure
from samzapy.container.inputs.inputs import Inputs
from samzapy.container.lifecycle import Container
from samzapy.container.run_loop import RunLoop
from samzapy.container.supervision.job_records import Ownership
from samzapy.container.tasks.task_builder import Plugins
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import SamzapyError, TaskFailed
from samzapy.job.lease import UserFailure
from samzapy.job.model import ContainerModel, TaskModel
from samzapy.metrics import Registry
from samzapy.replay.feed import Place, Row, batches_of
from samzapy.replay.past import Past, PastCheckpoints
from samzapy.replay.recording import Input, RecordingEngines, Step, Values
from samzapy.replay.user_class import Debugger, Watch, watched
from samzapy.serializers import task_serdes
from samzapy.storage.engines import StoreEngine, load_engines
from samzapy.storage.task_stores import TaskStores
from samzapy.system.clients import job_clients
from samzapy.testing.attempt import PatientEventLoop, UncontestedLease
from samzapy.testing.driver import ManualClock

#: Records of a poll of a batch task.
_BATCH_POLL = 16_000
#: Real seconds that an asynchronous task gets to end a message.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Begin:
    """The beginning of a replay: the `checkpoint` with the state, and the time of its clock. `first`: the first record
    to show, None for all; earlier ones are processed as well."""

    checkpoint: Checkpoint
    time_ms: int
    first: Place | None = None


_NEVER_MS = 2**53


def scratch_job(job: JobConfig, folder: Path) -> JobConfig:
    """The job with its files below `folder`, and without the settings that a replay replaces: commits, orders among
    inputs, pauses of retries, waits of batches, snapshots, access logs, reporters."""
    task = job.task
    errors = {stage: replace(policy, backoff_ms=0) for stage, policy in task.errors.policies.items()}
    stores = {
        name: replace(
            store,
            access_log_percent=None,
            clean_on_start=False,
            backup=None if store.backup is None else replace(store.backup, interval_ms=_NEVER_MS),
        )
        for name, store in job.stores.items()
    }
    plain = {"bootstrap": False, "priority": -1, "reset_offset": False, "bounded": False}
    return replace(
        job,
        task=_scratch_task(task, errors),
        stores=stores,
        streams={name: replace(stream, **plain) for name, stream in job.streams.items()},  # type: ignore[arg-type]
        logged_store_base_dir=folder,
        non_logged_store_base_dir=folder,
        startpoints=False,
        metrics_reporters=(),
    )


def _scratch_task(task: TaskConfig, errors: dict[Any, ErrorPolicy]) -> TaskConfig:
    # Ids of outputs stay; transactions and positions that go ahead have no meaning without a commit.
    ids = task.guarantee is Guarantee.EFFECTIVELY_ONCE
    return replace(
        task,
        commit_ms=-1,
        guarantee=task.guarantee if ids else Guarantee.AT_LEAST_ONCE,
        chooser=ChooserConfig(),
        errors=replace(task.errors, policies=errors),
        batch=replace(task.batch, max_wait_ms=0),
    )


class _ReplayBuilder(ContainerBuilder):
    """Switches the consumers to the feed once the stores are restored."""

    def __init__(self, past: Past, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._past = past

    def inputs(self, ends: Any, tasks: Any) -> Inputs:
        self._past.feeds = True
        return super().inputs(ends, tasks)


class ReplayAttempt:
    """One task, from its start to the last record. `close` ends it and removes nothing."""

    def __init__(
        self,
        job: JobConfig,
        task: TaskModel,
        tasks: int,
        kind: type[AnyTask],
        begin: Begin,
        past: Past,
        *,
        debugger: Debugger,
        stop: Place | None,
    ) -> None:
        """`job`: a `scratch_job`; `tasks`: the job's number of tasks; `stop`: the message at which the debugger stops
        before it is processed."""
        self._past = past
        self._begin = begin
        # A poll of several records passes them on by partition, at one time, and so would change their order.
        self._poll = (job.task.poll_batch_size or _BATCH_POLL) if issubclass(kind, BatchTask) else 1
        self.clock = ManualClock(begin.time_ms)
        engines = load_engines(job)
        self._values = Values(job, engines)
        self._watch = Watch(task.name, past.recorder, debugger, stop)
        clients = job_clients(job, "replay", factory_of=past.factory_of)
        self._engines = {name: RecordingEngines(engine.factory, past.recorder) for name, engine in engines.items()}
        plugins = Plugins(
            {name: StoreEngine(self._engines[name], engine.view) for name, engine in engines.items()},
            task_serdes(job),
            watched(kind, self._watch),
            partial(PatientEventLoop, PATIENCE_S),
        )
        self._metrics = Registry()
        self._builder = _ReplayBuilder(
            past,
            job,
            ContainerModel("0", (task,), tasks),
            clients,
            PastCheckpoints(begin.checkpoint),
            plugins,
            metrics=self._metrics,
            transactions=None,
            clock=self.clock,
        )
        lease = UncontestedLease(begin.checkpoint.epoch + 1)
        self._container = Container(self._builder, lease, {}, self.clock, Ownership.of(job, None))
        self._known: UserFailure | None = None
        self._loop: RunLoop | None = None
        #: The error that has ended the replay, None for none.
        self.failure: SamzapyError | None = None
        #: Whether the task has asked for its end before the last record.
        self.stopped_by_task = False

    @property
    def stores(self) -> TaskStores:
        """The stores of the task, after `start`."""
        return self._task.stores

    @property
    def _task(self) -> TaskInstance:
        return self._container.tasks[0]

    def entries(self, store: str) -> dict[bytes, bytes]:
        """The current committed entries of a store, serialized."""
        return self._engines[store].entries()

    def start(self) -> None:
        """Restore the stores, and call `init`. Raises the errors of a container's start."""
        try:
            self._loop = self._container.start()
        except TaskFailed as failure:
            self._watch.ended(failure)
            raise
        self._past.recorder.active = True

    def steps(self, rows: Iterator[Row]) -> Iterator[Step]:
        """Process the records; yields each complete step, from the first one that is shown."""
        loop = self._loop
        assert loop is not None
        shown = self._begin.first is None
        init = self._step("init", (), lambda: None)
        if init.ended or (shown and init.has_effects):
            yield init
        ahead = next(rows, None)
        while ahead is not None and self.failure is None:
            if not shown and self._is_first(ahead):
                self._step("before", (), lambda: None)
                shown = self.failure is None
            for due in self._until(loop, ahead.time_ms):
                if due.ended or (shown and due.has_effects):
                    yield due
            if self._ended(loop):
                return
            polled, ahead = self._polled(loop, ahead, rows, shown=shown)
            self._go_to(polled[0].time_ms)
            self._past.feed.offer(batches_of(polled))
            if shown:
                yield self._step(_span(polled), self._inputs(polled), partial(_turns, loop))
            elif (step := self._hidden(polled, partial(_turns, loop))) is not None:
                yield step

    def close(self) -> None:
        """End without a commit."""
        self._container.abandon()

    def _ended(self, loop: RunLoop) -> bool:
        self.stopped_by_task = loop.stopping and self.failure is None
        return loop.stopping or self.failure is not None

    def _is_first(self, row: Row) -> bool:
        first = self._begin.first
        return first is not None and row.ssp == first.ssp and row.offset >= first.offset

    def _polled(self, loop: RunLoop, ahead: Row, rows: Iterator[Row], *, shown: bool) -> tuple[list[Row], Row | None]:
        """The records of the next step, and the record after them. Within a step nothing becomes due, and the job made
        no commit."""
        due_ms = self.clock.wall_ms() + (loop.due_at - self.clock.monotonic()) * 1000
        polled: list[Row] = []
        for row in chain((ahead,), rows):
            begins = row.interval != ahead.interval or (not shown and self._is_first(row))
            if polled and (len(polled) >= self._poll or row.time_ms >= due_ms or begins):
                return polled, row
            polled.append(row)
        return polled, None

    def _until(self, loop: RunLoop, time_ms: int) -> Iterator[Step]:
        """Run everything that is due before that time, in order."""
        end = self.clock.monotonic() + max(0, time_ms - self.clock.wall_ms()) / 1000
        while self.failure is None and not loop.stopping and loop.due_at <= end:
            self.clock.advance_to(max(loop.due_at, self.clock.monotonic()))
            yield self._step("windows and timers", (), partial(_turns, loop))

    def _go_to(self, time_ms: int) -> None:
        self.clock.advance(max(0, time_ms - self.clock.wall_ms()) / 1000)

    def _hidden(self, rows: list[Row], work: Callable[[], object]) -> Step | None:
        """Process without a commit; a step only if that fails."""
        try:
            work()
        except SamzapyError as error:
            return self._failed(_span(rows), (), error)
        self._past.recorder.forget()
        return None

    def _step(self, at: str, inputs: tuple[Input, ...], work: Callable[[], object]) -> Step:
        loop = self._loop
        assert loop is not None
        try:
            work()
            loop.commit()
        except SamzapyError as error:
            return self._failed(at, inputs, error)
        failure = self._builder.last_failure
        if failure is not None and failure is not self._known:
            self._known = failure
            self._past.recorder.failed(failure)
        return Step(at, self.clock.wall_ms(), inputs, *self._past.recorder.take(self._values))

    def _failed(self, at: str, inputs: tuple[Input, ...], error: SamzapyError) -> Step:
        self.failure = error
        failure = user_failure(error)
        if failure is not None:
            self._past.recorder.failed(failure)
        self._watch.ended(error)
        outputs, changes, failures = self._past.recorder.take(self._values)
        return Step(at, self.clock.wall_ms(), inputs, outputs, changes, failures, ended=True)

    def _inputs(self, rows: list[Row]) -> tuple[Input, ...]:
        if len(rows) > 1:
            return (Input(_span(rows)),)
        stream = rows[0].ssp.system_stream
        return (Input(_span(rows), *self._values.record(stream, rows[0].key, rows[0].value)),)


def _turns(loop: RunLoop) -> None:
    """Run the loop until there is nothing more to do. Raises TaskFailed for a message that does not end."""
    try:
        while loop.turn(0.0) and not loop.stopping:
            pass
    except TimeoutError as cause:
        raise TaskFailed(str(cause)) from cause


def _span(rows: list[Row]) -> str:
    """The records of one step: `kafka.in[3]@17`, `kafka.in[3]@12 to 17`."""
    ends: dict[SystemStreamPartition, tuple[int, int]] = {}
    for row in rows:
        first, _ = ends.get(row.ssp, (row.offset, 0))
        ends[row.ssp] = first, row.offset
    return ", ".join(f"{ssp}@{a}" if a == b else f"{ssp}@{a} to {b}" for ssp, (a, b) in ends.items())
