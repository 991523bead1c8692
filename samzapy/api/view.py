"""The SPI of an engine with a query interface of its own: a view over the key-value store.

What has to survive a crash stays where it is for every store: entries in the object cache, the uncommitted bytes, the
changelog and a storage engine. A view adds what the task calls, and how that is laid out in entries. It keeps nothing of
its own between two calls, so commit, restore, rollback and the undoing of a failed message need nothing from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from samzapy.api.engine import EngineSettings
from samzapy.api.kv import KeyValueStore
from samzapy.api.serde import Serde


@dataclass(frozen=True)
class EntrySerdes:
    """How a view's entries are written: a serde, the name of a registered one, or None for what the job file says
    (`stores.NAME.key.serde`, `string` where it says nothing; `stores.NAME.msg.serde`, `json`)."""

    key: Serde | str | None = "bytes"
    value: Serde | str | None = "msgpack"


class StoreViewFactory(ABC):
    """Named by `stores.NAME.factory`; `stores.NAME.base` names the engine below. Made without arguments."""

    #: Whether the view changes values it got from the store before it puts them back. Where a message that fails is
    #: undone (`task.error.process.policy`), the store then hands out copies; a view that puts new objects is quicker there.
    changes_in_place = False

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        """How the entries are written; by default keys are bytes, which keep their order, and values msgpack."""
        return EntrySerdes()

    @abstractmethod
    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> Any:
        """What `context.get_store(NAME)` gives to one task. Called once a task and attempt, when the store is restored;
        `settings.properties` are the keys below `stores.NAME.` that samzapy does not read itself."""

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """Problems of the settings as (key below the store, value or None, what is allowed); touches nothing."""
        return ()
