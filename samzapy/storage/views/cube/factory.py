"""`stores.NAME.factory = cube`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.storage.views.cube.design import CubeDesign, problems
from samzapy.storage.views.cube.store import CubeStore


class CubeFactory(StoreViewFactory):
    """Gives a CubeStore."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> CubeStore:
        """See `StoreViewFactory.view`."""
        return CubeStore(store, settings.store, CubeDesign.of(settings))

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """Problems of `cube.*`."""
        return problems(settings)
