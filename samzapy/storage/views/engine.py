"""Combines a view and the storage engine below it into one engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from pathlib import Path
from typing import Any

from samzapy.api.engine import (
    EngineSettings,
    EntrySerdes,
    StorageEngine,
    StorageEngineFactory,
    StoreViewFactory,
)
from samzapy.api.kv import KeyValueStore

#: Makes the task's view from its key-value store.
View = Callable[[KeyValueStore[Any, Any]], Any]


class ViewEngineFactory(StorageEngineFactory):
    """Opens the engine below, which keeps the bytes."""

    has_view = True

    def __init__(self, views: StoreViewFactory, base: StorageEngineFactory) -> None:
        self._views = views
        self._base = base
        self.persistent = base.persistent
        self.makes_checkpoints = base.makes_checkpoints
        self.opens_in_any_thread = base.opens_in_any_thread
        self.changes_in_place = views.changes_in_place
        self.entries_stand_alone = views.entries_stand_alone

    def open(self, directory: Path | None, settings: EngineSettings) -> StorageEngine:
        """Like the engine below."""
        return self._base.open(directory, settings)

    def open_read_only(self, directory: Path, settings: EngineSettings) -> StorageEngine:
        """Like the engine below."""
        return self._base.open_read_only(directory, settings)

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """The problems of both."""
        return [*self._base.check(settings), *self._views.check(settings)]

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        """The serdes of the view."""
        return self._views.entry_serdes(settings)

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> Any:
        """The view."""
        return self._views.view(store, settings)


def check_lengths(*columns: Sized) -> None:
    """Raise ValueError for columns of different lengths."""
    if len(lengths := set(map(len, columns))) > 1:
        raise ValueError(f"expected columns of one length, got {sorted(lengths)}")
