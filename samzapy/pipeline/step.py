"""What every step of a pipeline is: a node of the graph, with what it needs of a job, and how a task opens it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

from samzapy.api.collector import MessageCollector
from samzapy.api.context import Context
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import SerdeError, StoreRefused
from samzapy.pipeline.functions import Batch, refuse_unnamed, without_nulls

#: Takes the messages of one input of a step.
Receive = Callable[[Batch], None]


@dataclass(frozen=True)
class StoreNeed:
    """A store of a step. `value_type`: the class of its values, None for plain ones. `ttl_ms`: entries older than this
    are gone; 0: none. `timers`: it holds the timers of the job."""

    value_type: Any = None
    ttl_ms: int = 0
    timers: bool = False


@dataclass(eq=False, kw_only=True)
class Step(ABC):
    """One step. `name` is unique in its pipeline; stores and streams of the step carry it. `value_type` is the class of
    the messages that it gives, None for plain values or an unknown one. `line`: of the user's code that adds it."""

    inputs: tuple[Step, ...] = ()
    name: str = ""
    value_type: Any = None
    line: str = ""

    #: What the step does, for `explain` and for the record of a job's steps.
    kind: ClassVar[str]
    #: Whether it has a store of plain values, with its name.
    keeps_state: ClassVar[bool] = False
    #: Whether it leaves out null messages, of which a stream has some behind a function that returns None.
    skips_nulls: ClassVar[bool] = False
    #: Whether its time follows from watermarks of its own, as that of windows does.
    keeps_time: ClassVar[bool] = False

    @property
    def stores(self) -> Mapping[str, StoreNeed]:
        """Its stores, by name."""
        return {self.name: StoreNeed()} if self.keeps_state else {}

    @property
    def follows_state(self) -> bool:
        """Whether a step with a store is it, or before it."""
        return bool(self.stores) or any(parent.follows_state for parent in self.inputs)

    @property
    def together(self) -> Sequence[Step]:
        """The steps whose equal keys have to be in one task, for this step."""
        return self.inputs if self.stores else ()

    @property
    def signature(self) -> str:
        """What its state means. Another step of the same name must not go on with it."""
        return self.kind

    @property
    def keeps_messages(self) -> bool:
        """Whether it keeps the messages, or sends them somewhere to come back."""
        return False

    @property
    def reads_contents(self) -> bool:
        """Whether it reads more of its messages than keys and times."""
        return True

    @property
    def has_positions(self) -> bool:
        """Whether each of its messages has the position of an input's message. Those that time makes have none."""
        return not self.keeps_time and all(parent.has_positions for parent in self.inputs)

    @property
    def is_everywhere(self) -> bool:
        """Whether each task has all of its messages."""
        return bool(self.inputs) and all(parent.is_everywhere for parent in self.inputs)

    @property
    def is_batched(self) -> bool:
        """Whether it works on columns, without a call of the user's code per message."""
        return True

    def guarded(self, call: Callable[..., None]) -> Callable[..., None]:
        """A call of the step, whose exceptions name it."""

        def guarded(*args: Any) -> None:
            try:
                call(*args)
            except Exception as failure:
                self._name(failure)
                raise

        return guarded

    def receiver(self, receive: Receive, number: int) -> Receive:
        """The function of an input, as others call it; also with an empty batch."""
        skips_nulls = self.skips_nulls
        is_unnamed = self.keeps_messages and self.inputs[number].value_type is None

        def checked(batch: Batch) -> None:
            if is_unnamed:
                refuse_unnamed(batch)
            if skips_nulls:
                batch = without_nulls(batch)
            if batch:
                receive(batch)

        return checked

    def _name(self, failure: Exception) -> None:
        notes: list[str] = getattr(failure, "__notes__", [])
        if not any(note.startswith("in step ") for note in notes):
            where = f"in step '{self.name}' ({self.kind}, {self.line})"
            failure.__notes__ = [*notes, where]  # type: ignore[attr-defined]  # add_note is of Python 3.11
            if isinstance(failure, SerdeError | StoreRefused):
                failure.args = (f"{failure} ({where})",)

    @abstractmethod
    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        """Start the step in one task; returns a function for each of its inputs. `emit` passes its messages on."""

    def describe(self) -> str:
        """One line for `explain`."""
        return self.signature


def ignore(batch: Batch) -> None:
    """Take the messages of an input that a step does not wait for."""


class Port:
    """One input of a step that follows event time: its partitions under names of their own.

    Several steps may read one partition, so a port names its partitions after the step. A join identifies a message by
    its partition and offset, so `numbered` numbers those of one offset. All of them come within one call of the task.
    """

    #: The most messages that a step may make of one.
    SPREAD = 1 << 20

    def __init__(self, step: Step, number: int, task: Opening) -> None:
        self._task, self._call = task, 0
        self._counts: dict[int, int] = {}
        self.stream = _stream_of(step, number)
        self.origins = named(step, number, task.origins[step.inputs[number]])

    def renamed(self, batch: Batch) -> Batch:
        """The batch as of this port."""
        name = self.origins[batch.ssp]
        return Batch(name, batch.offsets, batch.keys, batch.messages, batch.timestamps, batch.headers)

    def numbered(self, batch: Batch) -> Batch:
        """The batch as of this port, with an offset of its own for each message."""
        if self._call != self._task.call:
            self._call, self._counts = self._task.call, {}
        counts, numbered = self._counts, []
        for offset in batch.offsets:
            count = counts[offset] = counts.get(offset, -1) + 1
            numbered.append(offset * self.SPREAD + count)
        return Batch(self.origins[batch.ssp], numbered, batch.keys, batch.messages, batch.timestamps, batch.headers)


def named(
    step: Step, number: int, origins: Iterable[SystemStreamPartition]
) -> Mapping[SystemStreamPartition, SystemStreamPartition]:
    """The names that an input of a step has for the partitions of its messages."""
    stream = _stream_of(step, number)
    return {origin: SystemStreamPartition(*stream, place) for place, origin in enumerate(sorted(origins))}


def _stream_of(step: Step, number: int) -> SystemStream:
    return SystemStream(OF_STEP, f"{step.name}.{number}")


#: The store of the timers of a job's `process` steps.
TIMERS = "timers"


@dataclass
class Timed:
    """A step that keeps time, in one task. `mark`: its own event time: nothing older comes of it."""

    step: Step
    advance: Callable[[], None]
    finish: Callable[[], None]
    mark: int = 0
    ended: bool = False


class Opening:
    """One task, as its steps see it while they are opened and afterwards."""

    def __init__(
        self,
        context: Context,
        origins: Mapping[Step, frozenset[SystemStreamPartition]],
        own_streams: frozenset[SystemStream],
        direct: Collection[Step],
    ) -> None:
        """`origins`: the partitions that each step's messages come from, of inputs and of steps that keep time.
        `own_streams`: those that connect steps. `direct`: their sources that take messages of a `Through` at once."""
        self.context = context
        self.origins = origins
        self.direct = direct
        self._own = own_streams
        #: The collector of the call at hand, and the number of the call.
        self.collector: MessageCollector
        self.call = 0
        #: The function of each step that passes its messages on.
        self.emitters: dict[Step, Receive] = {}
        self.clocks: dict[SystemStreamPartition, Timed] = {}
        #: From a partition with watermarks to those who follow them, under the name that they have for it.
        self.followers: dict[SystemStreamPartition, list[Callable[[int], None]]] = {}
        #: The latest event time of partitions whose sources find it in the messages; None before the first one.
        self.times: dict[SystemStreamPartition, int | None] = {}
        self.timers: dict[str, Callable[[Any, int], None]] = {}
        self.closers: list[Callable[[], object]] = []
        self._befores: dict[Step, list[Any]] = {}
        #: Whether steps are measured, which single messages are not worth; seconds of those behind the one at hand.
        self.measures, self._behind_s = False, 0.0

    def measured(self, step: Step, call: Callable[..., None]) -> Callable[..., None]:
        """The guarded call, with its time, less that of the steps behind it, in the gauge of the step."""
        call = step.guarded(call)
        if not self.measures:
            return call
        spent = self.context.container.metrics.gauge("pipeline", step.name)

        def measured(*args: Any) -> None:
            began, behind, self._behind_s = perf_counter(), self._behind_s, 0.0
            call(*args)
            took = perf_counter() - began
            spent.value += took - self._behind_s
            self._behind_s = behind + took

        return measured

    def befores_of(self, table: Step) -> list[Any]:
        """What each key of the table's messages at hand had before."""
        return self._befores.setdefault(table, [])

    def seen_by(self, ports: Sequence[Port], types: Mapping[SystemStream, Any]) -> Context:
        """The context of the task, in which it reads these ports and nothing else."""
        marked = {name for port in ports for origin, name in port.origins.items() if self._is_marked(origin)}
        return replace(self.context, task=_Ports(self.context.task, ports, types, marked))  # type: ignore[arg-type]

    def follow(self, port: Port, mark: Callable[[SystemStreamPartition, int], None]) -> None:
        """Call `mark(partition of the port, time)` as the watermarks of its partitions move."""
        for origin, name in filter(lambda item: self._is_marked(item[0]), port.origins.items()):
            self.followers.setdefault(origin, []).append(partial(mark, name))

    def _is_marked(self, origin: SystemStreamPartition) -> bool:
        """Whether the event time of a partition comes from watermarks: of the job's own streams, and of steps."""
        return origin.system == OF_STEP or origin.system_stream in self._own

    def timed(self, step: Step, advance: Callable[[], None], finish: Callable[[], None]) -> Timed:
        """Call `advance` as time passes, and `finish` at the end of the step's inputs."""
        clock = self.clocks[clock_of(step)] = Timed(step, self.measured(step, advance), self.measured(step, finish))
        return clock

    def behind(self, step: Step, stream: SystemStream) -> Port:
        """The port of a direct source: its messages are as old as the watermarks in its stream say."""
        port, task = Port(step, 0, self), self.context.task
        own = [ssp for ssp in port.origins if ssp.system_stream == stream]

        def advance() -> None:
            clock.mark = max(clock.mark, task.event_time(own) or 0)

        clock = self.timed(step, advance, lambda: None)
        self.clocks |= dict.fromkeys(port.origins.values(), clock)
        return port


#: The system in the names of partitions that stand for steps.
OF_STEP = "step"


def clock_of(step: Step) -> SystemStreamPartition:
    """The partition that the messages of a step that keeps time come from."""
    return SystemStreamPartition(OF_STEP, step.name, 0)


class _Ports:
    """A task's context with ports in place of its partitions."""

    def __init__(
        self,
        task: Any,
        ports: Sequence[Port],
        types: Mapping[SystemStream, Any],
        marked: Iterable[SystemStreamPartition],
    ) -> None:
        self._task = task
        self._types = types
        self.ssps = frozenset(ssp for port in ports for ssp in port.origins.values())
        self.watermarked = frozenset(marked)

    def message_type(self, stream: SystemStream) -> Any:
        return self._types.get(stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)
