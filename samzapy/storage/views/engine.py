"""A view and the storage engine below it, as one engine factory; and how a store's entries are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from samzapy.api.engine import EngineSettings, EntrySerdes, StorageEngine, StorageEngineFactory, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.api.serde import Serde
from samzapy.config.stores import StoreConfig

#: From a task's key-value store to what the task gets.
View = Callable[[KeyValueStore[Any, Any]], Any]


class ViewEngineFactory(StorageEngineFactory):
    """Opens the engine below; everything that stores bytes sees only that."""

    def __init__(self, views: StoreViewFactory, base: StorageEngineFactory) -> None:
        self.views = views
        self._base = base
        self.persistent = base.persistent
        self.makes_checkpoints = base.makes_checkpoints
        self.opens_in_any_thread = base.opens_in_any_thread

    def open(self, directory: Path | None, settings: EngineSettings) -> StorageEngine:
        """As the engine below."""
        return self._base.open(directory, settings)

    def open_read_only(self, directory: Path, settings: EngineSettings) -> StorageEngine:
        """As the engine below."""
        return self._base.open_read_only(directory, settings)

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """The problems of both."""
        return [*self._base.check(settings), *self.views.check(settings)]


def view_of(factory: StorageEngineFactory, settings: EngineSettings) -> View | None:
    """What makes the task's view of a store; None where the task gets the key-value store itself."""
    if not isinstance(factory, ViewEngineFactory):
        return None
    return lambda store: factory.views.view(store, settings)


def changes_in_place(factory: StorageEngineFactory) -> bool:
    """Whether the store's values are changed between `get` and `put`."""
    return isinstance(factory, ViewEngineFactory) and factory.views.changes_in_place


def entry_serdes(
    config: StoreConfig, factory: StorageEngineFactory, settings: EngineSettings, known: Mapping[str, Serde]
) -> tuple[Serde, Serde]:
    """The serdes of a store's keys and values."""
    key, value = chosen_serdes(config, factory, settings)
    return (
        known[key] if isinstance(key, str) else key,
        known[value] if isinstance(value, str) else value,
    )


def chosen_serdes(
    config: StoreConfig, factory: StorageEngineFactory, settings: EngineSettings
) -> tuple[Serde | str, Serde | str]:
    """Those of a store's keys and values: what a view brings along, else the names in the job file."""
    wanted = _wanted(factory, settings)
    return (
        config.key_serde or "string" if wanted.key is None else wanted.key,
        config.msg_serde or "json" if wanted.value is None else wanted.value,
    )


def serde_problems(
    config: StoreConfig, factory: StorageEngineFactory, settings: EngineSettings
) -> Iterator[tuple[str, str | None, str]]:
    """(key below the store, value, what is allowed) for serdes that are missing, or that the engine would ignore."""
    wanted = _wanted(factory, settings)
    named = (
        ("key.serde", config.key_serde, wanted.key, "string"),
        ("msg.serde", config.msg_serde, wanted.value, "json"),
    )
    for leaf, name, fixed, example in named:
        if fixed is not None and name:
            yield leaf, name, "the engine has an encoding of its own; leave it out"
        if not name and not isinstance(factory, ViewEngineFactory):
            yield leaf, None, f"required, e.g. {example}"


def _wanted(factory: StorageEngineFactory, settings: EngineSettings) -> EntrySerdes:
    if isinstance(factory, ViewEngineFactory):
        return factory.views.entry_serdes(settings)
    return EntrySerdes(None, None)
