"""Runs a planned replay: restores the state, proves that it is the commit's, and processes the records step by step.

A replay is a real container with one task, in a folder that is removed at the end. A step is one message of a task that
takes messages one by one, one poll of a batch task, or the work that came due between two of them: windows, timers,
idle inputs. Each step ends with a commit. The clock stands at the time of the current record and never goes back. So
every run is the same if the user's code is deterministic. Messages that are not shown come in the same order and at the
same times, but no commits follow them.

A subclass watches the user's class: its failures are recorded, the debugger stops in it, and its sinks stay closed. A
container constructs and calls it as any other.
"""

from __future__ import annotations

import pdb  # noqa: T100  # this is what opens it
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial, wraps
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

from samzapy.api.context import Context
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import (
    AnyTask,
    AsyncStreamTask,
    BatchTask,
    CoroutineTask,
    InitableTask,
    TaskCallback,
    WindowableTask,
)
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.error_policy import ErrorPolicy
from samzapy.config.job import JobConfig
from samzapy.config.task import ChooserConfig, Guarantee, TaskConfig
from samzapy.container.builder import ContainerBuilder
from samzapy.container.errors.user_failures import one_line, user_failure, user_line, whole_traceback
from samzapy.container.inputs.inputs import Inputs
from samzapy.container.lifecycle import Container
from samzapy.container.run_loop import RunLoop
from samzapy.container.supervision.job_records import Ownership
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.container.tasks.task_builder import Plugins, load_task_class
from samzapy.errors import EnvironmentFailure, SamzapyError, TaskFailed
from samzapy.job.files import TemporaryFolder
from samzapy.job.lease import UserFailure
from samzapy.job.planner import ContainerModel
from samzapy.metrics import Registry
from samzapy.replay.history import FROM_EMPTY, CommittedRecords, Place, committed_range, lost_state, state_wanted
from samzapy.replay.past import Past, PastCheckpoints, Row
from samzapy.replay.plan import MOST_WINDOWS, Plan
from samzapy.replay.recording import Input, Recorder, RecordingEngines, Step, Values
from samzapy.serializers import task_serdes
from samzapy.storage.changelog.restore import RestoreResult
from samzapy.storage.spec import store_specs
from samzapy.system.clients import SystemClients, job_clients
from samzapy.testing.attempt import PatientEventLoop, UncontestedLease
from samzapy.testing.driver import ManualClock

#: Records of a poll of a batch task.
_BATCH_POLL = 16_000
#: Real seconds that an asynchronous task gets to end a message.
_PATIENCE_S = 60.0

_NEVER_MS = 2**53


def scratch_job(job: JobConfig, folder: Path) -> JobConfig:
    """The job with its files below `folder`, and without the settings that a replay replaces: commits, orders among
    inputs, pauses of retries, waits of batches, snapshots, reporters."""
    task = job.task
    errors = {stage: replace(policy, backoff_ms=0) for stage, policy in task.errors.policies.items()}
    stores = {
        name: replace(
            store,
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


@contextmanager
def opened_replay(
    config: JobConfig, planned: Plan, *, at_failures: bool = False, stop: Place | None = None
) -> Iterator[Replay]:
    """A plan's replay, restored and ready. With `at_failures` the debugger opens after each failure; it opens before
    the message `stop`.

    Raises EnvironmentFailure for changelogs that no longer have the state, and the errors of a container's start.
    """
    with (
        TemporaryFolder("replay") as folder,
        closing(job_clients(config, "replay")) as clients,
        closing(planned.slice.rows(clients.consumer)) as rows,
    ):
        first = next(rows, None)
        time_ms = planned.checkpoint.time_ms
        if first is not None and first.time_ms > 0:
            time_ms = min(time_ms, first.time_ms)
        recorder = Recorder()
        ends = {store.changelog: store.end for store in planned.stores.values()}
        past = Past(ends, planned.task.ssps, recorder, from_empty=planned.from_empty)
        watch = Watch(planned.task.name, recorder, at_failures=at_failures, stop=stop)
        ahead = iter(()) if first is None else chain((first,), rows)
        with closing(Replay(scratch_job(config, folder.path), planned, past, watch, ahead, time_ms)) as replay:
            if not planned.from_empty:
                _prove(replay, past, clients)
            yield replay


def _prove(replay: Replay, past: Past, clients: SystemClients) -> None:
    """Raise EnvironmentFailure unless the changelogs still have the state."""
    planned, restored = replay.planned, replay.restored
    for name, store in planned.stores.items():
        of_snapshot = restored[name].source.startswith("snapshot")
        start = past.read_from.get(store.changelog, store.last + 1) if of_snapshot else 0
        log = committed_range(clients, store.changelog)
        state = CommittedRecords(store.changelog, start, store.last, store.no_records)
        age_ms = SYSTEM_CLOCK.wall_ms() - planned.checkpoint.time_ms
        reason = lost_state(clients.consumer, state, log, deletions_kept=age_ms < store.deletions_kept_ms)
        if reason is not None:
            raise EnvironmentFailure(f"store '{name}': {reason}; choose a later offset, or {FROM_EMPTY}")


class Replay:
    """One task of a job, restored, with the records of its plan ahead.

    `failure`: the error that has ended the replay before the last record, else None. `stopped_by_task`: the task has
    asked for its end before the last record.
    """

    def __init__(
        self, job: JobConfig, planned: Plan, past: Past, watch: Watch, rows: Iterator[Row], time_ms: int
    ) -> None:
        """Restore the stores of `job`, a `scratch_job`, and call `init`; `time_ms`: the time of the clock. Raises the
        errors of a container's start."""
        kind = load_task_class(job.task.task_class)
        # A poll of several records passes them on by partition, at one time, and so would change their order.
        self._poll = (job.task.poll_batch_size or _BATCH_POLL) if issubclass(kind, BatchTask) else 1
        window_s = job.task.window_ms / 1000 if issubclass(kind, WindowableTask) else 0.0
        self._silence_s = (MOST_WINDOWS - 1) * window_s if window_s > 0 else inf
        self.planned = planned
        self.failure: SamzapyError | None = None
        self.stopped_by_task = False
        self._past, self._watch, self._rows = past, watch, rows
        self._clock = ManualClock(time_ms)
        specs = store_specs(job)
        self._values = Values(job, specs)
        self._engines = {name: RecordingEngines(spec.factory, past.recorder) for name, spec in specs.items()}
        self._builder = _ReplayBuilder(
            past,
            job,
            ContainerModel("0", (planned.task,), planned.tasks),
            job_clients(job, "replay", factory_of=past.factory_of),
            PastCheckpoints(planned.checkpoint),
            Plugins(
                {name: replace(spec, factory=self._engines[name]) for name, spec in specs.items()},
                task_serdes(job),
                watched(kind, watch),
                partial(PatientEventLoop, _PATIENCE_S),
            ),
            metrics=Registry(),
            transactions=None,
            clock=self._clock,
        )
        lease = UncontestedLease(planned.checkpoint.epoch + 1)
        self._container = Container(self._builder, lease, {}, self._clock, Ownership.of(job, None))
        self._loop = self._started()
        past.recorder.active = True

    def _started(self) -> RunLoop:
        try:
            with state_wanted():
                return self._container.start()
        except BaseException as failure:
            if isinstance(failure, TaskFailed):
                self._watch.ended(failure)
            self.close()
            raise

    @property
    def restored(self) -> dict[str, RestoreResult]:
        """The source of each store's entries."""
        return dict(self._container.tasks[0].stores.restored)

    def entries(self, store: str) -> dict[bytes, bytes]:
        """The current committed entries of a store, serialized."""
        return self._engines[store].entries()

    def steps(self) -> Iterator[Step]:
        """Process the records; yields each complete step, from the first one that is shown. To be called once."""
        loop, rows = self._loop, self._rows
        shown = self.planned.first is None
        init = self._step("init")
        if init.ended or (shown and init.has_effects):
            yield init
        ahead = next(rows, None)
        while ahead is not None and self.failure is None:
            if not shown and self._is_first(ahead):
                self._step("before")
                shown = self.failure is None
            for due in self._until(ahead.time_ms):
                if due.ended or (shown and due.has_effects):
                    yield due
            if loop.stopping or self.failure is not None:
                self.stopped_by_task = self.failure is None
                return
            polled, ahead = self._polled(ahead, shown=shown)
            self._clock.advance(max(0, polled[0].time_ms - self._clock.wall_ms()) / 1000)
            self._past.offer(polled)
            step = self._step(_span(polled), polled, partial(_turns, loop), commit=shown)
            if shown or step.ended:
                yield step

    def close(self) -> None:
        """End without a commit. The files stay."""
        self._container.abandon()

    def _is_first(self, row: Row) -> bool:
        first = self.planned.first
        return first is not None and row.ssp == first.ssp and row.offset >= first.offset

    def _polled(self, ahead: Row, *, shown: bool) -> tuple[list[Row], Row | None]:
        """The records of the next step, and the record after them. Within a step nothing becomes due, and the job made
        no commit."""
        due_ms = self._clock.wall_ms() + (self._loop.due_at - self._clock.monotonic()) * 1000
        polled: list[Row] = []
        for row in chain((ahead,), self._rows):
            begins = row.interval != ahead.interval or (not shown and self._is_first(row))
            if polled and (len(polled) >= self._poll or row.time_ms >= due_ms or begins):
                return polled, row
            polled.append(row)
        return polled, None

    def _until(self, time_ms: int) -> Iterator[Step]:
        """Run everything that is due before that time, in order."""
        loop, clock = self._loop, self._clock
        end = clock.monotonic() + max(0, time_ms - clock.wall_ms()) / 1000
        # Half a millisecond a window: those of a year of silence, or before a time far ahead, would take a day.
        clock.advance_to(max(clock.monotonic(), end - self._silence_s))
        while self.failure is None and not loop.stopping and loop.due_at <= end:
            clock.advance_to(max(loop.due_at, clock.monotonic()))
            yield self._step("windows and timers", (), partial(_turns, loop))

    def _step(
        self, at: str, rows: Sequence[Row] = (), work: Callable[[], object] = lambda: None, *, commit: bool = True
    ) -> Step:
        """Do the work and commit it; a failure ends the replay."""
        recorder, ended = self._past.recorder, False
        last: UserFailure | None = None
        try:
            work()
            if commit:
                self._loop.commit()
        except SamzapyError as error:
            self.failure, last, ended = error, user_failure(error), True
            self._watch.ended(error)
        for failure in (*self._builder.tasks.handled.take(), last):
            if failure is not None:
                recorder.failed(failure)
        if not commit and not ended:
            recorder.forget()
        inputs = () if not rows else (self._input(at, rows),)
        return Step(at, self._clock.wall_ms(), inputs, *recorder.take(self._values), ended=ended)

    def _input(self, at: str, rows: Sequence[Row]) -> Input:
        if len(rows) > 1:
            return Input(at)
        return Input(at, *self._values.record(rows[0].ssp.system_stream, rows[0].key, rows[0].value))


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


class Watch:
    """Records the failures of one task's messages, and opens Python's debugger on this terminal: with `at_failures`
    after each failure, and before the message `stop` is processed."""

    def __init__(self, task: str, recorder: Recorder, *, at_failures: bool, stop: Place | None) -> None:
        self._task = task
        self._recorder = recorder
        self._at_failures = at_failures
        self._stop = stop
        self._last: BaseException | None = None

    def call(self, method: Callable[..., Any], task: Any, messages: Any, *rest: Any) -> Any:
        """Call a method that processes a message or a batch. Raises its exceptions."""
        try:
            if self._stop is not None and _holds(messages, self._stop):
                return pdb.Pdb().runcall(method, task, messages, *rest)
            return method(task, messages, *rest)
        except Exception as failure:
            self.failed(messages, failure)
            raise

    def failed(self, messages: Any, failure: BaseException) -> None:
        """Record a failure. One of a batch of several is skipped: its parts follow, and the failing one fails alone."""
        is_batch = _is_batch(messages)
        if failure is self._last or (is_batch and len(messages) != 1):
            return
        self._last = failure
        last = messages[-1] if is_batch else messages
        where = f"{'process_batch' if is_batch else 'process'} of {last.position}"
        about = type(failure).__name__, one_line(failure), self._task, where
        text = user_line(failure), whole_traceback(failure)
        self._recorder.failed(UserFailure(*about, *text, str(last.ssp), last.offset, last.offset))
        self._post_mortem(failure)

    def ended(self, failure: BaseException) -> None:
        """Open the debugger at the failure that has ended the replay, unless it was recorded with its message."""
        cause = failure.__cause__ or failure
        if cause is not self._last:
            self._post_mortem(cause)

    def _post_mortem(self, failure: BaseException) -> None:
        if self._at_failures and failure.__traceback__ is not None:
            pdb.post_mortem(failure.__traceback__)


def _is_batch(messages: Any) -> bool:
    return not hasattr(messages, "offset")


def _holds(messages: Any, place: Place) -> bool:
    first, last = (messages[0], messages[-1]) if _is_batch(messages) else (messages, messages)
    return bool(first.ssp == place.ssp and first.offset <= place.offset <= last.offset)


def watched(kind: type[AnyTask], watch: Watch) -> type[AnyTask]:
    """A subclass of the user's class that behaves like it, under its name."""
    methods: dict[str, Any] = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    if issubclass(kind, CoroutineTask):
        methods["process"] = _coroutine(kind.process, watch)
    elif issubclass(kind, AsyncStreamTask):
        methods["process_async"] = _with_callback(kind.process_async, watch)
    else:
        name = "process_batch" if issubclass(kind, BatchTask) else "process"
        methods[name] = _plain(getattr(kind, name), watch)
    if issubclass(kind, InitableTask):
        methods["init"] = _init(kind.init)
    result: type[AnyTask] = type(kind.__name__, (kind,), methods)
    return result


def _plain(method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(method)
    def process(self: Any, messages: Any, *rest: Any) -> Any:
        return watch.call(method, self, messages, *rest)

    return process


def _coroutine(method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(method)
    async def process(self: Any, message: Any, *rest: Any) -> Any:
        try:
            # The debugger stops where the coroutine is made; `step` goes to its first line.
            return await watch.call(method, self, message, *rest)
        except Exception as failure:
            watch.failed(message, failure)
            raise

    return process


def _with_callback(method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(method)
    def process_async(self: Any, message: Any, collector: Any, coordinator: Any, callback: TaskCallback) -> Any:
        return watch.call(method, self, message, collector, coordinator, _WatchedCallback(callback, message, watch))

    return process_async


class _WatchedCallback(TaskCallback):
    """Records the failure that ends an asynchronous message."""

    def __init__(self, callback: TaskCallback, message: Any, watch: Watch) -> None:
        self._callback = callback
        self._message = message
        self._watch = watch

    def complete(self, then: Callable[[], object] | None = None) -> None:
        self._callback.complete(then)

    def failure(self, error: BaseException) -> None:
        self._watch.failed(self._message, error)
        self._callback.failure(error)


def _init(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def init(self: Any, context: Context) -> Any:
        task = context.task
        assert isinstance(task, ContainerTaskContext)
        starts = task.positions
        result = method(self, context)
        # The replay decides where the inputs start, and nothing reaches the database of a sink.
        for ssp, offset in starts.items():
            task.set_starting_offset(ssp, offset)
        task.sinks.clear()
        return result

    return init
