"""The runtime objects that a task's code works with: its context in `init`, its coordinator in every call, the
checkpoints of a private state, and the sinks that it registers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from samzapy.api.collector import MessageCollector, RequestScope, Sink, TaskAttempt, TaskCoordinator
from samzapy.api.context import MetricsRegistry, TaskContext
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.event_time import StateCheckpoints, StateCheckpointTask, TaskClock, TimedState, Timers
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.checkpoint.states import TopicCheckpointStore
from samzapy.clock import Clock
from samzapy.config.streams import StreamConfig
from samzapy.container.errors.user_failures import task_failed
from samzapy.errors import EnvironmentFailure, RestoreError, SamzapyError, StoreError
from samzapy.failpoints import reach

T = TypeVar("T")

logger = logging.getLogger(__name__)

Offsets = Mapping[SystemStreamPartition, int]


class ContainerTaskContext(TaskContext):
    """The context for `init`; `offsets` is the task's live map of starting offsets, changed in place.

    `moved`: the partitions with an offset that `init` has set. `replayed`: the committed offsets of partitions that
    start before them, for a private state. `sinks`: the registered sinks.
    """

    def __init__(  # noqa: PLR0913  # what a task may ask for
        self,
        task_name: str,
        stores: Mapping[str, Any],
        offsets: dict[SystemStreamPartition, int],
        metrics: MetricsRegistry,
        epoch: int,
        *,
        checkpoints: StateCheckpoints | None = None,
        pinned: Collection[SystemStreamPartition] = (),
        timers: Timers | None = None,
        types: Mapping[SystemStream, Any] = MappingProxyType({}),
        event_time: Callable[[Collection[SystemStreamPartition]], int | None] = lambda _: None,
    ) -> None:
        """`checkpoints`: the checkpoints of a StateCheckpointTask. `pinned`: the partitions that start at a startpoint,
        or are reset, independent of any state. `types`: the classes of the inputs' messages."""
        self._task_name = task_name
        self._stores = stores
        self._offsets = offsets
        self._metrics = metrics
        self._epoch = epoch
        self._timers = timers
        self._checkpoints = checkpoints
        self._pinned = pinned
        self._types = types
        self._event_time = event_time
        self._sealed = False
        self.replayed: dict[SystemStreamPartition, int] = {}
        self.moved: set[SystemStreamPartition] = set()
        self.sinks: list[Sink] = []

    @property
    def task_name(self) -> str:
        return self._task_name

    @property
    def ssps(self) -> frozenset[SystemStreamPartition]:
        return frozenset(self._offsets)

    @property
    def metrics(self) -> MetricsRegistry:
        return self._metrics

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def timers(self) -> Timers:
        return super().timers if self._timers is None else self._timers

    def get_store(self, name: str, kind: type[Any] = object) -> Any:
        try:
            store = self._stores[name]
        except KeyError:
            known = ", ".join(sorted(self._stores)) or "none"
            add = f"known: {known}, or add stores.{name}.factory"
            raise StoreError(f"{self._task_name}: the job has no store {name!r}; {add}") from None
        if not isinstance(store, kind):
            raise StoreError(
                f"{self._task_name}: store {name!r} is {type(store).__name__}, the task wants {kind.__name__}; "
                f"see stores.{name}.factory"
            )
        return store

    def message_type(self, stream: SystemStream) -> Any:
        return self._types.get(stream)

    def event_time(self, ssps: Collection[SystemStreamPartition]) -> int | None:
        return self._event_time(ssps)

    def set_starting_offset(self, ssp: SystemStreamPartition, offset: int) -> None:
        self._start_at("set_starting_offset", ssp, offset)

    @property
    def positions(self) -> Mapping[SystemStreamPartition, int]:
        return dict(self._offsets)

    def replay_from(self, ssp: SystemStreamPartition, offset: int) -> int:
        committed = self._offsets.get(ssp, offset)
        if ssp in self._pinned:
            return committed
        self._start_at("replay_from", ssp, offset)
        if offset < committed:
            self.replayed[ssp] = committed
        return committed

    @property
    def state_checkpoints(self) -> StateCheckpoints:
        if self._checkpoints is None:
            raise RuntimeError(f"{self._task_name}: state checkpoints are for a StateCheckpointTask")
        return self._checkpoints

    def register_sink(self, sink: Sink) -> None:
        if self._sealed:
            raise RuntimeError("register_sink is for init: the task has started")
        if self._checkpoints is not None:
            raise RuntimeError(
                f"{self._task_name} keeps a state of its own, with which the rows of a sink do not go back"
            )
        if any(known.name == sink.name for known in self.sinks):
            raise ValueError(f"{self._task_name} has a sink named '{sink.name}' already")
        self.sinks.append(sink)

    def _start_at(self, call: str, ssp: SystemStreamPartition, offset: int) -> None:
        if self._sealed:
            raise RuntimeError(f"{call} is for init: the task has started")
        if ssp not in self._offsets:
            raise KeyError(f"{self._task_name} does not read {ssp}")
        self._offsets[ssp] = offset
        self.moved.add(ssp)

    def seal(self) -> None:
        self._sealed = True


def _no_scope(given: object) -> TypeError:
    return TypeError(f"expected one of {', '.join(map(str, RequestScope))}, got {given!r}")


class CoordinatorRequests(TaskCoordinator):
    """The open requests of one task. The run loop reads `pending` after every call into the task."""

    __slots__ = ("commit_asked", "pending", "shutdown_all", "shutdown_vote")

    def __init__(self) -> None:
        self.pending = False
        self.commit_asked = False
        self.shutdown_vote = False
        self.shutdown_all = False

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        if not isinstance(scope, RequestScope):
            raise _no_scope(scope)
        self.pending = self.commit_asked = True

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        self.pending = True
        if scope is RequestScope.ALL_TASKS_IN_CONTAINER:
            self.shutdown_all = True
        elif scope is RequestScope.CURRENT_TASK:
            self.shutdown_vote = True
        else:
            raise _no_scope(scope)

    def interrupt(self) -> None:
        """Make the task return after the message at hand, since something else must be done first."""
        self.pending = True

    def done(self) -> None:
        """The loop has carried out the requests; a vote to shut down stays."""
        self.pending = False
        self.commit_asked = False


class KeptStateCheckpoints(StateCheckpoints):
    """Takes and persists the checkpoints of a task with a private state, in step with its commits.

        a commit begins         take the state; the task may send outputs with it
        the commit              offsets and outputs
        the commit is durable   persist the state, so that it never holds a message with lost outputs

    After a crash in between, the previous checkpoint is the last one; its positions are behind the committed ones.

    `offsets` is the task's live map of positions; `job_clock` the job's checkpoint clock as the coordinator keeps
    it.

    A task can start with any of its checkpoints, since each one holds its own positions. The clock chooses the same
    moment in event time for all tasks.
    """

    def __init__(
        self,
        task: str,
        store: TopicCheckpointStore,
        interval_ms: int,
        job_clock: Callable[[], int | None],
        offsets: Offsets,
        clock: Clock,
        *,
        committed: bool,
        reset: bool,
    ) -> None:
        """`committed`: whether the task has ever committed, and so must have a state; `reset`: whether all its inputs
        are reset, which resets the state as well."""
        self._task = task
        self._store = store
        self._interval_ms = interval_ms
        self._job_clock = job_clock
        self._offsets = offsets
        self._clock = clock
        self._persisted_at = clock.monotonic()
        self._committed, self._reset = committed, reset
        self._taken: TimedState | None = None
        self._written = self._bytes = 0
        #: Replaced as a whole: another thread reads it.
        self._kept: tuple[tuple[int, ...], Offsets] = (), {}

    @property
    def interval_ms(self) -> int:
        return self._interval_ms

    @property
    def start_ms(self) -> int:
        return self._job_clock() or 0

    @property
    def overdue(self) -> bool:
        return self._clock.monotonic() - self._persisted_at >= self._interval_ms / 1000.0

    @property
    def unchanged(self) -> bool:
        """Whether no message was processed since the last one."""
        return self._kept[1] == self._offsets

    @property
    def kept(self) -> tuple[tuple[int, ...], bool] | None:
        """The times of the checkpoints, ascending, and whether the task has processed nothing since the last one, so
        that it stands for every later time. None before `init` has found or made the first one; from any thread."""
        times, offsets = self._kept
        return (times, offsets == self._offsets) if times else None

    def recover(self) -> TimedState | None:
        times = self._store.times()
        if self._reset:
            self._store.remove(times)
            return None
        if not times:
            if self._committed:
                raise RestoreError(
                    f"{self._task}: the job has committed and has no state checkpoint ({self._store.place(0)} and "
                    "others); to begin anew run it once with samza.reset.offset=true for every input"
                )
            return None
        time_ms = self._recoverable(times)
        self._store.remove([later for later in times if later > time_ms])
        result = TimedState(time_ms, self._store.recover(time_ms), self._store.place(time_ms))
        self._kept = tuple(item for item in times if item <= time_ms), {}
        return result

    def persist(self, state: TimedState) -> None:
        self._store.persist(state.time_ms, state.value)
        reach("state.persisted")
        self._written, self._bytes = self._written + 1, len(state.value)
        self._persisted_at = self._clock.monotonic()
        times = sorted({*self._kept[0], state.time_ms})
        needed = self._recoverable(times)
        self._store.remove([time_ms for time_ms in times if time_ms < needed])
        self._kept = tuple(time_ms for time_ms in times if time_ms >= needed), dict(self._offsets)

    def started(self) -> None:
        """`init` has returned: the task is at the positions of the recovered checkpoint."""
        self._kept = self._kept[0], dict(self._offsets)

    def take(self, task: object, clock: TaskClock, collector: MessageCollector) -> bool:
        """A commit begins; returns whether a state was taken. Raises TaskFailed if the user's code does."""
        assert isinstance(task, StateCheckpointTask)
        try:
            self._taken = None if self.unchanged else task.take_checkpoint(clock, collector)
        except SamzapyError:
            raise
        except Exception as cause:
            raise task_failed(self._task, "take_checkpoint", cause) from cause
        return self._taken is not None

    def keep(self) -> None:
        """The commit is durable."""
        taken, self._taken = self._taken, None
        if taken is not None:
            reach("state.taken")
            self.persist(taken)

    def metrics(self) -> Mapping[str, float]:
        times = self._kept[0] or (0,)
        return {"written": self._written, "bytes": self._bytes, "oldest-ms": times[0], "newest-ms": times[-1]}

    def _recoverable(self, times: list[int]) -> int:
        """The latest time up to the job's clock; the oldest time if the clock is unknown."""
        job_clock = self._job_clock()
        return max((time_ms for time_ms in times if job_clock is not None and time_ms <= job_clock), default=times[0])


class TaskSinks:
    """The sinks of one task. An exception of a sink becomes TaskFailed, unless it is an error of samzapy."""

    def __init__(self, task_name: str) -> None:
        self._task_name = task_name
        self._sinks: tuple[Sink, ...] = ()
        self._unread: set[str] = set()

    def add(self, sinks: Iterable[Sink]) -> None:
        self._sinks = (*self._sinks, *sinks)

    def open(
        self,
        attempt: TaskAttempt,
        offsets: dict[SystemStreamPartition, int],
        committed: Mapping[SystemStreamPartition, int],
        *,
        free: Collection[SystemStreamPartition],
        may_be_behind: bool,
        streams: Callable[[SystemStream], StreamConfig],
    ) -> int:
        """Take the sinks over from earlier attempts, and set the task's `offsets` by theirs; returns the number of
        `committed` offsets that a sink lacks.

        1. A partition that is not committed starts at the least of the sinks' offsets, not at the configured default.
        2. A committed partition starts at its checkpoint, and no sink may be behind that, or rows would be missing.
           At-most-once is the exception (`may_be_behind`): its checkpoint goes first, so a crash loses messages for the
           sink as well.
        3. The partitions `free` start where `init` or the configuration says, independent of the sinks.
        4. A sink commits before the checkpoint. So a sink that lacks an offset of the checkpoint keeps no offsets (and
           repeats rows), or it is not the sink of the earlier inputs.

        Raises EnvironmentFailure for a sink that is behind; `streams` are the settings of the inputs.
        """
        held_by = [(sink, self._call(sink, "open", sink.open, attempt)) for sink in self._sinks]
        lacking = sum(_lacking(attempt, sink, committed, held) for sink, held in held_by)
        for ssp in offsets:
            if ssp in free:
                continue
            known = [(held[ssp], sink) for sink, held in held_by if ssp in held]
            if not known:
                continue
            least, sink = min(known, key=lambda each: each[0])
            if ssp not in committed:
                offsets[ssp] = least
            elif least < committed[ssp] and not may_be_behind:
                raise EnvironmentFailure(
                    _behind(attempt, sink, streams(ssp.system_stream), f"{ssp} up to offset {least}", committed[ssp])
                )
        return lacking

    def commit(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        for sink in self._sinks:
            self._call(sink, "commit", sink.commit, offsets)

    def forget(self, envelope: IncomingMessageEnvelope) -> None:
        for sink in self._sinks:
            self._call(sink, "forget", sink.forget, envelope)

    def marks(self) -> Sequence[int | None]:
        """The place in each sink where the rows of the next batch begin; valid until a commit."""
        return [self._call(sink, "mark", sink.mark) for sink in self._sinks]

    def back_to(self, marks: Sequence[int | None], batch: Iterable[IncomingMessageEnvelope]) -> None:
        for sink, mark in zip(self._sinks, marks, strict=True):
            if mark is not None:
                self._call(sink, "back_to", sink.back_to, mark)
                continue
            for envelope in batch:
                self._call(sink, "forget", sink.forget, envelope)

    def full(self) -> bool:
        """Whether the task should commit early, because a sink holds many rows."""
        return any(self._call(sink, "full", sink.full) for sink in self._sinks)

    def publish(self, metrics: MetricsRegistry) -> None:
        """Set the sinks' own gauges. The gauges of a sink that raises stay as they are. The failure is counted, and
        logged once for each sink."""
        for sink in self._sinks:
            try:
                for name, value in sink.metrics().items():
                    metrics.gauge(self._task_name, f"sink.{sink.name}.{name}").set(value)
            except Exception as cause:  # noqa: BLE001  # the commit is durable already
                metrics.counter("metrics", "source-failures").inc()
                if sink.name not in self._unread:
                    self._unread.add(sink.name)
                    logger.warning("%s", task_failed(self._task_name, f"metrics of sink '{sink.name}'", cause))

    def close(self) -> None:
        """Release the sinks; uncommitted rows are void. Closes all of them, then raises the first failure."""
        failures = []
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as cause:  # noqa: BLE001  # the other sinks must be closed as well
                failures.append(task_failed(self._task_name, f"close of sink '{sink.name}'", cause))
        if failures:
            raise failures[0]

    def _call(self, sink: Sink, name: str, method: Callable[..., T], *arguments: object) -> T:
        try:
            return method(*arguments)
        except SamzapyError:
            raise
        except Exception as cause:
            raise task_failed(self._task_name, f"{name} of sink '{sink.name}'", cause) from cause


def _lacking(
    attempt: TaskAttempt,
    sink: Sink,
    committed: Mapping[SystemStreamPartition, int],
    held: Mapping[SystemStreamPartition, int],
) -> int:
    without = sorted(committed.keys() - held.keys())
    if without:
        logger.warning(
            "%s: sink '%s' has no offset of %s, the checkpoint has: it keeps none and may repeat rows, or it is new "
            "and lacks those of earlier inputs",
            attempt,
            sink.name,
            ", ".join(map(str, without)),
        )
    return len(without)


def _behind(attempt: TaskAttempt, sink: Sink, stream: StreamConfig, held: str, committed: int) -> str:
    return (
        f"{attempt}: sink '{sink.name}' has {held}, the checkpoint says {committed}: the rows between them are missing "
        f"(was the sink restored from a copy?); to process the inputs again, run the job once with "
        f"{stream.from_oldest}; to continue without those rows, delete the sink's offset of this partition"
    )
