"""The runtime objects that a task's code receives: its context in `init`, its coordinator in every call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from samzapy.api.collector import RequestScope, TaskCoordinator
from samzapy.api.context import TaskContext
from samzapy.api.event_time import StateCheckpoints, Timers
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.sink import Sink
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import StoreError


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
