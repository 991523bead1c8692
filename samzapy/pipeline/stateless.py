"""Steps without state: sources, filters, maps, outputs, and the way through a stream of the job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from samzapy.api.collector import Sink
from samzapy.api.stream import SystemStream
from samzapy.pipeline.functions import Batch, Expression, made_of, of_batch, of_rows, selected, with_columns
from samzapy.pipeline.step import Opening, Receive, Step


@dataclass(eq=False, kw_only=True)
class Source(Step):
    """The messages of an input of the job. A null message belongs to tables: a stream of messages leaves it out."""

    kind: ClassVar[str] = "stream"
    stream: SystemStream
    nulls: bool = False
    everywhere: bool = False
    time: Callable[..., Any] | None = None

    has_positions = True

    @property
    def skips_nulls(self) -> bool:  # type: ignore[override]  # as the other steps know it
        return not self.nulls

    @property
    def is_everywhere(self) -> bool:
        return self.everywhere or any(isinstance(parent, Broadcast) for parent in self.inputs)

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        time, latest = None if self.time is None else of_batch(self.time), task.times
        if time is not None:
            latest |= dict.fromkeys(task.origins[self])

        def at_its_times(batch: Batch) -> Batch:
            assert time is not None
            times = time(batch)
            if wrong := [place for place, at in enumerate(times) if type(at) is not int or at < 0]:
                got, where = repr(times[wrong[0]])[:100], batch[wrong[0]].position
                raise TypeError(f"{where}: time: expected milliseconds since 1970 as an int, got {got}")
            latest[batch.ssp] = max(latest[batch.ssp] or 0, *times)
            return Batch(batch.ssp, batch.offsets, batch.keys, batch.messages, times, batch.headers)

        if self in task.direct:
            port = task.behind(self, self.stream)
            return [lambda batch: emit(port.renamed(batch))]
        return [emit if time is None else lambda batch: emit(at_its_times(batch))]

    def describe(self) -> str:
        kind = "" if self.value_type is None else f" of {getattr(self.value_type, '__name__', self.value_type)}"
        return f"{self.kind} {self.stream}{kind}"


@dataclass(eq=False, kw_only=True)
class Calling(Step):
    """Calls a function of the user's for each message."""

    function: Callable[..., Any]

    @property
    def is_batched(self) -> bool:
        return isinstance(self.function, Expression)


@dataclass(eq=False, kw_only=True)
class Filter(Calling):
    """Leaves out the messages for which `function` is false."""

    kind: ClassVar[str] = "filter"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        function = of_batch(self.function)
        return [lambda batch: emit(selected(batch, function(batch)))]


@dataclass(eq=False, kw_only=True)
class Map(Calling):
    """Gives the result of `function` for each message, under the same key. `of_table`: a deletion stays one."""

    kind: ClassVar[str] = "map"
    of_table: bool = False

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        function = (of_rows if self.of_table else of_batch)(self.function)
        return [lambda batch: emit(with_columns(batch, messages=function(batch)))]


@dataclass(eq=False, kw_only=True)
class FlatMap(Calling):
    """Gives each of the results of `function` for each message, under the same key."""

    kind: ClassVar[str] = "flat-map"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        function = of_batch(self.function)

        def receive(batch: Batch) -> None:
            results = enumerate(zip(batch.keys, function(batch), strict=True))
            emit(made_of(batch, [(place, key, result) for place, (key, several) in results for result in several]))

        return [receive]


@dataclass(eq=False, kw_only=True)
class Peek(Calling):
    """Calls `function` with each message, and passes it on."""

    kind: ClassVar[str] = "peek"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        function = of_batch(self.function)

        def receive(batch: Batch) -> None:
            function(batch)
            emit(batch)

        return [receive]


@dataclass(eq=False, kw_only=True)
class KeyBy(Calling):
    """Gives each message the key `function`, as text. What needs equal keys in one task comes after a `Through`."""

    kind: ClassVar[str] = "key-by"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        function, where = of_batch(self.function), f"key_by '{self.name}'"

        def receive(batch: Batch) -> None:
            keys = function(batch)
            if not set(map(type, keys)) <= {str}:
                keys = [_as_text(key, batch[place].position, where) for place, key in enumerate(keys)]
            emit(with_columns(batch, keys=keys))

        return [receive]


_WITHOUT_ONE_TEXT = bool, float, bytes, list, dict, set, frozenset


def _as_text(key: Any, position: str, where: str) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, _WITHOUT_ONE_TEXT) or str(key) == object.__repr__(key):
        raise TypeError(f"{position}: {where}: a key is text, or a value with one text, got {key!r:.100}")
    return str(key)


@dataclass(eq=False, kw_only=True)
class Merge(Step):
    """The messages of all of its inputs."""

    kind: ClassVar[str] = "merge"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        return [emit] * len(self.inputs)


@dataclass(eq=False, kw_only=True)
class Through(Step):
    """Sends the messages to a stream of the job, partitioned by their keys. A `Source` of that stream goes on. In a job
    of one task that takes them at once, and the stream has the watermarks and ends only. Contents that nobody reads
    behind it stay behind: the stream has a dash in their place, which is no JSON."""

    kind: ClassVar[str] = "through"
    stream: SystemStream
    #: The pipeline knows it when it has all of its steps.
    reads_contents: bool = True

    @property
    def keeps_messages(self) -> bool:
        return self.reads_contents

    @property
    def skips_nulls(self) -> bool:  # type: ignore[override]  # as the other steps know it
        return not self.reads_contents

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        if any(source.inputs == (self,) for source in task.direct):
            return [emit]
        send = _sender(task, self.stream, self.partitions(task))
        if self.reads_contents:
            return [send]
        return [lambda batch: send(with_columns(batch, messages=[b"-"] * len(batch)))]

    def partitions(self, task: Opening) -> Sequence[int]:
        """The partitions that get each message; none: the one of its key."""
        return ()

    def describe(self) -> str:
        return f"{self.kind} {self.stream}{'' if self.reads_contents else ', keys only'}"


@dataclass(eq=False, kw_only=True)
class Broadcast(Through):
    """Sends each message to every task: each reads a partition of a stream of the job."""

    kind: ClassVar[str] = "broadcast"

    def partitions(self, task: Opening) -> Sequence[int]:
        return range(task.context.job.tasks)


@dataclass(eq=False, kw_only=True)
class To(Step):
    """Sends the messages to a stream."""

    kind: ClassVar[str] = "to"
    stream: SystemStream

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        return [_sender(task, self.stream)]

    def describe(self) -> str:
        return f"to {self.stream}"


def _sender(task: Opening, stream: SystemStream, partitions: Sequence[int] = ()) -> Receive:
    def send(batch: Batch) -> None:
        inputs = batch.offsets if batch.offsets[0] >= 0 else None
        times: Sequence[Any] = batch.timestamps
        if -1 in times:
            times = [None if time < 0 else time for time in times]
        task.collector.send_batch(stream, batch.keys, batch.messages, timestamps=times, inputs=inputs)

    def send_to_all(batch: Batch) -> None:
        rows = [row for row in range(len(batch)) for _ in partitions]
        inputs = [batch.offsets[row] for row in rows] if batch.offsets[0] >= 0 else None
        times = [None if batch.timestamps[row] < 0 else batch.timestamps[row] for row in rows]
        keys, messages = [batch.keys[row] for row in rows], [batch.messages[row] for row in rows]
        places = [*partitions] * len(batch)
        task.collector.send_batch(stream, keys, messages, partition_keys=places, timestamps=times, inputs=inputs)

    return send_to_all if partitions else send


@dataclass(eq=False, kw_only=True)
class ToSink(Step):
    """Writes the rows of `rows(message)` to a sink, such as a table of a database, in its transactions."""

    kind: ClassVar[str] = "sink"
    sink: Callable[[], Sink]
    write: Callable[[Any, Any, Any], object]
    is_batched = False

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        sink, write = self.sink(), self.write
        task.context.task.register_sink(sink)

        def receive(batch: Batch) -> None:
            for key, message in zip(batch.keys, batch.messages, strict=True):
                write(sink, key, message)

        return [receive]
