"""`stores.NAME.factory = heap`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores import engines
from samzapy.storage.views.heap.store import HeapStore
from samzapy.storage.views.properties import problems_of, value_of

_KEYS = (engines.HEAP_SIZE, engines.HEAP_ORDER, engines.HEAP_BLOCK_SIZE)


class HeapStoreFactory(StoreViewFactory):
    """Gives a HeapStore. A smaller `heap.size` than before takes effect at the next push to each group."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> HeapStore:
        """See `StoreViewFactory.view`."""
        return HeapStore(
            store,
            settings.store,
            size=value_of(settings, engines.HEAP_SIZE),
            highest=value_of(settings, engines.HEAP_ORDER) == "highest",
            block_size=value_of(settings, engines.HEAP_BLOCK_SIZE),
        )

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str, str]]:
        """Problems of `heap.*`."""
        return problems_of(settings, _KEYS)
