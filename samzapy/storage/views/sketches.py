"""Sketches: approximate membership, distinct counts and quantiles, in a few kilobytes a key.

1. A sketch lives as an object in the store's cache and is serialized when the store is flushed. An item that does not
   change it costs no changelog record.
2. The sketches come from `datasketches` (Apache) and `rbloom`, installed by `pip install 'samzapy[sketches]'`. They
   are imported when a store first needs them.
"""

from __future__ import annotations

import hashlib
import importlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, ClassVar

from samzapy.api.engine import EngineSettings, EntrySerdes, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.api.serde import Serde
from samzapy.config.stores.engines import BloomKeys, HyperLogLogKeys, QuantilesKeys, read_engine
from samzapy.errors import EnvironmentFailure, StoreRefused
from samzapy.storage.views import check_lengths

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

EMPTY_TEXT = "\0empty"  # is counted for the empty str, which the library passes over

_ADVICE = "install it: pip install 'samzapy[sketches]'"


@cache
def library(name: str) -> Any:
    """The module `name`. Raises EnvironmentFailure if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as cause:
        raise EnvironmentFailure(f"sketches need the package {name} ({cause}); {_ADVICE}") from cause


class DataSketchSerde(Serde):
    """The sketch as Apache DataSketches writes it in every language. One that is read and written again without a
    change has the same bytes."""

    #: The class of the sketches in the library, its name in errors, and its method that gives the bytes.
    kind: ClassVar[str]
    text: ClassVar[str]
    write: ClassVar[str]

    def to_bytes(self, value: Any) -> bytes:
        return bytes(getattr(value, self.write)())

    def from_bytes(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are no sketch."""
        try:
            return getattr(library("datasketches"), self.kind).deserialize(data)
        except (RuntimeError, IndexError) as cause:
            raise ValueError(f"not a {self.text} sketch: {cause}") from cause


class _Sketches:
    """A sketch for each key; a subclass says what an item is, and how a sketch accepts it."""

    def __init__(self, store: KeyValueStore[Any, Any], name: str) -> None:
        self._store = store
        self._name = name

    @abstractmethod
    def _new(self) -> Any:
        """An empty sketch."""

    @abstractmethod
    def _checked(self, item: Any) -> Any:
        """The item as the sketch accepts it. Raises StoreRefused."""

    @abstractmethod
    def _update(self, sketch: Any, item: Any) -> bool:
        """Add a checked item; returns whether the sketch has changed."""

    def add(self, key: Any, item: Any) -> bool:
        """Add an item; returns whether the sketch has changed, so False for an item that was added before (a quantile
        sketch always changes)."""
        item = self._checked(item)
        sketch = self._store.get(key)
        if sketch is None:
            sketch = self._new()
        changed = self._update(sketch, item)
        if changed:
            self._store.put(key, sketch)
        return changed

    def add_all(self, key: Any, items: Iterable[Any]) -> int:
        """Add many; returns the number of those that changed the sketch."""
        return sum([self.add(key, item) for item in items])

    def add_each(self, keys: Sequence[Any], items: Sequence[Any]) -> None:
        """Add an item to the sketch of the key next to it. Each sketch is read once and written once; none if an item
        is refused."""
        checked = list(map(self._checked, items))
        check_lengths(keys, checked)
        sketches = self._store.get_all(keys)
        changed = {}
        for key, item in zip(keys, checked, strict=True):
            sketch = sketches[key]
            if sketch is None:
                sketch = sketches[key] = self._new()
            if self._update(sketch, item):
                changed[key] = sketch
        self._store.put_all(changed)

    def delete(self, key: Any) -> None:
        """Forget the key's sketch."""
        self._store.delete(key)

    def _refused(self, what: str, item: object) -> StoreRefused:
        return StoreRefused(f"store '{self._name}': {what}, got {item!r:.100}")


class SketchesFactory(StoreViewFactory):
    """Keys are the job's (`key.serde`, string by default), values are sketches."""

    engine: ClassVar[str]
    package: ClassVar[str]
    keys: ClassVar[type]
    serde: ClassVar[type[Serde]]
    #: Makes the view from the store, its name, and the fields of `keys` in order.
    sketches: ClassVar[Callable[..., Any]]

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> Any:
        return self.sketches(store, settings.store, *vars(read_engine(self.keys, settings)[0]).values())

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        return EntrySerdes(None, self.serde(), stand_alone=True)

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        if find_spec(self.package) is None:
            yield "factory", self.engine, f"needs the package {self.package}, which is not installed; {_ADVICE}"
        yield from read_engine(self.keys, settings)[1]


class BloomFilters(_Sketches):
    """A Bloom filter of str and bytes items for each key.

    An added item is always found. Another one is found by mistake, with about the error rate when the filter is full. A
    filter has its full size from its first item on.
    """

    def __init__(self, store: KeyValueStore[Any, Any], name: str, capacity: int, error_rate: float) -> None:
        super().__init__(store, name)
        self._capacity = capacity
        self._error_rate = error_rate
        self._library: Any = library("rbloom")

    def _new(self) -> Any:
        return self._library.Bloom(self._capacity, self._error_rate, _hash)

    def _update(self, sketch: Any, item: Any) -> bool:
        if item in sketch:
            return False
        sketch.add(item)
        return True

    def might_contain(self, key: Any, item: str | bytes) -> bool:
        """False: it was never added. True: it was, or this is a false positive."""
        data = self._checked(item)
        bloom = self._store.get(key)
        return bloom is not None and data in bloom

    def approximate_count(self, key: Any) -> float:
        """The approximate number of different items."""
        bloom = self._store.get(key)
        return 0.0 if bloom is None else float(bloom.approx_items)

    def _checked(self, item: Any) -> bytes:
        if isinstance(item, str):
            return b"s" + item.encode("utf-8", "surrogatepass")
        if isinstance(item, bytes):
            return b"b" + item
        raise self._refused("a Bloom filter takes str and bytes", item)


def _hash(data: bytes) -> int:
    """A hash of 128 bits, the same in every process, as the signed number that rbloom takes."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big", signed=True)


class BloomSerde(Serde):
    """A filter as rbloom writes it: the number of hashes, then the bits."""

    def to_bytes(self, value: Any) -> bytes:
        return bytes(value.save_bytes())

    def from_bytes(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are no filter."""
        return library("rbloom").Bloom.load_bytes(data, _hash)


class BloomFiltersFactory(SketchesFactory):
    """Makes BloomFilters. Capacity and error rate apply to new filters; others stay unchanged."""

    engine = "bloom"
    package = "rbloom"
    keys = BloomKeys
    serde = BloomSerde
    sketches = BloomFilters


class DistinctCounts(_Sketches):
    """A count of different items (str, int of 64 bits, float) for each key; 1 and "1" are different ones, and so are 1
    and 1.0."""

    def __init__(self, store: KeyValueStore[Any, Any], name: str, lg_k: int) -> None:
        super().__init__(store, name)
        self._lg_k = lg_k
        self._library: Any = library("datasketches")

    def _new(self) -> Any:
        return self._library.hll_sketch(self._lg_k, self._library.HLL_4)

    def _update(self, sketch: Any, item: Any) -> bool:
        # Sketches that are only updated, never merged, grow their estimate with every change of a counter.
        before = sketch.get_estimate()
        sketch.update(item)
        return bool(sketch.get_estimate() != before)

    def estimate(self, key: Any) -> float:
        """The approximate number of different items; 0.0 for an unknown key."""
        sketch = self._store.get(key)
        return 0.0 if sketch is None else float(sketch.get_estimate())

    def bounds(self, key: Any, deviations: int = 2) -> tuple[float, float]:
        """The bounds of the number with the certainty of 1, 2 or 3 standard deviations (68, 95, 99.7 %)."""
        sketch = self._store.get(key)
        if sketch is None:
            return 0.0, 0.0
        return float(sketch.get_lower_bound(deviations)), float(sketch.get_upper_bound(deviations))

    def estimate_union(self, keys: Iterable[Any]) -> float:
        """The approximate number of different items under any of `keys`."""
        union = self._library.hll_union(self._lg_k)
        for sketch in self._store.get_all(keys).values():
            if sketch is not None:
                union.update(sketch)
        return float(union.get_estimate())

    def _checked(self, item: Any) -> Any:
        kind = type(item)
        try:
            if kind is str and (item.isascii() or item.encode()):
                return item or EMPTY_TEXT
        except UnicodeEncodeError as cause:
            raise StoreRefused(f"store '{self._name}': item {item!r:.100} cannot be counted: {cause}") from cause
        if kind is float or (kind is int and _SMALLEST <= item <= _LARGEST):
            return item
        raise self._refused("a distinct count takes str, int of 64 bits and float", item)


class HyperLogLogSerde(DataSketchSerde):
    """Serializes without the compact form, which changes its bytes when it is read and written again."""

    kind, text, write = "hll_sketch", "HyperLogLog", "serialize_updatable"


class DistinctCountsFactory(SketchesFactory):
    """Makes DistinctCounts. `hyperloglog.lg.k` applies to new sketches; others stay unchanged."""

    engine = "hyperloglog"
    package = "datasketches"
    keys = HyperLogLogKeys
    serde = HyperLogLogSerde
    sketches = DistinctCounts


class Quantiles(_Sketches):
    """The distribution of the numbers of each key.

    1. The rank error of an answer is at most the sketch's error (1.33 % for `quantiles.k=200`), with a certainty of 99
       %.
    2. Up to `k` numbers are all kept, and answers are exact. Beyond that numbers are sampled at random, so two sketches
       of the same numbers may differ within the error. A restored sketch is the committed one.
    """

    def __init__(self, store: KeyValueStore[Any, Any], name: str, k: int) -> None:
        super().__init__(store, name)
        self._k = k
        self._library: Any = library("datasketches")

    def _new(self) -> Any:
        return self._library.kll_doubles_sketch(self._k)

    def _update(self, sketch: Any, item: Any) -> bool:
        sketch.update(item)
        return True

    def _checked(self, item: Any) -> float:
        if type(item) not in {int, float} or item != item:  # noqa: PLR0124
            raise self._refused("a quantile sketch takes int and float", item)
        try:
            return float(item)
        except OverflowError as cause:
            raise StoreRefused(f"store '{self._name}': {cause}") from cause

    def quantile(self, key: Any, fraction: float) -> float | None:
        """The number that a `fraction` (0 to 1) of all numbers is at most; None for an unknown key."""
        numbers = self.quantiles(key, (fraction,))
        return None if numbers is None else numbers[0]

    def quantiles(self, key: Any, fractions: Sequence[float]) -> list[float] | None:
        """Like `quantile`, for several fractions."""
        if not all(0.0 <= fraction <= 1.0 for fraction in fractions):
            raise self._refused("a fraction is from 0 to 1", fractions)
        sketch = self._store.get(key)
        return None if sketch is None else [float(sketch.get_quantile(fraction, True)) for fraction in fractions]

    def rank(self, key: Any, number: float) -> float | None:
        """The fraction of the numbers that are at most `number`; None for an unknown key."""
        sketch = self._store.get(key)
        return None if sketch is None else float(sketch.get_rank(number, True))

    def count(self, key: Any) -> int:
        """The exact number of added numbers."""
        sketch = self._store.get(key)
        return 0 if sketch is None else int(sketch.n)

    def extremes(self, key: Any) -> tuple[float, float] | None:
        """The smallest and the largest number, exactly; None for an unknown key."""
        sketch = self._store.get(key)
        return None if sketch is None else (float(sketch.get_min_value()), float(sketch.get_max_value()))


class KllSerde(DataSketchSerde):
    """Sketches of quantiles."""

    kind, text, write = "kll_doubles_sketch", "KLL", "serialize"


class QuantilesFactory(SketchesFactory):
    """Makes Quantiles. `quantiles.k` applies to new sketches; others stay unchanged."""

    engine = "quantiles"
    package = "datasketches"
    keys = QuantilesKeys
    serde = KllSerde
    sketches = Quantiles
