"""Windowed aggregation over event time, by key, on a task's store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from samzapy.api.collector import MessageCollector
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import StoreError
from samzapy.operators.durations import Duration, milliseconds
from samzapy.operators.event_time import EventTime
from samzapy.operators.windows.aggregations import Aggregation
from samzapy.operators.windows.results import Early, Emission, Kind, OnChange, OnClose, Output, WindowResult, sender
from samzapy.operators.windows.state import ALL_MS, Store, Window, WindowDefinition

#: Windows that are closed in one go at the end of a stream.
_AT_THE_END = 10_000


@dataclass(frozen=True)
class WindowedAggregation:
    """What is aggregated: `aggregation` over each of the `windows` of a key, sent to `output`.

    `late`: the stream that gets the messages that came too late for all of their windows, as they are; without one they
    are only counted. `emit`: OnClose(), OnChange() or Early("10s").
    `idle`: for how long (processing time) a partition may be silent before the others no longer wait for it; when all of
    them are, event time goes on with the wall clock. Longer than any pause of the job's own; what a partition brings
    later, and is over, is late. None (the default): a silent partition holds the windows open, and results are a
    function of the inputs alone.
    `inputs`: the streams whose messages are added; None: all of the task's.
    `max_closes`: entries of the store that one `advance` closes, or twice as many as were opened since the last one, if
    that is more; what is left is closed by the next.
    """

    windows: WindowDefinition
    aggregation: Aggregation
    output: Output
    late: SystemStream | None = None
    emit: Emission = field(default_factory=OnClose)
    idle: Duration | None = None
    inputs: Collection[SystemStream] | None = None
    max_closes: int = 10_000

    def __post_init__(self) -> None:
        if self.max_closes < 1:
            raise ValueError(f"max_closes: an integer >= 1, got {self.max_closes}")


class EventTimeWindows:
    """The windows of one task, kept in one of its stores, which is used for nothing else.

    The store has string keys, and values in json or msgpack (or long, for tumbling and hopping counts and sums of whole
    numbers); it is restored with the task and committed with its offsets, so a restart at any message changes no result.
    A window is over when the event time of every partition has come to its end plus the grace, and is closed by the next
    `advance`, those that end first before others. Messages are late by the event time of their own partition: it does
    not matter how partitions take turns.

    Not for several threads, and not for an AsyncStreamTask with more than one message in flight.
    """

    def __init__(
        self, context: Context, store: str, aggregation: WindowedAggregation, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`store` is its name. Raises ValueError for inputs that the task does not have and for a fold that does not
        fit the windows, StoreError for a store that holds other windows."""
        self._clock = clock
        self._aggregation = aggregation
        self._output = sender(aggregation.output)
        held = context.get_store(store)
        windows, fold = aggregation.windows, aggregation.aggregation
        now = clock.monotonic()
        idle_s = None if aggregation.idle is None else milliseconds(aggregation.idle, "idle", 1) / 1000
        remedy = "; give another one with time_ms"
        self._time = EventTime(held, _partitions(context, aggregation), now, idle_s, "windows", remedy)
        self._state = windows.state(held, fold)
        _remember(held, f"{windows.name}, {fold.name}", f"{context.task.task_name}: store '{store}'")
        self._on_change = isinstance(aggregation.emit, OnChange)
        self._early_s = aggregation.emit.period_s if isinstance(aggregation.emit, Early) else None
        self._early_at = now + (self._early_s or 0.0)
        if not isinstance(aggregation.emit, OnClose):
            self._state.touched = set()
        self._hear, self._take = self._time.hear, self._state.add
        # What was over before a restart may not have been closed.
        self._more = True
        self._opened = 0
        counter, gauge = context.task.metrics.counter, context.task.metrics.gauge
        self._late, self._closed = counter("windows", f"{store}.late"), counter("windows", f"{store}.closed")
        self._over = gauge(context.task.task_name, f"{store}.event-time-ms")

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

        Raises ValueError for an event time that is none, and TypeError for a key that is no string.
        """
        time = envelope.event_time
        if time_ms is not None:
            time = time_ms
            if type(time) is not int:
                self._time.refuse(envelope, time)
        horizon = self._hear(envelope, time)
        if type(key) is not str:
            raise TypeError(f"{envelope.position}: keys of windows are strings, got {type(key).__name__} {key!r:.100}")
        if not self._take(key, value, time, horizon):
            self._put_aside(envelope, time, collector)
            return False
        if self._on_change:
            self._send_touched("update", horizon, collector)
        return True

    def observe(self, envelope: IncomingMessageEnvelope, time_ms: int | None = None) -> None:
        """A message that is in no window, but tells how far event time has come. Raises as `add`."""
        self._hear(envelope, envelope.event_time if time_ms is None else time_ms)

    @property
    def holding(self) -> SystemStreamPartition | None:
        """The partition that kept windows open at the last `advance`: the furthest behind, or one that has brought
        nothing yet; None if all were idle."""
        return self._time.holding

    def advance(self, collector: MessageCollector) -> None:
        """Close what is over, and send early results if it is time: to be called in the task's `window`."""
        now = self._clock.monotonic()
        if self._time.look(now) or self._more:
            limit = max(self._aggregation.max_closes, 2 * (self._state.opened - self._opened))
            self._opened = self._state.opened
            self._close(self._time.over - self._state.grace_ms, limit, collector)
            self._over.set(self._time.over)
        if self._early_s is not None and now >= self._early_at:
            self._early_at = now + self._early_s
            self._send_touched("early", self._time.newest, collector)

    def finish(self, collector: MessageCollector) -> None:
        """Close every window: to be called when the inputs have ended. What ends with them or before is over from now on."""
        self._time.look(self._clock.monotonic())
        last = 0
        self._more = True
        while self._more:
            last = max(last, self._close(ALL_MS, _AT_THE_END, collector))
        if last:
            self._time.end(last + self._state.grace_ms)
        if self._state.touched:
            self._state.touched.clear()

    def _close(self, bound: int, limit: int, collector: MessageCollector) -> int:
        """Close windows that end at `bound` or before; returns when the last of them ends, 0 if there was none."""
        windows, self._more = self._state.close(bound, limit)
        newest = self._time.newest
        for window in windows:
            self._send(window, "final", newest, collector)
        self._closed.count += len(windows)
        return windows[-1].end if windows else 0

    def _send(self, window: Window, kind: Kind, newest: int, collector: MessageCollector) -> None:
        key, start, end, gathered = window
        value = self._aggregation.aggregation.result(gathered)
        self._output(WindowResult(key, start, end, value, kind, min(end - 1, newest)), collector)

    def _send_touched(self, kind: Kind, newest: int, collector: MessageCollector) -> None:
        touched = self._state.touched
        if not touched:
            return
        sent = set()
        for handle in sorted(touched):
            window = self._state.read(handle)
            # Sessions that have grown together were touched as two.
            if window is not None and window[:3] not in sent:
                sent.add(window[:3])
                self._send(window, kind, newest, collector)
        touched.clear()

    def _put_aside(self, envelope: IncomingMessageEnvelope, time: int, collector: MessageCollector) -> None:
        self._late.count += 1
        late = self._aggregation.late
        if late is not None:
            collector.send(OutgoingMessageEnvelope(late, envelope.message, key=envelope.key, timestamp=time))


def _partitions(context: Context, aggregation: WindowedAggregation) -> list[SystemStreamPartition]:
    """Those of the task's partitions whose messages are added."""
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
    """Let a new store remember what windows it holds. Raises StoreError if they are others."""
    with store.range("d|", "d}") as entries:
        known = [entry[2:] for entry, _ in entries]
    if not known:
        store.put(f"d|{definition}", 1)
    elif known != [definition]:
        raise StoreError(
            f"{where} holds '{known[0]}', the task wants '{definition}': "
            "give it a new store with a changelog of its own, or what it had"
        )
