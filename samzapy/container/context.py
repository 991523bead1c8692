"""The task's side of the context: stores by name; starting offsets and sinks while it is in `init`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samzapy.api.context import TaskContext
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.sink import Sink
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.timers import Timers
from samzapy.errors import StoreError


class ContainerTaskContext(TaskContext):
    """Built for `init`; `offsets` is the task's own map of starting offsets, changed in place.

    `moved` are the partitions whose offset was set, `sinks` what was registered.
    """

    def __init__(
        self,
        task_name: str,
        stores: Mapping[str, Any],
        offsets: dict[SystemStreamPartition, int],
        metrics: MetricsRegistry,
        epoch: int,
        timers: Timers | None = None,
    ) -> None:
        self._task_name = task_name
        self._stores = stores
        self._offsets = offsets
        self._metrics = metrics
        self._epoch = epoch
        self._timers = timers
        self._sealed = False
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

    def set_starting_offset(self, ssp: SystemStreamPartition, offset: int) -> None:
        if self._sealed:
            raise RuntimeError("set_starting_offset is for init: the task has started")
        if ssp not in self._offsets:
            raise KeyError(f"{self._task_name} does not read {ssp}")
        self._offsets[ssp] = offset
        self.moved.add(ssp)

    def register_sink(self, sink: Sink) -> None:
        if self._sealed:
            raise RuntimeError("register_sink is for init: the task has started")
        if any(known.name == sink.name for known in self.sinks):
            raise ValueError(f"{self._task_name} has a sink named '{sink.name}' already")
        self.sinks.append(sink)

    def seal(self) -> None:
        """`init` has returned."""
        self._sealed = True
