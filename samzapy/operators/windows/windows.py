"""Aggregates over windows of event time, by key, in a store of a task, and sends the results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import ID_HEADER, IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import K, V
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import BatchTask, EndOfStreamListenerTask, InitableTask, StreamTask, WindowableTask
from samzapy.errors import StoreError
from samzapy.operators.columns import Column, columns, runs_of_partitions
from samzapy.operators.event_time import KEY_REMEDY, Duration, EventTime, check_store, milliseconds
from samzapy.operators.folds import Aggregation
from samzapy.operators.windows.state import ALL_MS, Store, Window, WindowDefinition, definition_of, known_definitions

_TEXT = frozenset({str})

#: The most entries of the store that are closed in one go.
_AT_ONCE = 10_000

#: `final`: the window is closed, and no other result of it follows. `early`: its value at some moment. `update`: its
#: value after each added value. Of a key's sessions, an early result or an update replaces the results that it
#: overlaps.
Kind = Literal["final", "early", "update"]


class WindowResult(NamedTuple):
    """One window of one key: `start` (inclusive) and `end` (exclusive) in milliseconds since 1970.

    `time_ms` is the event time of the result: the window's last moment, or the newest event time if that is earlier.
    So it is never after the inputs.
    """

    key: str
    start: int
    end: int
    value: Any
    kind: Kind
    time_ms: int

    @property
    def message(self) -> dict[str, Any]:
        """The default output: `key`, `start`, `end`, `value` and `kind`."""
        return {"key": self.key, "start": self.start, "end": self.end, "value": self.value, "kind": self.kind}


#: The destination of results: a stream, or a function that is called with each result.
Output = SystemStream | Callable[[WindowResult, MessageCollector], object]


def sender(output: Output) -> Callable[[WindowResult, MessageCollector], object]:
    """The function that sends to an output. A stream gets each result's message, with its key, and `time_ms` as time
    stamp."""
    if not isinstance(output, SystemStream):
        return output

    def send(result: WindowResult, collector: MessageCollector) -> None:
        collector.send(OutgoingMessageEnvelope(output, result.message, key=result.key, timestamp=result.time_ms))

    return send


@dataclass(frozen=True)
class OnClose:
    """Sends each window once, when it is closed: final. Every emission does at least this."""


@dataclass(frozen=True)
class OnChange:
    """Sends a window after each value that it takes (`update`), and when it is closed."""


@dataclass(frozen=True)
class Early:
    """Sends the windows that have changed, every `period` of processing time (`early`), and each when it is closed.

    A restart forgets which windows have changed. The next early result of such a window comes with its next value.
    Final results are not affected.
    """

    period: Duration

    def __post_init__(self) -> None:
        milliseconds(self.period, "period of Early", 1)  # raises ValueError for an invalid duration


Emission = OnClose | OnChange | Early


@dataclass(frozen=True)
class WindowedAggregation:
    """The `aggregation` over each of the `windows` of a key, sent to `output`.

    1. `late`: the stream (or a function) for messages that came too late for all of their windows, or are more than
       `task.event.time.max.ahead.ms` ahead of the wall clock, with their keys and headers, and their
       event times as time stamps. Without it they are only counted.
    2. `emit`: OnClose(), OnChange() or Early("10s").
    3. `idle`: the silence (processing time) after which the other partitions no longer wait for a partition. When all
       partitions are idle, event time advances with the wall clock. Set it longer than any pause of the job: later
       messages for a window that is over are late. None (the default): a silent partition holds the windows open, and
       results depend only on the inputs.
    4. `inputs`: the streams that are aggregated; None: all inputs of the task.

    Raises TypeError for an aggregation of another kind.
    """

    windows: WindowDefinition
    aggregation: Aggregation
    output: Output
    _: KW_ONLY
    late: SystemStream | Callable[[IncomingMessageEnvelope], object] | None = None
    emit: Emission = field(default_factory=OnClose)
    idle: Duration | None = None
    inputs: Collection[SystemStream] | None = None

    def __post_init__(self) -> None:
        given: object = self.aggregation
        if not isinstance(given, Aggregation):
            expected = "expected one of samzapy.operators.windows, such as Count()"
            raise TypeError(f"aggregation: {expected}, got {given!r:.100}; those of samzapy itself are for pipelines")


class EventTimeWindows:
    """The windows of one task, in a separate store.

    1. The store has string keys, and values in json or msgpack. For counts and sums of whole numbers it may be long, if
       the windows are tumbling, or hopping with a size of less than four advances. The store is restored with the task
       and committed with its offsets, so a restart at any message changes no result.
    2. A window is over when the event time of every partition has reached its end plus the grace. The next `advance`
       closes it. Windows that end first are closed first. Windows that were over stay over in a run with another grace.
    3. Messages are late by the event time of their own partition. The order of different partitions does not matter.

    Not for several threads, and not for an AsyncStreamTask with more than one message in flight.
    """

    def __init__(self, context: Context, store: str, aggregation: WindowedAggregation) -> None:
        """`store`: the name of the store. Raises ValueError for inputs that the task does not have and for a fold that
        does not fit the windows, StoreError for a store that holds other windows, ConfigError for a store with
        `rocksdb.ttl.ms` or with a serde that does not take the windows."""
        windows, emit = aggregation.windows, aggregation.emit
        counter = context.task.metrics.counter
        self._clock = context.container.clock
        self._aggregation = aggregation
        self._output = sender(aggregation.output)
        held = context.get_store(store)
        partitions = _partitions(context, aggregation)
        self._state = windows.state(held, aggregation.aggregation)
        check_store(context, store, windows.name, lists=self._state.keeps_lists)
        definition = definition_of(windows, aggregation.aggregation) + self._state.layout
        _remember(held, definition, f"{context.task.task_name}: store '{store}'")
        self._time = EventTime(
            context,
            held,
            partitions,
            "windows",
            idle=aggregation.idle,
            grace_ms=windows.grace_ms,
            ahead=counter("windows", f"{store}.ahead"),
            remedy="; give another one with time_ms",
        )
        self._on_change = isinstance(emit, OnChange)
        self._early_s = milliseconds(emit.period, "period", 1) / 1000 if isinstance(emit, Early) else None
        self._early_at = self._clock.monotonic() + (self._early_s or 0.0)
        if not isinstance(emit, OnClose):
            self._state.touched = set()
        self._receive, self._fold = self._time.receive, self._state.add
        self._late, self._closed = counter("windows", f"{store}.late"), counter("windows", f"{store}.closed")
        self._over = context.task.metrics.gauge(context.task.task_name, f"{store}.event-time-ms")

    def add(
        self,
        envelope: IncomingMessageEnvelope,
        key: str,
        value: Any,
        collector: MessageCollector,
        time_ms: int | None = None,
    ) -> bool:
        """Fold `value` into the windows of `key` that the message's event time falls into; returns False if all of them
        were over, so the message was late. `time_ms`: another event time than the envelope's.

        Raises ValueError for a message without a proper event time, and TypeError for a key that is not a string.
        """
        time = envelope.event_time if time_ms is None else time_ms
        horizon = self._receive(envelope, time)
        if type(key) is not str:
            self._refuse_key(envelope, key)
        if not self._fold(key, value, time, horizon):
            self._send_late(envelope, time, collector)
            return False
        if self._on_change:
            self._send_touched("update", max(horizon, time), collector.from_input(envelope.offset))
        return True

    def add_all(
        self,
        batch: Sequence[IncomingMessageEnvelope],
        collector: MessageCollector,
        *,
        key: Column = None,
        value: Column = None,
        time: Column = None,
    ) -> int:
        """Fold a MessageBatch, or any sequence of messages: as `add` of each in order, with state touched once per key
        and window. Returns the number of late ones.

        `key`, `value` and `time` are each a function of a message's content or a column as long as the batch; None: the
        messages' keys, contents and event times. Raises as `add`; then nothing of the messages of that partition was
        added.
        """
        late = 0
        for part, first in runs_of_partitions(batch):
            keys, values, times = columns(part, first, len(batch), (key, value, time))
            if not set(map(type, keys)) <= _TEXT:
                wrong = next(place for place, got in enumerate(keys) if type(got) is not str)
                self._refuse_key(part[wrong], keys[wrong])
            if self._on_change:
                self._time.check_all(part, times)
                for envelope, *row in zip(part, keys, values, times, strict=True):
                    late += not self.add(envelope, row[0], row[1], collector, row[2])
                continue
            horizons = self._time.receive_all(part, times)
            places = self._state.add_all((keys, values, times, horizons))
            for place in places:
                self._send_late(part[place], times[place], collector)
            late += len(places)
        return late

    def observe(self, envelope: IncomingMessageEnvelope, time_ms: int | None = None) -> None:
        """Accept the event time of a message that belongs into no window. Raises as `add`."""
        self._receive(envelope, envelope.event_time if time_ms is None else time_ms)

    def mark(self, ssp: SystemStreamPartition, time_ms: int) -> None:
        """Accept a watermark of one of the `watermarked` partitions of the task: no older message follows."""
        self._time.mark(ssp, time_ms)

    @property
    def settled_ms(self) -> int:
        """No later result has an event time before this."""
        return max(0, self._time.over - self._state.grace_ms)

    def advance(self, collector: MessageCollector) -> None:
        """Close the windows that are over, and send early results if they are due. Call it in the task's `window`."""
        now = self._clock.monotonic()
        if self._time.advance(now):
            self._close(self._time.over - self._state.grace_ms, collector)
        self._over.set(self._time.over)
        if self._early_s is not None and now >= self._early_at:
            self._early_at = now + self._early_s
            self._send_touched("early", self._time.newest, collector)

    def finish(self, collector: MessageCollector) -> None:
        """Close every window. Call it when the inputs have ended; windows that end by then are over from now on."""
        self._time.advance(self._clock.monotonic())
        if last := self._close(ALL_MS, collector):
            self._time.end(last + self._state.grace_ms)
        if self._state.touched:
            self._state.touched.clear()

    def _close(self, bound: int, collector: MessageCollector) -> int:
        """Close windows that end at `bound` or before; returns the end of the last one, 0 if there was none."""
        newest, last, more = self._time.newest, 0, True
        while more:
            windows, more = self._state.close(bound, _AT_ONCE)
            for window in windows:
                self._send(window, "final", newest, collector)
                last = max(last, window.end)
            self._closed.count += len(windows)
        return last

    def _send(self, window: Window, kind: Kind, newest: int, collector: MessageCollector) -> None:
        key, start, end, accumulated = window
        value = self._aggregation.aggregation.result(accumulated)
        self._output(WindowResult(key, start, end, value, kind, min(end - 1, newest)), collector)

    def _send_touched(self, kind: Kind, newest: int, collector: MessageCollector) -> None:
        touched = self._state.touched
        if not touched:
            return
        sent = set()
        for handle in sorted(touched):
            window = self._state.read(handle)
            # Two sessions that have grown together were both touched.
            if window is not None and window[:3] not in sent:
                sent.add(window[:3])
                self._send(window, kind, newest, collector)
        touched.clear()

    def _refuse_key(self, envelope: IncomingMessageEnvelope, key: object) -> NoReturn:
        got = f"got {type(key).__name__} {key!r:.100}"
        raise TypeError(f"{envelope.position}: keys of windows are strings, {got}{KEY_REMEDY}")

    def _send_late(self, envelope: IncomingMessageEnvelope, time: int, collector: MessageCollector) -> None:
        self._late.count += 1
        late = self._aggregation.late
        if late is None:
            return
        if not isinstance(late, SystemStream):
            late(envelope)
        else:
            # An id belongs to the stream that the message came from.
            headers = [header for header in envelope.headers or () if header[0] != ID_HEADER] or None
            outgoing = OutgoingMessageEnvelope(late, envelope.message, envelope.key, headers=headers, timestamp=time)
            collector.from_input(envelope.offset).send(outgoing)


def _partitions(context: Context, aggregation: WindowedAggregation) -> list[SystemStreamPartition]:
    """The partitions of the task that are aggregated."""
    ssps = context.task.ssps
    if aggregation.inputs is None:
        return list(ssps)
    known = {ssp.system_stream for ssp in ssps}
    for stream in aggregation.inputs:
        if stream not in known:
            raise ValueError(
                f"{context.task.task_name}: windows of {stream}: the task reads {', '.join(map(str, sorted(known)))}"
            )
    return [ssp for ssp in ssps if ssp.system_stream in aggregation.inputs]


def _remember(store: Store, definition: str, where: str) -> None:
    """Write the definition of the windows into a new store. Raises StoreError if the store holds other windows."""
    known = known_definitions(store)
    if not known:
        store.put(f"d|{definition}", 1)
    elif known != [definition]:
        raise StoreError(
            f"{where} holds '{known[0]}', the task wants '{definition}': "
            "give it a new store with a changelog of its own, or what it had"
        )


class Windowed(InitableTask, WindowableTask, EndOfStreamListenerTask):
    """A task that aggregates: a subclass defines `aggregation`, and adds messages to `windows`.

    1. The job needs the store named by `window_store`, with string keys and json or msgpack values, and
       `task.window.ms`, the period in which windows are closed.
    2. When all inputs have ended (`--until-end`), all windows are closed, and messages for them in a later run are
       late. With `close_at_end = False` they stay open, for jobs that run again and again over the same growing stream.
    3. A subclass with an `init` must call this class's `init`.
    """

    window_store = "windows"
    close_at_end = True
    needs_window = True

    windows: EventTimeWindows

    @abstractmethod
    def aggregation(self, context: Context) -> WindowedAggregation:
        """The aggregation of the task; called once, in `init`."""

    def init(self, context: Context) -> None:
        """Open the windows."""
        self.windows = EventTimeWindows(context, self.window_store, self.aggregation(context))

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Close the windows that are over."""
        self.windows.advance(collector)

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Close all windows, or with `close_at_end = False` only windows that are over."""
        if self.close_at_end:
            self.windows.finish(collector)
        else:
            self.windows.advance(collector)


class WindowedTask(Windowed, StreamTask[K, V]):
    """A `Windowed` task that adds messages in its `process`."""


class WindowedBatchTask(Windowed, BatchTask[K, V]):
    """A `Windowed` task that adds batches in its `process_batch`: `self.windows.add_all(batch, collector)`."""
