"""The tasks of `operator-jobs`: an operator each, fed message by message or in batches. What they find is dropped:
sending is what `pass-through` measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

from benchmarks.bare import operators as by_hand
from benchmarks.bare.events import Event
from samzapy import (
    BatchTask,
    Context,
    EndOfStreamListenerTask,
    IncomingMessageEnvelope,
    MessageBatch,
    MessageCollector,
    StreamTask,
    SystemStream,
    TaskCoordinator,
    TimerTask,
    WindowableTask,
)
from samzapy.bench.tasks import Marked
from samzapy.operators.joins import AsOfJoin, StreamStreamJoin, Within
from samzapy.operators.persistent import Count as Counted
from samzapy.operators.persistent import Keyed, NonWindowState, PersistentBatchTask, PersistentState, PersistentTask
from samzapy.operators.windows import Count, EventTimeWindows, Sessions, Tumbling, WindowDefinition, WindowedAggregation
from samzapy.storage.views import HeapStore

#: The key of the job file with the operator's name.
OPERATOR = "bench.operator"
_STORE = "kept"

Batch = MessageBatch[str, Event]
Envelope = IncomingMessageEnvelope[str, Event]


class _Nowhere(MessageCollector):
    """Drops what is sent."""

    def send(self, envelope: object) -> None:
        """Drop it."""

    def send_control(self, stream: object, message: object) -> None:
        """Drop it."""


_NOWHERE = _Nowhere()


@dataclass(frozen=True)
class _Operator:
    """How an operator takes one message, and a batch; how it closes what is over; how it ends."""

    add: Callable[[Envelope], object]
    add_all: Callable[[Batch], object]
    advance: Callable[[], object] = lambda: None
    finish: Callable[[], object] = lambda: None


def _streams(context: Context) -> tuple[SystemStream, ...]:
    return tuple(map(SystemStream.parse, context.job.config["task.inputs"].split(",")))


def _windows(definition: WindowDefinition, context: Context) -> _Operator:
    windows = EventTimeWindows(context, _STORE, WindowedAggregation(definition, Count(), SystemStream("kafka", "none")))
    add = windows.add
    return _Operator(
        lambda envelope: add(envelope, envelope.key, 1, _NOWHERE),
        lambda batch: windows.add_all(batch, _NOWHERE),
        partial(windows.advance, _NOWHERE),
        partial(windows.finish, _NOWHERE),
    )


def _as_of(context: Context) -> _Operator:
    left, right = _streams(context)
    join = AsOfJoin(context, _STORE, (left, right), "1m")
    return _Operator(join.add, join.add_all, join.advance, lambda: list(join.finish()))


def _stream_stream(context: Context) -> _Operator:
    left, right = _streams(context)
    join = StreamStreamJoin(context, _STORE, (left, right), Within(0, "5s"))
    return _Operator(join.add, join.add_all, join.advance, lambda: list(join.finish()))


def _heap(context: Context) -> _Operator:
    heap = context.get_store(_STORE, HeapStore)

    def push_all(batch: Batch) -> None:
        offsets = batch.offsets
        items = [list(item) for item in zip(offsets, batch.keys, strict=True)]
        heap.push_all(items, list(map(by_hand.score_of, offsets)), list(map(by_hand.group_of, offsets)))

    return _Operator(lambda e: heap.push([e.offset, e.key], by_hand.score(e), by_hand.group(e)), push_all)


_OPERATORS: Mapping[str, Callable[[Context], _Operator]] = {
    "tumbling": partial(_windows, Tumbling("1m", grace="5s")),
    "sessions": partial(_windows, Sessions("2s", grace="5s")),
    "as-of": _as_of,
    "stream-stream": _stream_stream,
    "heap": _heap,
}


class _OperatorTask(Marked, WindowableTask, EndOfStreamListenerTask):
    _operator: _Operator

    def init(self, context: Context) -> None:
        self._operator = _OPERATORS[context.job.config[OPERATOR]](context)
        super().init(context)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._operator.advance()

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._operator.finish()


class EachMessageTask(_OperatorTask, StreamTask[str, Event]):
    """Feeds the operator message by message."""

    def process(self, envelope: Envelope, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._operator.add(envelope)


class EachBatchTask(_OperatorTask, BatchTask[str, Event]):
    """Feeds the operator in batches."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._operator.add_all(batch)


class _TimersTask(Marked, TimerTask):
    def init(self, context: Context) -> None:
        self._timers = context.task.timers
        self.fired = 0
        super().init(context)

    def on_timer(self, key: Any, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.fired += 1


class EachTimerTask(_TimersTask, StreamTask[str, Event]):
    """Each message moves the timer of its key."""

    def process(self, envelope: Envelope, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._timers.schedule(envelope.key, envelope.event_time + by_hand.TIMEOUT_MS)


class BatchTimersTask(_TimersTask, BatchTask[str, Event]):
    """The same in batches."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._timers.schedule_all(batch.keys, [time + by_hand.TIMEOUT_MS for time in batch.timestamps])


class _CountsState:
    def persistent_state(self) -> PersistentState[dict[str, int]]:
        return NonWindowState(Keyed(Counted()))


class CountsTask(_CountsState, PersistentTask[dict[str, int]], Marked):
    """Counts by key in a persistent state."""

    def on_start(self, context: Context) -> None:
        Marked.init(self, context)

    def process_message(self, state: PersistentState[dict[str, int]], message: Envelope) -> None:
        state.update(message.event_time, (message.key, 1))


class BatchCountsTask(_CountsState, PersistentBatchTask[dict[str, int]], Marked):
    """The same in batches."""

    def on_start(self, context: Context) -> None:
        Marked.init(self, context)

    def process_messages(self, state: PersistentState[dict[str, int]], batch: Batch) -> None:
        state.add_all(batch, value=list(zip(batch.keys, repeat(1), strict=False)))
