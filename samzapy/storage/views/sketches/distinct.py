"""`stores.NAME.factory = hyperloglog`: how many different ones? By the HyperLogLog sketch of `datasketches`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samzapy.api.engine import EngineSettings
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores import engines
from samzapy.errors import StoreRefused
from samzapy.storage.views.properties import value_of
from samzapy.storage.views.sketches.library import SketchesFactory, SketchSerde, library

_KINDS = (str, int, float)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class DistinctCounts:
    """A count of different items (str, int of 64 bits, float) for each key; 1 and "1" are different ones, and so are 1 and 1.0."""

    __slots__ = ("_lg_k", "_library", "_name", "_store")

    def __init__(self, store: KeyValueStore[Any, Any], name: str, lg_k: int) -> None:
        self._store = store
        self._name = name
        self._lg_k = lg_k
        self._library: Any = library("datasketches")

    def add(self, key: Any, item: str | float) -> bool:
        """Count the item; returns whether the sketch changed. One that was counted before never changes it."""
        if type(item) not in _KINDS or (type(item) is int and not _SMALLEST <= item <= _LARGEST):
            raise StoreRefused(
                f"store '{self._name}': a distinct count takes str, int of 64 bits and float, got {item!r:.100}"
            )
        sketch = self._store.get(key)
        if sketch is None:
            sketch = self._library.hll_sketch(self._lg_k, self._library.HLL_4)
        # Sketches that are only updated, never merged, grow their estimate with every change of a counter.
        before = sketch.get_estimate()
        try:
            sketch.update(item)
        except (TypeError, ValueError) as cause:
            raise StoreRefused(f"store '{self._name}': item {item!r:.100} cannot be counted: {cause}") from cause
        if sketch.get_estimate() == before:
            return False
        self._store.put(key, sketch)
        return True

    def add_all(self, key: Any, items: Iterable[str | float]) -> None:
        """Count many."""
        for item in items:
            self.add(key, item)

    def estimate(self, key: Any) -> float:
        """About how many different items were counted; 0.0 for an unknown key."""
        sketch = self._store.get(key)
        return 0.0 if sketch is None else float(sketch.get_estimate())

    def bounds(self, key: Any, deviations: int = 2) -> tuple[float, float]:
        """What the number lies between with the certainty of 1, 2 or 3 standard deviations (68, 95, 99.7 %)."""
        sketch = self._store.get(key)
        if sketch is None:
            return 0.0, 0.0
        return float(sketch.get_lower_bound(deviations)), float(sketch.get_upper_bound(deviations))

    def estimate_union(self, keys: Iterable[Any]) -> float:
        """About how many different items were counted under any of `keys`."""
        union = self._library.hll_union(self._lg_k)
        for sketch in self._store.get_all(keys).values():
            if sketch is not None:
                union.update(sketch)
        return float(union.get_estimate())

    def delete(self, key: Any) -> None:
        """Forget the key's sketch."""
        self._store.delete(key)


class HyperLogLogSerde(SketchSerde):
    """The sketch as Apache DataSketches writes it in every language. Not in the compact form, which changes its bytes
    when it is read and written again."""

    def to_bytes(self, value: Any) -> bytes:
        """The sketch's bytes."""
        return bytes(value.serialize_updatable())

    def from_bytes(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are no sketch."""
        try:
            return library("datasketches").hll_sketch.deserialize(data)
        except (RuntimeError, IndexError) as cause:
            raise ValueError(f"not a HyperLogLog sketch: {cause}") from cause


class DistinctCountsFactory(SketchesFactory):
    """Gives DistinctCounts. `hyperloglog.lg.k` is that of new sketches; others stay as they are."""

    engine = "hyperloglog"
    package = "datasketches"
    keys = (engines.HYPERLOGLOG_LG_K,)
    serde = HyperLogLogSerde

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> DistinctCounts:
        """See `StoreViewFactory.view`."""
        return DistinctCounts(store, settings.store, value_of(settings, engines.HYPERLOGLOG_LG_K))
