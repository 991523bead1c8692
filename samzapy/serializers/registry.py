"""Serdes by name, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from samzapy.api.serde import Serde, SerdeFactory
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import SERDES
from samzapy.config.stores.store import typed_stores
from samzapy.config.streams.serdes import split_typed_name, takes_types, typed_name, unknown_serde
from samzapy.config.streams.stream import typed_streams
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.plugins import PluginError, load_class, load_name
from samzapy.serializers.documents import DocumentSerde
from samzapy.serializers.typed import TypedSerde, holds_sets, shown


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
            made = load_class(path)()
            serde = made.serde(name, dict(self._settings.get(name, {}))) if isinstance(made, SerdeFactory) else made
        except ConfigError:
            raise
        except PluginError as cause:
            raise ConfigError([ConfigProblem(key, None, str(cause))]) from cause
        except SerdeError as cause:
            raise ConfigError([ConfigProblem(key.removesuffix(".class"), None, str(cause))]) from cause
        except Exception as cause:
            raise ConfigError(
                [ConfigProblem(key, path, f"cannot be made ({type(cause).__name__}: {cause})")]
            ) from cause
        if not isinstance(serde, Serde):
            raise ConfigError([ConfigProblem(key, path, "must be a Serde, or a SerdeFactory that makes one")])
        return serde


class TaskSerdes(SerdeRegistry):
    """The serdes of tasks, including the serdes of the user's classes."""

    def takes_types(self, name: str) -> bool:
        """Whether `of_type` takes the serde of that name."""
        return takes_types(name, self._classes)

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
    of_stores = list(typed_stores(config.stores.values()))
    for key, name, path in (*typed_streams(config.streams.values(), config.stream_ids), *of_stores):
        try:
            serde = serdes[typed_name(name or "", path)]
        except SerdeError as cause:
            problems.append(ConfigProblem(key, path, str(cause)))
            continue
        if (key, name, path) in of_stores and key.endswith(".key.type"):
            message = _unfit_for_keys(serde)
            if message:
                problems.append(ConfigProblem(key, path, message))
    if problems:
        raise ConfigError(problems)
    return serdes


def _unfit_for_keys(serde: Serde) -> str | None:
    """Why a store cannot have a class for its keys; None if it can."""
    unhashable = sorted(map(shown, filter(_is_unhashable, getattr(serde, "classes", None) or ())))
    if unhashable:
        return f"a store's key must be hashable, {unhashable[0]} is not: freeze it (frozen=True)"
    if isinstance(serde, TypedSerde) and holds_sets(serde.object_type):
        return "a store's key must have the same bytes in every process, and a set has not: take a sorted tuple"
    return None


def _is_unhashable(kind: type) -> bool:
    if kind.__hash__ is None:
        return True
    # A mutable Struct is unhashable.
    struct = getattr(kind, "__struct_config__", None)
    return struct is not None and struct.eq and not struct.frozen


def serde_registry(config: JobConfig | Mapping[str, str]) -> SerdeRegistry:
    """The serdes of a job, or of flat pairs (`serializers.registry.*`); the built-in ones are always there."""
    if isinstance(config, JobConfig):
        return SerdeRegistry(config.serdes, _settings(config.resolved))
    classes = dict(SERDES.short)
    for name, settings in _settings(config, with_class=True).items():
        path = settings.get("class", "")
        if path:
            classes[name] = SERDES.path(path) or path
    return SerdeRegistry(classes, _settings(config))


def _settings(flat: Mapping[str, str], *, with_class: bool = False) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    prefix = "serializers.registry."
    for key, value in flat.items():
        name, _, leaf = key.removeprefix(prefix).partition(".")
        if key.startswith(prefix) and leaf and (with_class or leaf != "class"):
            found.setdefault(name, {})[leaf] = value
    return found
