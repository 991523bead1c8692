"""`stores.NAME.factory = quantiles`: what is the median? By the KLL sketch of `datasketches`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from samzapy.api.engine import EngineSettings
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores import engines
from samzapy.errors import StoreRefused
from samzapy.storage.views.properties import value_of
from samzapy.storage.views.sketches.library import SketchesFactory, SketchSerde, library


class Quantiles:
    """The distribution of the numbers of each key.

    The rank of an answer is off by no more than the sketch's error (1.33 % for `quantiles.k=200`) with a certainty of
    99 %; up to `k` numbers all of them are kept and answers are exact. Which numbers are kept beyond that is drawn at random,
    so two sketches of the same numbers may differ within the error; a restored one is the one that was committed.
    """

    __slots__ = ("_k", "_name", "_new", "_store")

    def __init__(self, store: KeyValueStore[Any, Any], name: str, k: int) -> None:
        self._store = store
        self._name = name
        self._k = k
        self._new: Any = library("datasketches").kll_doubles_sketch

    def add(self, key: Any, number: float) -> None:
        """Add a number, not NaN."""
        if type(number) not in {int, float} or number != number:  # noqa: PLR0124
            raise StoreRefused(f"store '{self._name}': a quantile sketch takes int and float, got {number!r:.100}")
        try:
            value = float(number)
        except OverflowError as cause:
            raise StoreRefused(f"store '{self._name}': {cause}") from cause
        sketch = self._store.get(key)
        if sketch is None:
            sketch = self._new(self._k)
        sketch.update(value)
        self._store.put(key, sketch)

    def add_all(self, key: Any, numbers: Iterable[float]) -> None:
        """Add many."""
        for number in numbers:
            self.add(key, number)

    def quantile(self, key: Any, fraction: float) -> float | None:
        """The number that a `fraction` (0 to 1) of all numbers is at most; None for an unknown key."""
        found = self.quantiles(key, (fraction,))
        return None if found is None else found[0]

    def quantiles(self, key: Any, fractions: Sequence[float]) -> list[float] | None:
        """As `quantile`, of several fractions in one go."""
        if not all(0.0 <= fraction <= 1.0 for fraction in fractions):
            raise StoreRefused(f"store '{self._name}': a fraction is from 0 to 1, got {fractions!r:.100}")
        sketch = self._store.get(key)
        return None if sketch is None else [float(sketch.get_quantile(fraction, True)) for fraction in fractions]

    def rank(self, key: Any, number: float) -> float | None:
        """The fraction of the numbers that are at most `number`; None for an unknown key."""
        sketch = self._store.get(key)
        return None if sketch is None else float(sketch.get_rank(number, True))

    def count(self, key: Any) -> int:
        """How many numbers were added, exactly."""
        sketch = self._store.get(key)
        return 0 if sketch is None else int(sketch.n)

    def extremes(self, key: Any) -> tuple[float, float] | None:
        """The smallest and the largest number, exactly; None for an unknown key."""
        sketch = self._store.get(key)
        return None if sketch is None else (float(sketch.get_min_value()), float(sketch.get_max_value()))

    def delete(self, key: Any) -> None:
        """Forget the key's sketch."""
        self._store.delete(key)


class KllSerde(SketchSerde):
    """The sketch as Apache DataSketches writes it in every language."""

    def to_bytes(self, value: Any) -> bytes:
        """The sketch's bytes."""
        return bytes(value.serialize())

    def from_bytes(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are no sketch."""
        try:
            return library("datasketches").kll_doubles_sketch.deserialize(data)
        except (RuntimeError, IndexError) as cause:
            raise ValueError(f"not a KLL sketch: {cause}") from cause


class QuantilesFactory(SketchesFactory):
    """Gives Quantiles. `quantiles.k` is that of new sketches; others stay as they are."""

    engine = "quantiles"
    package = "datasketches"
    keys = (engines.QUANTILES_K,)
    serde = KllSerde

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> Quantiles:
        """See `StoreViewFactory.view`."""
        return Quantiles(store, settings.store, value_of(settings, engines.QUANTILES_K))
