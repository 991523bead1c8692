"""Loads the engines of a job's stores, and checks the serdes of their entries.

A store keeps its serdes for its whole life. Another serde may read its bytes without an error, but wrongly: the long 10
is the double 4.9e-323.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.engine import (
    EngineSettings,
    EntrySerdes,
    Problems,
    StorageEngine,
    StorageEngineFactory,
    StoreViewFactory,
)
from samzapy.api.serde import Serde, hinted, serde_at
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams.serdes import key_identity, serde_identity, typed_name
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.plugins import PluginError, load_class
from samzapy.storage.backup import BackupUnavailable, check_folder
from samzapy.storage.local.marker import SerdePair, serde_changes


class StoreEngine(StorageEngineFactory):
    """How a store keeps its entries, and what it shows of them: the engine of the bytes, and the view over the entries,
    None for the key-value store itself."""

    def __init__(self, factory: StorageEngineFactory, view: StoreViewFactory | None = None) -> None:
        self.factory = factory
        self.view = view
        self.persistent = factory.persistent
        # Only jobs with stores import RocksDB.
        from samzapy.storage.rocksdb import RocksDbStorageEngineFactory  # noqa: PLC0415

        #: Whether its engines make checkpoints, and any thread may open and load them.
        self.is_rocksdb = isinstance(factory, RocksDbStorageEngineFactory)

    def open(self, directory: Path | None, settings: EngineSettings, *, read_only: bool = False) -> StorageEngine:
        """Open the engine of the bytes."""
        return self.factory.open(directory, settings, read_only=read_only)

    def check(self, settings: EngineSettings) -> Problems:
        return [*self.factory.check(settings), *(() if self.view is None else self.view.check(settings))]

    def entries(self, settings: EngineSettings) -> EntrySerdes:
        """The entries of the view; of a key-value store the job file has the serdes."""
        return _PLAIN if self.view is None else self.view.entry_serdes(settings)

    def seen(self, store: Any, settings: EngineSettings) -> Any:
        """The object that the task gets for its key-value `store`."""
        return store if self.view is None else self.view.view(store, settings)


#: The entries of a store of keys and values.
_PLAIN = EntrySerdes(None, None, stand_alone=True)


def load_engines(config: JobConfig) -> dict[str, StoreEngine]:
    """The engine of each store, to be shared by the tasks of a container. Raises ConfigError with every problem."""
    engines: dict[str, StoreEngine] = {}
    problems: list[ConfigProblem] = []
    for name, store in config.stores.items():
        key = f"stores.{name}.factory"
        try:
            factory = _factory(store)
        except PluginError as cause:
            problems.append(ConfigProblem(key, store.factory, str(cause)))
            continue
        engines[name] = factory
        settings = EngineSettings(name, store.properties)
        for leaf, value, allowed in (*factory.check(settings), *serde_problems(store, factory, settings)):
            problems.append(ConfigProblem(f"stores.{name}.{leaf}", value, allowed))
        problems += _lost_entry_problems(store, factory.entries(settings))
        problems += _backup_problems(store, factory)
    if problems:
        raise ConfigError(problems)
    return engines


def _lost_entry_problems(store: StoreConfig, entries: EntrySerdes) -> Iterator[ConfigProblem]:
    if entries.stand_alone:
        return
    for key, given, lost in (
        ("rocksdb.ttl.ms", store.ttl_ms, "expires"),
        ("drop.large.messages", store.large_values.drop or None, "is dropped"),
    ):
        if given is not None:
            message = (
                f"is not for this engine: its entries belong together, and one that {lost} leaves the others wrong"
            )
            yield ConfigProblem(f"stores.{store.name}.{key}", str(given).lower(), message)


def _backup_problems(store: StoreConfig, factory: StoreEngine) -> Iterator[ConfigProblem]:
    if store.backup is None:
        return
    key = f"stores.{store.name}.backup.path"
    if not factory.is_rocksdb:
        yield ConfigProblem(key, store.backup.path, f"is for engines that make checkpoints, not {store.factory}")
    try:
        check_folder(store.backup.path)
    except BackupUnavailable as cause:
        yield ConfigProblem(key, store.backup.path, str(cause))


def _factory(store: StoreConfig) -> StoreEngine:
    found = load_class(store.factory)
    if issubclass(found, StoreViewFactory):
        below = load_class(store.base)
        if not issubclass(below, StorageEngineFactory):
            raise PluginError(f"its base {store.base} must be a StorageEngineFactory")
        return StoreEngine(below(), found())
    if not issubclass(found, StorageEngineFactory):
        raise PluginError("must be a StorageEngineFactory or a StoreViewFactory")
    return StoreEngine(found())


def entry_serdes(
    config: StoreConfig, factory: StoreEngine, settings: EngineSettings, known: Mapping[str, Serde]
) -> tuple[Serde, Serde]:
    """The serdes of a store's keys and values, of the classes in the job file if `known` has serdes of classes."""
    key, value = chosen_serdes(config, factory, settings)
    place = config.name if config.changelog is None else config.changelog.stream
    return (
        serde_at(known[typed_name(key, config.key_type)], place, "key") if isinstance(key, str) else key,
        serde_at(known[typed_name(value, config.msg_type)], place, "value") if isinstance(value, str) else value,
    )


def make_ready(config: JobConfig, engines: Mapping[str, StoreEngine], known: Mapping[str, Serde]) -> None:
    """Let the serdes of a job's stores fetch their requirements. Raises ConfigError with every problem, or
    EnvironmentFailure."""
    problems = []
    for store in config.stores.values():
        settings = EngineSettings(store.name, store.properties)
        for serde, leaf in zip(entry_serdes(store, engines[store.name], settings, known), ("key", "msg"), strict=True):
            try:
                hinted(serde).ready(writing=True)
            except SerdeError as cause:
                problems.append(ConfigProblem(f"stores.{store.name}.{leaf}.serde", None, str(cause)))
    if problems:
        raise ConfigError(problems)


def chosen_serdes(
    config: StoreConfig, factory: StoreEngine, settings: EngineSettings
) -> tuple[Serde | str, Serde | str]:
    """The serdes of a store's keys and values: the view's own, else the names in the job file."""
    wanted = factory.entries(settings)
    return (
        config.key_serde or "string" if wanted.key is None else wanted.key,
        config.msg_serde or "json" if wanted.value is None else wanted.value,
    )


def serde_problems(
    config: StoreConfig, factory: StoreEngine, settings: EngineSettings
) -> Iterator[tuple[str, str | None, str]]:
    """(key below the store, value, allowed values) for serdes that are missing, or that the engine would ignore."""
    wanted = factory.entries(settings)
    named = (
        ("key.serde", config.key_serde, wanted.key, "string"),
        ("msg.serde", config.msg_serde, wanted.value, "json"),
    )
    for leaf, name, fixed, example in named:
        if fixed is not None and name:
            yield leaf, name, "the engine has an encoding of its own; leave it out"
        if not name and factory.view is None:
            yield leaf, None, f"required, e.g. {example}"


def entry_serde_names(config: JobConfig, store: StoreConfig, factory: StoreEngine) -> SerdePair:
    """The serdes of the store's keys and values by their identities, as the job file and the store's engine give
    them."""
    settings = EngineSettings(store.name, store.properties)
    key, value = chosen_serdes(store, factory, settings)
    return key_identity(key, config.serdes, config.resolved), serde_identity(value, config.serdes)


def check_checkpoints(
    config: JobConfig, engines: Mapping[str, StoreEngine], checkpoints: Iterable[Checkpoint | None]
) -> None:
    """Raise ConfigError if a store has a changelog that was written with other serdes, as a task's checkpoint says."""
    logged = [store for store in config.stores.values() if store.changelog is not None]
    now = {store.name: entry_serde_names(config, store, engines[store.name]) for store in logged}
    problems: dict[ConfigProblem, None] = {}
    for checkpoint in filter(None, checkpoints):
        for store in logged:
            written = checkpoint.serdes.get(store.name, ("", ""))
            problems.update(dict.fromkeys(serde_changes(store, written, now[store.name])))
    if problems:
        raise ConfigError(problems)
