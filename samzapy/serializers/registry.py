"""Serdes by name, made when they are first asked for, and those of a job's streams.

A class for a stream's messages is named by the job file, or by the task's code: by `StreamTask[str, PageView]`, or by
the annotation of the first parameter of `process`:

1. The brackets of the task's base count first, then the parameter's: `IncomingMessageEnvelope[str, PageView]`,
   or `MessageBatch[str, PageView]` of `process_batch`.
2. Only types with a class of the user count: `PageView`, `list[PageView]`, `PageView | Click`, or another name of one
   (NewType, `type`). `str`, `dict[str, int]`, `Any` and type variables have no effect; they are for the type checker.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch
from samzapy.api.serde import Serde, SerdeFactory, hinted, serde_at
from samzapy.api.stream import SystemStream
from samzapy.api.task import AsyncStreamTask, BatchTask, CoroutineTask, StreamTask
from samzapy.arrow.annotations import plain_annotation, substituted
from samzapy.config.job import JobConfig
from samzapy.config.reading.keys import Reader
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.streams.serdes import parse_serdes, split_typed_name, takes_types, typed_name, unknown_serde
from samzapy.errors import ConfigError, ConfigProblem, SerdeError, raise_if_any
from samzapy.plugins import PluginError, load_class, load_name
from samzapy.serializers.documents import DocumentSerde
from samzapy.serializers.typed import TypedSerde, holds_sets


class UnknownSerde(ConfigError, KeyError):
    """Raised when a name is not in the registry; a KeyError too, so that the registry is a proper mapping."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class SerdeRegistry(Mapping[str, Serde]):
    """Serdes by name. One instance a name, for the registry's life; not for several threads at once.

    A `typed_name` gives the serde of plain values, so that a tool reads documents without the user's code.
    """

    def __init__(self, classes: Mapping[str, str], settings: Mapping[str, Mapping[str, str]]) -> None:
        self._classes, self._settings = classes, settings
        self._made: dict[str, Serde] = {}

    def __getitem__(self, name: str) -> Serde:
        """Raises UnknownSerde for a name that is not registered, ConfigError if its class cannot be made."""
        serde = self._made.get(name)
        if serde is None:
            plain, path = split_typed_name(name)
            serde = self._made[name] = self._typed(plain, path) if path else self._make(name)
        return serde

    def _typed(self, name: str, path: str) -> Serde:
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def _make(self, name: str) -> Serde:
        path = self._classes.get(name)
        if path is None:
            raise UnknownSerde([ConfigProblem("serializers.registry", None, unknown_serde(name, dict(self._classes)))])
        key = f"serializers.registry.{name}.class"
        try:
            built = load_class(path)()
            serde = built.serde(name, dict(self._settings.get(name, {}))) if isinstance(built, SerdeFactory) else built
        except ConfigError:
            raise
        except PluginError as cause:
            raise ConfigError.of(key, path, str(cause)) from cause
        except SerdeError as cause:
            raise ConfigError.of(key.removesuffix(".class"), None, str(cause)) from cause
        except Exception as cause:
            raise ConfigError.of(key, path, f"cannot be made ({type(cause).__name__}: {cause})") from cause
        if not isinstance(serde, Serde):
            raise ConfigError.of(key, path, "must be a Serde, or a SerdeFactory that makes one")
        return serde


class TaskSerdes(SerdeRegistry):
    """The serdes of tasks, including the serdes of the user's classes."""

    def of_type(self, name: str, kind: Any) -> Serde:
        """A new serde `name` for objects of a class. Raises SerdeError for a class that it cannot decode to."""
        serde = self[name]
        if not isinstance(serde, DocumentSerde):
            raise SerdeError(f"serde {name} has no classes")
        return serde.of_type(kind)

    def _typed(self, name: str, path: str) -> Serde:
        try:
            return self.of_type(name, load_name(path))
        except PluginError as cause:
            raise SerdeError(str(cause)) from cause


def task_serdes(config: JobConfig) -> TaskSerdes:
    """The serdes of a job's tasks. Imports the classes that the job file names; raises ConfigError with every
    problem."""
    serdes = TaskSerdes(config.serdes, _settings(config.resolved))
    problems = []
    for key, name, path, keys_a_store in _named_types(config):
        try:
            serde = serdes[typed_name(name or "", path)]
        except SerdeError as cause:
            problems.append(ConfigProblem(key, path, str(cause)))
            continue
        if keys_a_store and isinstance(serde, TypedSerde) and holds_sets(serde.object_type):
            message = "a store's key must have the same bytes in every process, and a set has not: take a sorted tuple"
            problems.append(ConfigProblem(key, path, message))
    raise_if_any(problems)
    return serdes


def _named_types(config: JobConfig) -> Iterator[tuple[str, str | None, str, bool]]:
    """Key, serde and path of each class that the job file names for a stream or a store, and whether it is the class of
    a store's keys."""
    places: list[tuple[str, StreamConfig | StoreConfig]] = [
        *((f"{stream.prefix}samza.", stream) for stream in config.streams.values()),
        *((f"stores.{store.name}.", store) for store in config.stores.values()),
    ]
    for prefix, item in places:
        if item.key_type is not None:
            yield f"{prefix}key.type", item.key_serde, item.key_type, isinstance(item, StoreConfig)
        if item.msg_type is not None:
            yield f"{prefix}msg.type", item.msg_serde, item.msg_type, False


def serde_registry(config: JobConfig | Mapping[str, str]) -> SerdeRegistry:
    """The serdes of a job, or of flat pairs (`serializers.registry.*`); the built-in ones are always there."""
    if isinstance(config, JobConfig):
        return SerdeRegistry(config.serdes, _settings(config.resolved))
    return SerdeRegistry(parse_serdes(Reader(config)), _settings(config))


def _settings(flat: Mapping[str, str]) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    prefix = "serializers.registry."
    for key, value in flat.items():
        name, _, leaf = key.removeprefix(prefix).partition(".")
        if key.startswith(prefix) and leaf not in {"", "class"}:
            result.setdefault(name, {})[leaf] = value
    return result


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
            by_bases = MessageTypes(*map(_counting, _arguments(task, kind) or ()))
            return _of_parameter(task, method) if by_bases == MessageTypes() else by_bases
    return MessageTypes()


def _arguments(task: type, kind: type) -> tuple[Any, ...] | None:
    """The arguments in the brackets of `kind` among the bases of `task`, through the classes between them."""
    names = _names_of(task)
    for base in vars(task).get("__orig_bases__", task.__bases__):
        origin = get_origin(base) or base
        if not isinstance(origin, type) or not issubclass(origin, kind):
            continue
        place = f"{task.__name__}, in the brackets of {origin.__name__}"
        given = tuple(_resolved(item, names, place) for item in get_args(base))
        if origin is kind and len(given) == len(MessageTypes._fields):
            return given
        inner = None if origin is kind else _arguments(origin, kind)
        if inner is None:
            continue  # the next base may have brackets
        known = dict(zip(getattr(origin, "__parameters__", ()), given, strict=False))
        return tuple(substituted(item, known) for item in inner)
    return None


def _names_of(task: type) -> dict[str, Any]:
    """The names in the module of a class. A class that came from another program has those of its methods instead."""
    result = dict(vars(sys.modules.get(task.__module__, builtins)))
    for method in filter(inspect.isfunction, vars(task).values()):
        result = method.__globals__ | result
    return result


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
        raise ConfigError.of("task.class", None, message) from cause


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
        self._inputs = config.task.all_inputs
        self._inputs |= {pattern.stream for pattern in config.task.patterns}
        self._named = message_types(task_class)
        for stream in sorted(self._inputs):
            try:
                self(stream)
            except SerdeError as cause:
                message = f"{task_class.__name__} names a class for {stream}: {cause}; or set streams.ID.samza.msg.type"
                raise ConfigError.of("task.class", config.task.task_class, message) from cause

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
        read = self._inputs | self._config.sources
        for stream in sorted(self._config.streams):
            for serde, leaf in zip(self(stream), ("key", "msg"), strict=True):
                try:
                    if serde is not None:
                        hinted(serde).ready(writing=stream not in read)
                except SerdeError as cause:
                    name = getattr(self._config.stream(stream), f"{leaf}_serde")
                    problems.append(ConfigProblem(f"{leaf}.serde of {stream}", name, str(cause)))
        raise_if_any(problems)

    def _serde(self, stream: SystemStream, part: str, name: str | None, path: str | None, named: Any) -> Serde | None:
        if name is None:
            return None
        if path is None and named is not None and takes_types(name, self._config.serdes):
            return serde_at(self._serdes.of_type(name, named), stream.stream, part)
        return serde_at(self._serdes[typed_name(name, path)], stream.stream, part)
