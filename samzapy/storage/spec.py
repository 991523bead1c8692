"""The stores of a job file with their engines loaded, and the checks of their serdes.

A store keeps its serdes for its whole life. Another serde may read its bytes without an error, but wrongly: the long 10
is the double 4.9e-323.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.engine import EngineSettings, EntrySerdes, StorageEngine, StorageEngineFactory, StoreViewFactory
from samzapy.api.serde import Serde, hinted, serde_at
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams.serdes import key_identity, serde_identity, typed_name
from samzapy.errors import ConfigProblem, SerdeError, raise_if_any
from samzapy.plugins import PluginError, load_class
from samzapy.storage.backup.folder import BackupUnavailable, check_folder
from samzapy.storage.local.marker import SerdePair, serde_changes

#: The entries of a store of keys and values.
_PLAIN = EntrySerdes(None, None, stand_alone=True)


@runtime_checkable
class MakesCheckpoints(Protocol):
    """An engine's factory that can copy the committed state of an engine in use into a new directory; any thread."""

    def checkpoint(self, engine: Any, directory: Path) -> None:
        """Make the copy. Raises StoreError."""


@dataclass(frozen=True)
class StoreSpec:
    """A store as the job file describes it. `factory` opens the engine of its bytes. `view` makes the object that a
    task gets, None for the key-value store itself."""

    config: StoreConfig
    factory: StorageEngineFactory
    view: StoreViewFactory | None = None
    serde_names: SerdePair = ("", "")
    """The identities of the serdes of its keys and values."""

    @property
    def persistent(self) -> bool:
        """Whether its engine keeps files."""
        return self.factory.persistent

    @property
    def settings(self) -> EngineSettings:
        """The settings of its engine and its view, for the only task of a container."""
        return EngineSettings(self.config.name, self.config.properties)

    @property
    def entries(self) -> EntrySerdes:
        """The entries of the view; of a key-value store the job file has the serdes."""
        return _PLAIN if self.view is None else self.view.entry_serdes(self.settings)

    def open(self, directory: Path | None, tasks: int = 1, *, read_only: bool = False) -> StorageEngine:
        """Open the engine of a task, one of the `tasks` of a container."""
        settings = EngineSettings(self.config.name, self.config.properties, tasks)
        return self.factory.open(directory, settings, read_only=read_only)

    def seen(self, store: Any) -> Any:
        """The object that the task gets for its key-value `store`."""
        return store if self.view is None else self.view.view(store, self.settings)

    def named_serdes(self) -> tuple[Serde | str, Serde | str]:
        """The serdes of keys and values: the view's own, else the names in the job file."""
        entries, config = self.entries, self.config
        return (
            config.key_serde or "string" if entries.key is None else entries.key,
            config.msg_serde or "json" if entries.value is None else entries.value,
        )

    def serdes(self, known: Mapping[str, Serde]) -> tuple[Serde, Serde]:
        """The serdes of keys and values, of the classes in the job file if `known` has serdes of classes."""
        config = self.config
        key, value = self.named_serdes()
        place = config.name if config.changelog is None else config.changelog.stream
        return (
            serde_at(known[typed_name(key, config.key_type)], place, "key") if isinstance(key, str) else key,
            serde_at(known[typed_name(value, config.msg_type)], place, "value") if isinstance(value, str) else value,
        )

    def problems(self) -> Iterator[ConfigProblem]:
        """The problems of its keys."""
        settings = self.settings
        views = () if self.view is None else self.view.check(settings)
        for leaf, value, allowed in (*self.factory.check(settings), *views, *self._serde_problems()):
            yield ConfigProblem(f"stores.{self.config.name}.{leaf}", value, allowed)
        yield from self._lost_entry_problems()
        yield from self._backup_problems()

    def _serde_problems(self) -> Iterator[tuple[str, str | None, str]]:
        entries = self.entries
        named = (
            ("key.serde", self.config.key_serde, entries.key, "string"),
            ("msg.serde", self.config.msg_serde, entries.value, "json"),
        )
        for leaf, name, fixed, example in named:
            if fixed is not None and name:
                yield leaf, name, "the engine has an encoding of its own; leave it out"
            if not name and self.view is None:
                yield leaf, None, f"required, e.g. {example}"

    def _lost_entry_problems(self) -> Iterator[ConfigProblem]:
        if self.entries.stand_alone:
            return
        for leaf, value, lost in (
            ("rocksdb.ttl.ms", self.config.ttl_ms, "expires"),
            ("drop.large.messages", self.config.large_values.drop or None, "is dropped"),
        ):
            if value is not None:
                why = f"its entries belong together, and one that {lost} leaves the others wrong"
                key = f"stores.{self.config.name}.{leaf}"
                yield ConfigProblem(key, str(value).lower(), f"is not for this engine: {why}")

    def _backup_problems(self) -> Iterator[ConfigProblem]:
        backup = self.config.backup
        if backup is None:
            return
        key = f"stores.{self.config.name}.backup.path"
        if not isinstance(self.factory, MakesCheckpoints):
            yield ConfigProblem(key, backup.path, f"is for engines that make checkpoints, not {self.config.factory}")
        try:
            check_folder(backup.path)
        except BackupUnavailable as cause:
            yield ConfigProblem(key, backup.path, str(cause))


def store_specs(config: JobConfig) -> dict[str, StoreSpec]:
    """The stores of a job by name, for all tasks of a container. Raises ConfigError with every problem."""
    specs: dict[str, StoreSpec] = {}
    problems: list[ConfigProblem] = []
    for name, store in config.stores.items():
        try:
            spec = _loaded(config, store)
        except PluginError as cause:
            problems.append(ConfigProblem(f"stores.{name}.factory", store.factory, str(cause)))
        else:
            specs[name] = spec
            problems += spec.problems()
    raise_if_any(problems)
    return specs


def _loaded(config: JobConfig, store: StoreConfig) -> StoreSpec:
    factory, view = load_class(store.factory), None
    if issubclass(factory, StoreViewFactory):
        factory, view = load_class(store.base), factory()
        if not issubclass(factory, StorageEngineFactory):
            raise PluginError(f"its base {store.base} must be a StorageEngineFactory")
    elif not issubclass(factory, StorageEngineFactory):
        raise PluginError("must be a StorageEngineFactory or a StoreViewFactory")
    key, value = StoreSpec(store, factory(), view).named_serdes()
    names = key_identity(key, config.serdes, config.resolved), serde_identity(value, config.serdes)
    return StoreSpec(store, factory(), view, names)


def make_ready(specs: Mapping[str, StoreSpec], known: Mapping[str, Serde]) -> None:
    """Let the serdes of a job's stores fetch their requirements. Raises ConfigError with every problem, or
    EnvironmentFailure."""
    problems = []
    for name, spec in specs.items():
        for serde, leaf in zip(spec.serdes(known), ("key", "msg"), strict=True):
            try:
                hinted(serde).ready(writing=True)
            except SerdeError as cause:
                problems.append(ConfigProblem(f"stores.{name}.{leaf}.serde", None, str(cause)))
    raise_if_any(problems)


def check_checkpoints(specs: Mapping[str, StoreSpec], checkpoints: Iterable[Checkpoint | None]) -> None:
    """Raise ConfigError if a store has a changelog that was written with other serdes, as a task's checkpoint says."""
    problems: dict[ConfigProblem, None] = {}
    for checkpoint in filter(None, checkpoints):
        for name, spec in specs.items():
            if spec.config.changelog is not None:
                written = checkpoint.serdes.get(name, ("", ""))
                problems.update(dict.fromkeys(serde_changes(spec.config, written, spec.serde_names)))
    raise_if_any(problems)
