"""Steps without state: sources, filters, maps, outputs, and the way through a stream of the job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from samzapy.api.collector import Sink
from samzapy.api.stream import SystemStream
from samzapy.pipeline.aggregates import TOTAL, Aggregate
from samzapy.pipeline.functions import Batch, Expression, made_of, of_batch, of_rows, picked, selected, with_columns
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
            return [self._of_this_plan(lambda batch: emit(port.renamed(batch)))]
        return [self._of_this_plan(emit) if time is None else lambda batch: emit(at_its_times(batch))]

    def _of_this_plan(self, receive: Receive) -> Receive:
        """`receive`, which gets no record that another plan of the pipeline has left in the stream."""
        mark = next((through.mark for through in self.inputs if isinstance(through, Through)), b"")

        def checked(batch: Batch) -> None:
            if batch.ssp.system_stream == self.stream and any(text[:1] != mark for text in batch.messages):
                raise TypeError(f"{self.stream}: has a record that another plan of the pipeline has left")
            receive(batch)

        return checked if mark else receive

    def describe(self) -> str:
        kind = "" if self.value_type is None else f" of {getattr(self.value_type, '__name__', self.value_type)}"
        return f"{self.kind} {self.stream}{kind}"


@dataclass(eq=False, kw_only=True)
class Calling(Step):
    """Calls a function of the user's for each message."""

    function: Callable[..., Any]
    #: Whether the messages are changes of a table, whose deletions stay deletions.
    of_table: bool = False

    @property
    def is_batched(self) -> bool:
        return isinstance(self.function, Expression)

    @abstractmethod
    def given(self, batch: Batch, results: Sequence[Any]) -> Batch:
        """The messages to pass on. `results`: of the function, for each message of the batch."""

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        function = (of_rows if self.of_table else of_batch)(self.function)
        return [lambda batch: emit(self.given(batch, function(batch)))]


@dataclass(eq=False, kw_only=True)
class Filter(Calling):
    """Leaves out the messages for which `function` is false."""

    kind: ClassVar[str] = "filter"

    def given(self, batch: Batch, results: Sequence[Any]) -> Batch:
        return selected(batch, results)


@dataclass(eq=False, kw_only=True)
class Map(Calling):
    """Gives the result of `function` for each message, under the same key."""

    kind: ClassVar[str] = "map"

    def given(self, batch: Batch, results: Sequence[Any]) -> Batch:
        return with_columns(batch, messages=results)


@dataclass(eq=False, kw_only=True)
class FlatMap(Calling):
    """Gives each of the results of `function` for each message, under the same key."""

    kind: ClassVar[str] = "flat-map"

    def given(self, batch: Batch, results: Sequence[Any]) -> Batch:
        rows = enumerate(zip(batch.keys, results, strict=True))
        return made_of(batch, [(place, key, result) for place, (key, several) in rows for result in several])


@dataclass(eq=False, kw_only=True)
class Peek(Calling):
    """Calls `function` with each message, and passes it on."""

    kind: ClassVar[str] = "peek"

    def given(self, batch: Batch, results: Sequence[Any]) -> Batch:
        return batch


@dataclass(eq=False, kw_only=True)
class KeyBy(Calling):
    """Gives each message the key `function`, as text. What needs equal keys in one task comes after a `Through`."""

    kind: ClassVar[str] = "key-by"

    def given(self, batch: Batch, results: Sequence[Any]) -> Batch:
        if not set(map(type, results)) <= {str}:
            where = f"key_by '{self.name}'"
            results = [_as_text(key, batch[place].position, where) for place, key in enumerate(results)]
        return with_columns(batch, keys=results)


_WITHOUT_ONE_TEXT = bool, float, bytes, list, dict, set, frozenset


def _as_text(key: Any, position: str, where: str) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, _WITHOUT_ONE_TEXT) or " at 0x" in str(key):
        raise TypeError(f"{position}: {where}: a key is text, or a value with one text, got {key!r:.100}")
    return str(key)


@dataclass(eq=False, kw_only=True)
class Merge(Step):
    """The messages of all of its inputs."""

    kind: ClassVar[str] = "merge"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        return [emit] * len(self.inputs)


#: What the stream has in place of contents that nobody reads.
_DASH = b"-"


@dataclass(eq=False, kw_only=True)
class Through(Step):
    """Sends the messages to a stream of the job, partitioned by their keys. A `Source` of that stream goes on. In a job
    of one task that takes them at once, and the stream has the watermarks and ends only. Where one step adds all of
    them up, it gets a total for each key of a batch; of contents that nobody reads, the stream has a dash in place."""

    kind: ClassVar[str] = "through"
    stream: SystemStream
    #: What each record begins with, which is no JSON, and the step that adds them up. Nothing: they are the messages.
    mark: bytes = b""
    total: Aggregate | None = None

    def carry_for(self, readers: Sequence[Step]) -> None:
        """Carry what these steps read, which are all that do."""
        if len(readers) == 1 and isinstance(only := readers[0], Aggregate) and only.fold.in_any_order:
            self.mark, self.total, only.takes_totals = TOTAL, only, True
        elif readers and not any(item.reads_contents for item in readers):
            self.mark = _DASH

    @property
    def keeps_messages(self) -> bool:
        return not self.mark

    @property
    def skips_nulls(self) -> bool:  # type: ignore[override]  # as the other steps know it
        return bool(self.mark)

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        is_direct = any(source.inputs == (self,) for source in task.direct)
        send, total = emit if is_direct else _sender(task, self.stream, self.partitions(task)), self.total
        if total is not None:
            return [lambda batch: send(total.combined(batch))]
        if is_direct or not self.mark:
            return [send]
        return [lambda batch: send(with_columns(batch, messages=[_DASH] * len(batch)))]

    def partitions(self, task: Opening) -> Sequence[int]:
        """The partitions that get each message; none: the one of its key."""
        return ()

    def describe(self) -> str:
        carried = {_DASH: ", keys only", TOTAL: ", totals"}
        return f"{self.kind} {self.stream}{carried.get(self.mark, '')}"


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
        places = [*partitions] * len(batch) or None
        if partitions:
            batch = picked(batch, [row for row in range(len(batch)) for _ in partitions])
        inputs = batch.offsets if batch.offsets[0] >= 0 else None
        times: Sequence[Any] = batch.timestamps
        if -1 in times:
            times = [None if time < 0 else time for time in times]
        rows = stream, batch.keys, batch.messages
        task.collector.send_batch(*rows, partition_keys=places, timestamps=times, inputs=inputs)

    return send


@dataclass(eq=False, kw_only=True)
class ToSink(Step):
    """Writes each message by `write(sink, key, message)` to a sink, such as a table, in the sink's transactions."""

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
