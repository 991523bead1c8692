"""Pipelines: streams and tables, and what can be done with them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from traceback import walk_stack
from typing import Any

from samzapy.api.collector import Sink
from samzapy.api.stream import SystemStream
from samzapy.errors import ConfigError
from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.folds import Aggregation
from samzapy.operators.folds import Count as CountFold
from samzapy.operators.joins import TimeRules, Within
from samzapy.operators.windows import OnClose, WindowDefinition
from samzapy.operators.windows.windows import Emission
from samzapy.pipeline.aggregates import Aggregate, Named, Part, Reduced
from samzapy.pipeline.custom import Deduplicate, Handle, Lookups, Process
from samzapy.pipeline.foreign import Answers, ByForeignKey, Subscriptions
from samzapy.pipeline.functions import ARGUMENTS, checked, name_of, of_pair, returned_by
from samzapy.pipeline.plan import STEPS, Plan, check_name, free_name, in_order, stream_of, system_of
from samzapy.pipeline.stateless import Broadcast, Filter, FlatMap, KeyBy, Map, Merge, Peek, Source, Through, To, ToSink
from samzapy.pipeline.step import TIMERS, Step
from samzapy.pipeline.tables import Changes, JoinOfTables, Lookup, TableFilter, TableStore
from samzapy.pipeline.task import PipelineTask
from samzapy.pipeline.timed import Joiner, JoinOfStreams, Late, Windows

logger = logging.getLogger(__name__)
#: The steps whose effects or stores somebody outside sees.
_ENDS = Aggregate, Lookups, Peek, Process, TableStore, To, ToSink


def _both(left: Any, right: Any) -> tuple[Any, Any]:
    return left, right


class Pipeline:
    """A job of several steps.

        pipeline = Pipeline("page-views")
        pipeline.stream("kafka.views", PageView).key_by(lambda view: view.page).count().to("kafka.view-counts")

    Functions of messages get the content, or key and content if they take two parameters. Run it like a task: by
    `app.class=module:pipeline` in a job file, `samzapy run module:pipeline`, or `samzapy.run(pipeline)`.
    """

    def __init__(self, name: str) -> None:
        """`name` is the name of the job, and part of the names of its streams. Raises ConfigError."""
        self.name = check_name("name of a Pipeline", name)
        self._steps: list[Step] = []
        self._repartitioned: dict[Step, Stream] = {}

    def stream(self, stream: str, value_type: Any = None, *, time: Callable[..., Any] | None = None) -> Stream:
        """The messages of `system.stream`, as objects of a class if there is one. `time(message)`: the event time in
        milliseconds since 1970; by default the time stamp of the record."""
        at = stream_of(stream)
        return Stream(self, self.add(Source(stream=at, value_type=value_type, time=time), at.stream), at.stream)

    def table(self, stream: str, value_type: Any = None, *, name: str = "", everywhere: bool = False) -> Table:
        """The newest message of each key of `system.stream`, usually a compacted one; a null message is a deletion.

        A start reads the table to its end before other inputs. `everywhere`: each task has all of it.
        """
        at = stream_of(stream)
        changes = Source(stream=at, value_type=value_type, nulls=True, everywhere=everywhere)
        source = self.add(changes, f"{at.stream}-changes")
        step = self.add(TableStore(inputs=(source,), value_type=value_type), name or at.stream)
        return Table(self, step, step.name)

    @cached_property
    def plan(self) -> Plan:
        """The pipeline as a job: from now on it has all of its steps."""
        followed = {parent for step in self._steps for parent in step.inputs}
        last = [step for step in self._steps if step not in followed]
        if last and not any(isinstance(step, _ENDS) for step in last):
            logger.warning("Nothing reads what step '%s' (%s) gives: send it with to()", last[-1].name, last[-1].kind)
        written = {step.stream for step in self._steps if isinstance(step, To)}
        for step in self._steps:
            if step.kind == Late.kind and step.inputs[0].kind != Windows.kind:
                raise ConfigError.of(step.name, None, "late() needs an aggregation of its windows, such as count()")
            if isinstance(step, To | ToSink | Through) and step.inputs[0].is_everywhere:
                raise ConfigError.of(step.name, None, "each task would send all messages: they are everywhere")
            if isinstance(step, Aggregate):
                step.is_last = step not in followed
            if isinstance(step, Through):
                sources = {item for item in self._steps if isinstance(item, Source) and item.stream == step.stream}
                if step.stream in written or not sources.isdisjoint(in_order([step])):
                    reason = "connects steps, and the pipeline has an input or output of that name: give key_by a name="
                    raise ConfigError.of(step.name, str(step.stream), reason)
                step.carry_for([item for item in self._steps if not sources.isdisjoint(item.inputs)])
        return Plan(self.name, in_order(self._steps))

    @cached_property
    def task(self) -> type[PipelineTask]:
        """The task class of the job."""
        members = {"plan": self.plan, "copartitioned": self.plan.copartitioned, "__doc__": f"Pipeline {self.name}."}
        return type("PipelineTask", (PipelineTask,), members)

    def explain(self) -> str:
        """The steps, with their stores and streams, as text."""
        return self.plan.explain()

    def add(self, step: Step, name: str) -> Any:
        """Add a step under a name, numbered if that is taken. Raises ValueError, TypeError for what it cannot use."""
        if "plan" in vars(self):
            raise RuntimeError(f"pipeline '{self.name}' has been run or explained: it takes no more steps")
        if foreign := [item.name for item in step.inputs if item not in self._steps]:
            raise ValueError(f"'{foreign[0]}' is a step of another pipeline than '{self.name}': steps do not mix")
        given = vars(step)
        for part in ARGUMENTS.keys() & given.keys():
            if given[part] is not getattr(type(step), part, ...):  # a default
                checked(given[part], *ARGUMENTS[part])
        users = (item for item in walk_stack(None) if item[0].f_globals.get("__package__") != "samzapy.pipeline")
        step.line = next((f"{frame.f_code.co_filename.rpartition('/')[2]}:{line}" for frame, line in users), "")
        step.name = self.free(name)
        self._steps.append(step)
        return step

    def free(self, name: str) -> str:
        """The name, with a number behind it if a step or a store of the pipeline has it."""
        return free_name(name, {STEPS, TIMERS, *(item.name for item in self._steps)})

    def repartition(self, step: Step, path: str, name: str = "", kind: type[Through] = Through) -> Stream:
        """The messages of a step behind a stream of the job. Without a name of its own a step has one such stream,
        whoever reads it. Raises ValueError for a name that is taken."""
        if not name and step in self._repartitioned:
            return self._repartitioned[step]
        taken = {item.stream.stream for item in self._steps if isinstance(item, Through)}
        if name and f"{self.name}-{name}" in taken:
            raise ValueError(f"{kind.kind}({name!r}): the pipeline has a stream of that name; choose another one")
        stream = SystemStream(system_of(step), free_name(f"{self.name}-{name or path}", taken))
        out = self.add(kind(inputs=(step,), stream=stream), f"{name or path}-out")
        source = Source(inputs=(out,), stream=stream, value_type=step.value_type, nulls=True)
        result = Stream(self, self.add(source, f"{name or path}-in"), path)
        if not name:
            self._repartitioned[step] = result
        return result


class _Flow:
    """A step, and the path to it, which names what comes after it."""

    def __init__(self, pipeline: Pipeline, step: Step, path: str) -> None:
        self.pipeline, self.step, self.path = pipeline, step, path

    def named(self, name: str, kind: str) -> str:
        """The name of a step that follows. Raises ConfigError for one that cannot be a name, or is another step's."""
        if name and (free := self.pipeline.free(name)) != name:
            raise ConfigError.of("name of a step", name, f"a name that no other step has, such as {free}")
        return check_name("name of a step", name) if name else f"{self.path}-{kind}"

    def to(self, stream: str) -> None:
        """Send the messages, or a table's changes (a deletion as null), to `system.stream`, with their event times."""
        at = stream_of(stream)
        self.pipeline.add(To(inputs=(self.step,), stream=at), f"to-{at.stream}")


class Stream(_Flow):
    """Messages, by key. Each method gives a new stream or table, and leaves this one as it is."""

    #: Whether the messages of a key are in one task.
    keyed = True

    def then(self, step: Step, name: str = "") -> Stream:
        """The messages that a further step gives. Raises ConfigError for a name that cannot be one."""
        result = Stream(self.pipeline, self.pipeline.add(step, self.named(name, step.kind)), self.path)
        result.keyed = self.keyed
        return result

    def filter(self, predicate: Callable[..., Any]) -> Stream:
        """The messages for which `predicate` is true."""
        return self.then(Filter(inputs=(self.step,), function=predicate, value_type=self.step.value_type))

    def map(self, function: Callable[..., Any], value_type: Any = None) -> Stream:
        """`function` of each message, under the same key. `value_type`: their class, by default the annotated one."""
        kind = value_type if value_type is not None else returned_by(function)
        return self.then(Map(inputs=(self.step,), function=function, value_type=kind))

    map_values = map  # noqa: A003  # Kafka Streams' name of it

    def flat_map(self, function: Callable[..., Any], value_type: Any = None) -> Stream:
        """Each of the results of `function` for each message, under the same key."""
        return self.then(FlatMap(inputs=(self.step,), function=function, value_type=value_type))

    def peek(self, function: Callable[..., Any]) -> Stream:
        """Call `function` with each message, and pass it on. A message may come again after a crash."""
        return self.then(Peek(inputs=(self.step,), function=function, value_type=self.step.value_type))

    def key_by(self, function: Callable[..., Any], *, name: str = "") -> Stream:
        """The messages under another key, as text. A step with state sends them through `PIPELINE-by-FIELD`."""
        path = self.named(name, "") if name else f"by-{name_of(function)}"
        step = self.pipeline.add(KeyBy(inputs=(self.step,), function=function, value_type=self.step.value_type), path)
        result = Stream(self.pipeline, step, step.name)
        result.keyed = False
        return result

    def through(self, name: str = "") -> Stream:
        """Send the messages through a stream of the job, `PIPELINE-NAME`, partitioned by key."""
        return self.pipeline.repartition(self.step, self.path, name and check_name("name of a step", name))

    def broadcast(self, name: str = "") -> Stream:
        """The messages in every task, through a stream of the job, `PIPELINE-NAME`, with a record for each task. They
        are for lookups (`to_table()`) and `process`: tasks do not send on what all of them have."""
        return self.pipeline.repartition(self.step, self.path, self.named(name, Broadcast.kind), Broadcast)

    def together(self) -> Stream:
        """The stream with all messages of a key in one task."""
        return self if self.keyed else self.through()

    def merge(self, *others: Stream) -> Stream:
        """The messages of all of these streams."""
        streams = [self, *others]
        kinds = {stream.step.value_type for stream in streams}
        kind = kinds.pop() if len(kinds) == 1 else None
        result = self.then(Merge(inputs=tuple(stream.step for stream in streams), value_type=kind))
        result.keyed = all(stream.keyed for stream in streams)
        return result

    def branch(self, *predicates: Callable[..., Any]) -> tuple[Stream, ...]:
        """A stream for each predicate: a message goes to the first whose predicate is true."""
        pairs = list(map(of_pair, predicates))

        def first(number: int) -> Callable[[Any, Any], bool]:
            own, earlier = pairs[number], pairs[:number]
            return lambda key, item: bool(own(key, item)) and not any(other(key, item) for other in earlier)

        return tuple(self.filter(first(number)) for number in range(len(pairs)))

    def count(self, *, name: str = "") -> Table:
        """The number of messages of each key."""
        return self._table(CountFold(), self.named(name, "count"))

    def reduce(self, function: Callable[[Any, Any], Any], *, name: str = "") -> Table:
        """`function(accumulated, message)` of each key's messages, from the first on."""
        return self._table(Reduced(function, self.step.value_type), self.named(name, "reduce"), self.step.value_type)

    def aggregate(self, *, name: str = "", **parts: Part | Aggregation) -> Table:
        """Several aggregations of each key's messages, by name: `aggregate(views=Count(), sum=Sum(field("size")))`."""
        return self._table(Named(parts, self.step.value_type), self.named(name, "aggregate"))

    def _table(self, fold: Aggregation, name: str, value_type: Any = None) -> Table:
        step = Aggregate(inputs=(self.together().step,), fold=fold, value_type=value_type)
        return Table(self.pipeline, self.pipeline.add(step, name), name)

    def window(
        self, windows: WindowDefinition, *, emit: Emission | None = None, idle: Duration | None = None, name: str = ""
    ) -> Windowed:
        """The messages in windows of event time; see `samzapy.operators.windows`."""
        if not isinstance(windows, WindowDefinition):
            raise TypeError(f"window: expected windows such as Tumbling('1m'), got {windows!r:.100}")
        return Windowed(self.together(), name, definition=windows, emission=emit or OnClose(), idle=idle)

    def join(
        self,
        other: Stream | Table,
        joiner: Joiner = _both,
        *,
        within: Within | None = None,
        how: str = "inner",
        on: Callable[..., Any] | None = None,
        rules: TimeRules | None = None,
        name: str = "",
    ) -> Stream:
        """With a table: each message with the present row of its key, or of `on(message)` in a table that is
        everywhere. With a stream: the pairs of a key `within` each other. `joiner(left, right)` makes a result; `how`:
        inner, left (right may be None), and for streams outer."""
        if isinstance(other, Table):
            if within is not None or rules is not None:
                raise ValueError("a join with a table takes the present row: within and rules belong to two streams")
            return self._lookup(other, joiner, how, on, name)
        if within is None or on is not None:
            raise ValueError("a join of two streams needs within=Within(...), and takes no on=...: it is by key")
        path, inner = self.named(name, f"join-{other.path}"), _sides(how, "inner", "left", "outer")
        return self._join(other, joiner, path, rules, inner=inner, within=within)

    def join_as_of(
        self,
        other: Stream,
        joiner: Joiner = _both,
        *,
        tolerance: Duration | None = None,
        how: str = "left",
        rules: TimeRules | None = None,
        name: str = "",
    ) -> Stream:
        """Each message with the newest message of `other` of its key that is not younger. `how`: inner, left."""
        path, inner = self.named(name, f"as-of-{other.path}"), _sides(how, "inner", "left")
        return self._join(other, joiner, path, rules, inner=inner, tolerance=tolerance)

    def _join(self, other: Stream, joiner: Joiner, name: str, rules: TimeRules | None, **options: Any) -> Stream:
        # A join tells messages apart by their positions.
        sides = [stream.together() if stream.step.has_positions else stream.through() for stream in (self, other)]
        inputs, kind, rules = (sides[0].step, sides[1].step), returned_by(joiner), rules or TimeRules()
        step = JoinOfStreams(inputs=inputs, joiner=joiner, rules=rules, value_type=kind, **options)
        return Stream(self.pipeline, self.pipeline.add(step, name), name)

    def _lookup(self, table: Table, joiner: Joiner, how: str, on: Callable[..., Any] | None, name: str) -> Stream:
        everywhere = table.step.is_everywhere
        if on is not None and not everywhere:
            raise ValueError(f"a lookup with on=... needs table({table.path!r}, everywhere=True), or broadcast()")
        stream = self if everywhere else self.together()
        stored = table.stored()
        kind, inner = returned_by(joiner), _sides(how, "inner", "left")[1]
        step = Lookup(inputs=(stream.step, stored), joiner=joiner, table=stored, on=on, inner=inner, value_type=kind)
        return stream.then(step, name)

    def deduplicate(self, key: Callable[..., Any] | None = None, *, capacity: int = 100_000, name: str = "") -> Stream:
        """The first message of each key, or of each `key(message)` within a key, among the last `capacity`."""
        keyed = self.together()
        step = Deduplicate(inputs=(keyed.step,), key=key, capacity=capacity, value_type=self.step.value_type)
        return keyed.then(step, name)

    def process(
        self,
        function: Callable[[Any, Handle], object],
        *,
        on_timer: Callable[[Handle], object] | None = None,
        name: str = "",
    ) -> Stream:
        """The way down: `function(message, handle)`, with a state and timers; `handle.send` passes messages on."""
        keyed = self.together()
        result = keyed.then(Process(inputs=(keyed.step,), function=checked(function, 2), on_timer=on_timer), name)
        result.keyed = False  # it may send under other keys
        return result

    def map_async(
        self,
        function: Callable[[Any], Any],
        *,
        concurrency: int = 10,
        timeout: Duration = "10s",
        retry: int = 0,
        rate_limit: float | None = None,
        cache: Duration | None = None,
        key: Callable[..., Any] | None = None,
        name: str = "",
    ) -> Stream:
        """Ask somebody outside for each message: `function(message)`, a coroutine function or any other, `concurrency`
        calls at a time, in the order of the messages. `rate_limit`: calls per second and task. `cache`: results are
        kept so long, by key or `key(message)`, also over a restart."""
        if concurrency < 1 or retry < 0 or (rate_limit is not None and rate_limit <= 0):
            raise ValueError("map_async: concurrency is at least 1, retry at least 0, and rate_limit more than 0")
        step = Lookups(
            inputs=(self.step,),
            ask=checked(function, 1, awaited=True),
            concurrency=concurrency,
            timeout_s=milliseconds(timeout, "timeout", 1) / 1000,
            retry=retry,
            per_second=rate_limit,
            cache_ms=0 if cache is None else milliseconds(cache, "cache", 1),
            key=key,
        )
        return self.then(step, name)

    def to_table(self, *, name: str = "") -> Table:
        """The newest message of each key, as a table."""
        keyed, path = self.together(), self.named(name, "table")
        step = TableStore(inputs=(keyed.step,), value_type=self.step.value_type)
        return Table(self.pipeline, self.pipeline.add(step, path), path)

    def sink(self, sink: Callable[[], Sink], write: Callable[[Any, Any, Any], object]) -> None:
        """Write each message by `write(sink, key, message)`. `sink()` makes a task's sink; a `SqlSink` upserts."""
        self.pipeline.add(ToSink(inputs=(self.step,), sink=sink, write=write), f"{self.path}-sink")


class Windowed:
    """Messages in windows."""

    def __init__(self, stream: Stream, name: str, **options: Any) -> None:
        self._stream, self._name, self._options = stream, stream.named(name, "window"), options
        self._late: Late | None = None

    def late(self) -> Stream:
        """The messages that came too late for all of their windows. Before the aggregation."""
        pipeline, source, path = self._stream.pipeline, self._stream.step, self._stream.path
        if self._late is None:  # its input until the windows stand
            self._late = pipeline.add(Late(inputs=(source,), value_type=source.value_type), f"{path}-late")
        return Stream(pipeline, self._late, path)

    def count(self) -> Stream:
        """The number of messages of each window, as `count`."""
        return self._results(CountFold(), "count")

    def reduce(self, function: Callable[[Any, Any], Any]) -> Stream:
        """`function(accumulated, message)` of each window, as `value`."""
        return self._results(Reduced(function, self._stream.step.value_type, plain=True), "value")

    def aggregate(self, **parts: Part | Aggregation) -> Stream:
        """Several aggregations of each window, by name. Raises ValueError for the name of a field of every result."""
        if taken := parts.keys() & {"key", "start", "end", "kind"}:
            raise ValueError(f"aggregate: every result has a field '{min(taken)}': give the aggregation another name")
        return self._results(Named(parts, self._stream.step.value_type), "")

    def _results(self, fold: Aggregation, result: str) -> Stream:
        stream = self._stream
        # Several aggregations of the same windows have the same late messages.
        late = self._late if self._late is not None and self._late.inputs == (stream.step,) else None
        step = Windows(inputs=(stream.step,), fold=fold, result=result, late=late, **self._options)
        stream.pipeline.add(step, self._name)
        if late is not None:
            late.inputs = (step,)
        return Stream(stream.pipeline, step, self._name)


class Table(_Flow):
    """The newest row of each key. A change is a message; None is a deletion."""

    def then(self, step: Step, name: str) -> Table:
        """The rows that a further step gives."""
        return Table(self.pipeline, self.pipeline.add(step, name), name)

    def stored(self) -> TableStore:
        """The step with the rows in a store."""
        if isinstance(self.step, TableStore):
            return self.step
        stored = TableStore(inputs=(self.step,), value_type=self.step.value_type)
        self.step = self.pipeline.add(stored, f"{self.path}-rows")
        return stored

    def filter(self, predicate: Callable[..., Any]) -> Table:
        """The rows for which `predicate` is true."""
        step = TableFilter(inputs=(self.step,), function=predicate, value_type=self.step.value_type)
        return self.then(step, f"{self.path}-filter")

    def map_values(self, function: Callable[..., Any], value_type: Any = None) -> Table:
        """`function` of each row."""
        kind = value_type if value_type is not None else returned_by(function)
        step = Map(inputs=(self.step,), function=function, value_type=kind, of_table=True)
        return self.then(step, f"{self.path}-map")

    def join(
        self,
        other: Table,
        joiner: Joiner = _both,
        *,
        how: str = "inner",
        on: Callable[[Any], Any] | None = None,
        name: str = "",
    ) -> Table:
        """The rows of both tables of one key, or, with `on(row)`, each row with the row of `other` of that key: a
        foreign key. `how`: inner, left, outer (not with `on`)."""
        if on is not None:
            return self._join_by_key(other, joiner, how, on, name)
        left, right = self.stored(), other.stored()
        kind, inner = returned_by(joiner), _sides(how, "inner", "left", "outer")
        step = JoinOfTables(inputs=(left, right), tables=(left, right), joiner=joiner, inner=inner, value_type=kind)
        return self.then(step, self.named(name, f"join-{other.path}"))

    def _join_by_key(self, other: Table, joiner: Joiner, how: str, on: Callable[[Any], Any], name: str) -> Table:
        pipeline, left, right = self.pipeline, self.stored(), other.stored()
        path, inner = self.named(name, f"join-{other.path}"), _sides(how, "inner", "left")[1]
        by_key = pipeline.add(ByForeignKey(inputs=(left,), table=left, on=on, inner=inner), path)
        sent = Stream(pipeline, by_key, path).through(f"{path}-subscriptions")
        kept = pipeline.add(
            Subscriptions(
                inputs=(sent.step, right),
                joiner=joiner,
                left_type=left.value_type,
                result_type=returned_by(joiner),
                right=right,
                inner=inner,
            ),
            f"{path}-rows",
        )
        answered = Stream(pipeline, kept, path).through(f"{path}-answers")
        step = Answers(inputs=(answered.step,), of=by_key, value_type=returned_by(joiner))
        return self.then(step, f"{path}-result")

    def changes(self) -> Stream:
        """The changes as a stream, without the deletions."""
        return Stream(self.pipeline, self.pipeline.add(Changes(inputs=(self.step,)), f"{self.path}-changes"), self.path)

    to_stream = changes


def _sides(how: str, *known: str) -> tuple[bool, bool]:
    """Which sides a result must have. Raises ValueError for what this kind of join does not know."""
    if how not in known:
        raise ValueError(f"how: this join is one of {', '.join(known)}, got {how!r}")
    return how != "outer", how == "inner"
