"""`stores.NAME.factory = timers`."""

from __future__ import annotations

from typing import Any

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.storage.views.timers.store import TimerStore


class TimersFactory(StoreViewFactory):
    """Gives a TimerStore."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> TimerStore:
        """See `StoreViewFactory.view`."""
        return TimerStore(store, settings.store)
