"""The runtime objects that a task's code receives: its context in `init` with the checkpoints of a private state, and
its coordinator in every call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from samzapy.api.collector import MessageCollector, RequestScope, Sink, TaskCoordinator
from samzapy.api.context import MetricsRegistry, TaskContext
from samzapy.api.event_time import StateCheckpoints, StateCheckpointTask, TaskClock, TimedState, Timers
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.checkpoint.states import TopicCheckpointStore
from samzapy.clock import Clock
from samzapy.errors import RestoreError, SamzapyError, StoreError, TaskFailed
from samzapy.failpoints import reach

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
            raise StoreError(f"{self._task_name}: the job has no store {name!r}; known: {known}") from None
        if not isinstance(store, kind):
            raise StoreError(
                f"{self._task_name}: store {name!r} is {type(store).__name__}, the task wants {kind.__name__}; "
                f"see stores.{name}.factory"
            )
        return store

    def message_type(self, stream: SystemStream) -> Any:
        return self._types.get(stream)

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
        found = TimedState(time_ms, self._store.recover(time_ms), self._store.place(time_ms))
        self._kept = tuple(each for each in times if each <= time_ms), {}
        return found

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
            message = f"{self._task}: take_checkpoint failed: {type(cause).__name__}: {cause}"
            raise TaskFailed(message) from cause
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
