"""The serdes of a job's streams, with the classes that the job file or the task's code names.

A task's code names them by `StreamTask[str, PageView]`, or by the annotation of the first parameter of `process`:

1. The brackets of the task's base count first, then the parameter's: `IncomingMessageEnvelope[str, PageView]`,
   or `MessageBatch[str, PageView]` of `process_batch`.
2. Only types with a class of the user count: `PageView`, `list[PageView]`, `PageView | Click`, or another name of one
   (NewType, `type`). `str`, `dict[str, int]`, `Any` and type variables have no effect; they are for the type checker.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from samzapy.api.batch import BatchTask, MessageBatch
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.serde import Serde, hinted, serde_at
from samzapy.api.stream import SystemStream
from samzapy.api.task import AsyncStreamTask, CoroutineTask, StreamTask
from samzapy.arrow.annotations import plain_annotation, substituted
from samzapy.config.job import JobConfig
from samzapy.config.streams.serdes import typed_name
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.serializers.registry import TaskSerdes

#: The method of each kind of task that gets its messages.
_METHODS: Mapping[type, str] = {
    StreamTask: "process",
    CoroutineTask: "process",
    AsyncStreamTask: "process_async",
    BatchTask: "process_batch",
}
_CARRIERS = (IncomingMessageEnvelope, MessageBatch)


class MessageTypes(NamedTuple):
    """The classes of the keys and the messages of a task's inputs; None for no class."""

    key: Any = None
    message: Any = None


def message_types(task: type) -> MessageTypes:
    """The classes that the code of a task names. Raises ConfigError, for `task.class`, if a name in the brackets does
    not exist when the code runs."""
    for kind, method in _METHODS.items():
        if issubclass(task, kind):
            found = _of_bases(task, kind)
            if found == MessageTypes():
                found = _of_parameter(task, method)
            return found
    return MessageTypes()


def _of_bases(task: type, kind: type) -> MessageTypes:
    """The arguments in the brackets of `kind` among the bases of `task`, through the classes between them."""
    arguments = _arguments(task, kind)
    if arguments is None:
        return MessageTypes()
    return MessageTypes(*map(_counting, arguments))


def _arguments(task: type, kind: type) -> tuple[Any, ...] | None:
    names = _names_of(task)
    for base in vars(task).get("__orig_bases__", task.__bases__):
        origin = get_origin(base) or base
        if not isinstance(origin, type) or not issubclass(origin, kind):
            continue
        place = f"{task.__name__}, in the brackets of {origin.__name__}"
        given = tuple(_resolved(each, names, place) for each in get_args(base))
        if origin is kind and len(given) == len(MessageTypes._fields):
            return given
        inner = None if origin is kind else _arguments(origin, kind)
        if inner is None:
            continue  # the next base may have brackets
        known = dict(zip(getattr(origin, "__parameters__", ()), given, strict=False))
        return tuple(substituted(each, known) for each in inner)
    return None


def _names_of(task: type) -> dict[str, Any]:
    """The names in the module of a class. A class that came from another program has those of its methods instead."""
    found = dict(vars(sys.modules.get(task.__module__, builtins)))
    for method in filter(inspect.isfunction, vars(task).values()):
        found = method.__globals__ | found
    return found


def _of_parameter(task: type, method: str) -> MessageTypes:
    function = inspect.unwrap(getattr(task, method))
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return MessageTypes()  # written in C
    if len(parameters) < 2 or parameters[1].annotation is inspect.Parameter.empty:
        return MessageTypes()
    annotation = parameters[1].annotation
    try:
        annotation = _resolved(annotation, getattr(function, "__globals__", {}), f"{task.__name__}.{method}")
    except ConfigError:
        if "[" in str(annotation):
            raise
        return MessageTypes()  # an envelope without classes, imported for the type checker alone
    given = get_args(annotation)
    if get_origin(annotation) not in _CARRIERS or len(given) != len(MessageTypes._fields):
        return MessageTypes()
    return MessageTypes(*map(_counting, given))


def _resolved(annotation: Any, names: Mapping[str, Any], place: str) -> Any:
    """The object that an annotation at a place in the code names, also one written as text."""
    holder = SimpleNamespace(__annotations__={"found": annotation})
    try:
        return get_type_hints(holder, globalns=dict(names), include_extras=True)["found"]
    except Exception as cause:
        shown = getattr(annotation, "__forward_arg__", annotation)
        message = (
            f"{place}: the annotation {shown!r} has a name that is not there when the code runs "
            f"({cause}): import it outside of TYPE_CHECKING, or name the class by streams.ID.samza.msg.type"
        )
        raise ConfigError([ConfigProblem("task.class", None, message)]) from cause


def _counting(kind: Any) -> Any:
    return kind if _is_more_than_builtin(kind) else None


def _is_more_than_builtin(kind: Any) -> bool:
    kind = plain_annotation(kind)
    parts = get_args(kind)
    if parts:
        return any(map(_is_more_than_builtin, parts))
    return isinstance(kind, type) and kind.__module__ not in {"builtins", "typing"}


class StreamSerdes:
    """Gives a stream's key and message serde; None for a part without one.

    A class in the job file counts first. Without one, the inputs of `task.inputs` and `task.broadcast.inputs` have the
    class that the task's code names, if their serde has classes (json, msgpack, avro, ...).
    """

    def __init__(self, config: JobConfig, serdes: TaskSerdes, task_class: type) -> None:
        """Raises ConfigError if an input's serde cannot decode to a class that the code names."""
        self._config = config
        self._serdes = serdes
        self._inputs = {*config.task.inputs, *(ssp.system_stream for ssp in config.task.broadcast_inputs)}
        self._inputs |= {pattern.stream for pattern in config.task.patterns}
        self._named = message_types(task_class)
        for stream in sorted(self._inputs):
            try:
                self(stream)
            except SerdeError as cause:
                message = f"{task_class.__name__} names a class for {stream}: {cause}; or set streams.ID.samza.msg.type"
                raise ConfigError([ConfigProblem("task.class", config.task.task_class, message)]) from cause

    def __call__(self, stream: SystemStream) -> tuple[Serde | None, Serde | None]:
        config = self._config.stream(stream)
        named = self._named if stream in self._inputs else MessageTypes()
        return (
            self._serde(stream, "key", config.key_serde, config.key_type, named.key),
            self._serde(stream, "value", config.msg_serde, config.msg_type, named.message),
        )

    def make_ready(self) -> None:
        """Let the serdes of the job's streams fetch their requirements. Raises ConfigError with every problem, or
        EnvironmentFailure."""
        problems = []
        sources = (store.source.all_streams for store in self._config.stores.values() if store.source is not None)
        read = self._inputs.union(*sources)
        for stream in sorted(self._config.streams):
            for serde, leaf in zip(self(stream), ("key", "msg"), strict=True):
                try:
                    if serde is not None:
                        hinted(serde).ready(writing=stream not in read)
                except SerdeError as cause:
                    name = getattr(self._config.stream(stream), f"{leaf}_serde")
                    problems.append(ConfigProblem(f"{leaf}.serde of {stream}", name, str(cause)))
        if problems:
            raise ConfigError(problems)

    def _serde(self, stream: SystemStream, part: str, name: str | None, path: str | None, named: Any) -> Serde | None:
        if name is None:
            return None
        if path is None and named is not None and self._serdes.takes_types(name):
            return serde_at(self._serdes.of_type(name, named), stream.stream, part)
        return serde_at(self._serdes[typed_name(name, path)], stream.stream, part)
