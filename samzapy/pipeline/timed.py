"""Steps that follow event time: windows, and joins of streams.

Each input has a port (see `samzapy.pipeline.step`). The time of a port's partitions comes from their messages. The time
of partitions of a stream of the job comes from the watermarks of all tasks that write it: they interleave, and a task
that is behind is not late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.operators.event_time import Duration
from samzapy.operators.folds import OfValues
from samzapy.operators.joins import AsOfJoin, Joined, StreamStreamJoin, TimeRules, Within
from samzapy.operators.windows import EventTimeWindows, OnClose, WindowDefinition, WindowedAggregation, WindowResult
from samzapy.operators.windows.per_key import Sliding
from samzapy.operators.windows.windows import Emission
from samzapy.pipeline.aggregates import Folding, Named
from samzapy.pipeline.functions import Batch, form_of
from samzapy.pipeline.step import Opening, Port, Receive, Step, clock_of, ignore


@dataclass(eq=False, kw_only=True)
class Windows(Folding):
    """The aggregation of each window of a key, as messages with `key`, `start`, `end`, `kind` and the results."""

    kind: ClassVar[str] = "window"
    keeps_time: ClassVar[bool] = True
    definition: WindowDefinition
    result: str = ""
    emission: Emission = field(default_factory=OnClose)
    idle: Duration | None = None
    late: Late | None = None

    @property
    def reads_contents(self) -> bool:
        return self.late is not None or super().reads_contents

    @property
    def keeps_messages(self) -> bool:
        return super().keeps_messages or (isinstance(self.definition, Sliding) and super().reads_contents)

    @property
    def signature(self) -> str:
        return f"{self.kind} {self.definition.name} {self.fold.name}"

    def describe(self) -> str:
        emission = "" if type(self.emission) is OnClose else f", {type(self.emission).__name__}"
        return f"{self.definition.name}: {self.fold.name}{emission}"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        port = Port(self, 0, task)
        results: list[WindowResult] = []
        late: list[IncomingMessageEnvelope] = []
        emit_late = None if self.late is None else task.emitters[self.late]
        fold, form, plain = self.fold, form_of(self.inputs[0].value_type), None
        if isinstance(self.definition, Sliding):  # their store keeps what they fold
            plain = form.to_plain if self.keeps_messages else (lambda _: 0)
            fold = OfValues(fold, form.from_plain) if self.keeps_messages else fold
        windows = EventTimeWindows(
            task.seen_by([port], {}),
            self.name,
            WindowedAggregation(
                self.definition,
                fold,
                lambda result, _: results.append(result),
                late=None if emit_late is None else late.append,
                emit=self.emission,
                idle=self.idle,
            ),
        )

        def content(result: WindowResult) -> dict[str, Any]:
            values = result.value if isinstance(self.fold, Named) else {self.result: result.value}
            return {"key": result.key, "start": result.start, "end": result.end, "kind": result.kind, **values}

        def flush(offset: int) -> None:
            if results:
                keys, times = [result.key for result in results], [result.time_ms for result in results]
                batch = Batch(clock_of(self), [offset] * len(results), keys, list(map(content, results)), times)
                results.clear()
                emit(batch)
            if late and emit_late is not None:
                came = Batch.of(late)
                late.clear()
                emit_late(Batch(clock_of(self), came.offsets, came.keys, came.messages, came.timestamps))

        def receive(batch: Batch) -> None:
            results.clear()  # what a failed call has left
            late.clear()
            windows.add_all(port.renamed(batch), task.collector, value=plain)
            flush(batch.offsets[-1])

        def advance() -> None:
            windows.advance(task.collector)
            flush(-1)
            clock.mark = windows.settled_ms

        def finish() -> None:
            windows.finish(task.collector)
            flush(-1)

        task.follow(port, windows.mark)
        clock = task.timed(self, advance, finish)
        return [receive]


@dataclass(eq=False, kw_only=True)
class Late(Step):
    """The messages that came too late for all of the windows of its input."""

    kind: ClassVar[str] = "late"
    has_positions = False

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        return [ignore]  # the windows emit for it


#: From (left, right), either None in an outer join, to the content of a result.
Joiner = Callable[[Any, Any], Any]


@dataclass(eq=False, kw_only=True)
class JoinOfStreams(Step):
    """Pairs of messages of two streams. `wanted`: the sides that a result must have."""

    kind: ClassVar[str] = "join"
    keeps_state: ClassVar[bool] = True
    skips_nulls: ClassVar[bool] = True
    keeps_time: ClassVar[bool] = True
    joiner: Joiner
    rules: TimeRules
    #: The operator and the time for which it holds messages back, in milliseconds.
    within: Within | None = None
    tolerance: Duration | None = None
    inner: tuple[bool, bool] = (True, True)

    keeps_messages = True

    @property
    def signature(self) -> str:
        return f"{self.kind} {'as-of' if self.within is None else 'within'}"

    def describe(self) -> str:
        if self.within is None:
            return f"as-of join, tolerance {self.tolerance}"
        before, after = self.within.bounds_ms
        return f"{self.kind} within {before} to {after} ms"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        ports = [Port(self, number, task) for number in (0, 1)]
        types = {port.stream: step.value_type for port, step in zip(ports, self.inputs, strict=True)}
        context, streams = task.seen_by(ports, types), (ports[0].stream, ports[1].stream)
        join: StreamStreamJoin | AsOfJoin
        if self.within is None:
            join = AsOfJoin(context, self.name, streams, self.tolerance, self.rules)
        else:
            join = StreamStreamJoin(context, self.name, streams, self.within, self.rules)
        joiner, (needs_left, needs_right) = self.joiner, self.inner

        def forward(joined: Sequence[Joined], offset: int) -> None:
            wanted = [
                pair
                for pair in joined
                if (pair.left is not None or not needs_left) and (pair.right is not None or not needs_right)
            ]
            messages = [joiner(pair.left and pair.left.value, pair.right and pair.right.value) for pair in wanted]
            times = [max(side.time_ms for side in pair[1:] if side is not None) for pair in wanted]
            emit(Batch(clock_of(self), [offset] * len(wanted), [pair.key for pair in wanted], messages, times))

        def receiver(port: Port) -> Receive:
            return lambda batch: forward(join.add_all(port.numbered(batch)), batch.offsets[-1])

        def advance() -> None:
            while joined := join.advance():
                forward(joined, -1)
            clock.mark = join.settled_ms

        def finish() -> None:
            forward(list(join.finish()), -1)

        for port in ports:
            task.follow(port, join.mark)
        clock = task.timed(self, advance, finish)
        return [receiver(port) for port in ports]
