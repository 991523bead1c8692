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
from samzapy.storage.views.entries import check_lengths

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


class SketchSerde(Serde):
    """The bytes of a sketch. A sketch that is read and written again without a change has the same bytes."""

    @abstractmethod
    def to_bytes(self, value: Any) -> bytes:
        """The sketch's bytes."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """The sketch. Raises SerdeError or ValueError for other bytes."""


class DataSketchSerde(SketchSerde):
    """The sketch as Apache DataSketches writes it in every language."""

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


class SketchesFactory(StoreViewFactory):
    """Keys are the job's (`key.serde`, string by default), values are sketches."""

    engine: ClassVar[str]
    package: ClassVar[str]
    keys: ClassVar[type]
    serde: ClassVar[type[SketchSerde]]
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


class BloomFilters:
    """A Bloom filter of str and bytes items for each key.

    An added item is always found. Another one is found by mistake, with about the error rate when the filter is full. A
    filter has its full size from its first item on.
    """

    __slots__ = ("_capacity", "_error_rate", "_name", "_new", "_store")

    def __init__(self, store: KeyValueStore[Any, Any], name: str, capacity: int, error_rate: float) -> None:
        self._store = store
        self._name = name
        self._capacity = capacity
        self._error_rate = error_rate
        self._new: Any = library("rbloom").Bloom

    def add(self, key: Any, item: str | bytes) -> bool:
        """Add the item; returns whether it was certainly new. An item that seems to be present changes nothing."""
        data = self._bytes(item)
        found = self._store.get(key)
        if found is None:
            found = self._new(self._capacity, self._error_rate, _hash)
        elif data in found:
            return False
        found.add(data)
        self._store.put(key, found)
        return True

    def add_all(self, key: Any, items: Iterable[str | bytes]) -> int:
        """Add many; returns the number of certainly new ones."""
        return sum([self.add(key, item) for item in items])

    def add_each(self, keys: Sequence[Any], items: Sequence[str | bytes]) -> None:
        """Add an item to the filter of the key beside it. Each filter is read once and written once."""
        added = list(map(self._bytes, items))
        check_lengths(keys, added)
        found = self._store.get_all(keys)
        changed = {}
        for key, data in zip(keys, added, strict=True):
            bloom = found[key]
            if bloom is None:
                bloom = found[key] = self._new(self._capacity, self._error_rate, _hash)
            elif data in bloom:
                continue
            bloom.add(data)
            changed[key] = bloom
        self._store.put_all(changed)

    def might_contain(self, key: Any, item: str | bytes) -> bool:
        """False: it was never added. True: it was, or this is a false positive."""
        data = self._bytes(item)
        found = self._store.get(key)
        return found is not None and data in found

    def approximate_count(self, key: Any) -> float:
        """The approximate number of different items."""
        found = self._store.get(key)
        return 0.0 if found is None else float(found.approx_items)

    def delete(self, key: Any) -> None:
        """Forget the key's filter."""
        self._store.delete(key)

    def _bytes(self, item: str | bytes) -> bytes:
        if isinstance(item, str):
            return b"s" + item.encode("utf-8", "surrogatepass")
        if isinstance(item, bytes):
            return b"b" + item
        raise StoreRefused(f"store '{self._name}': a Bloom filter takes str and bytes, got {item!r:.100}")


def _hash(data: bytes) -> int:
    """A hash of 128 bits, the same in every process, as the signed number that rbloom takes."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big", signed=True)


class BloomSerde(SketchSerde):
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


class DistinctCounts:
    """A count of different items (str, int of 64 bits, float) for each key; 1 and "1" are different ones, and so are 1
    and 1.0."""

    __slots__ = ("_lg_k", "_library", "_name", "_store")

    def __init__(self, store: KeyValueStore[Any, Any], name: str, lg_k: int) -> None:
        self._store = store
        self._name = name
        self._lg_k = lg_k
        self._library: Any = library("datasketches")

    def add(self, key: Any, item: str | float) -> bool:
        """Count the item; returns whether the sketch changed. One that was counted before never changes it."""
        item = self._counted(item)
        sketch = self._store.get(key)
        if sketch is None:
            sketch = self._library.hll_sketch(self._lg_k, self._library.HLL_4)
        # Sketches that are only updated, never merged, grow their estimate with every change of a counter.
        before = sketch.get_estimate()
        sketch.update(item)
        if sketch.get_estimate() == before:
            return False
        self._store.put(key, sketch)
        return True

    def add_all(self, key: Any, items: Iterable[str | float]) -> None:
        """Count many."""
        for item in items:
            self.add(key, item)

    def add_each(self, keys: Sequence[Any], items: Sequence[str | float]) -> None:
        """Count an item under the key beside it. Each sketch is read once and written once; none if an item is
        refused."""
        counted = list(map(self._counted, items))
        check_lengths(keys, counted)
        found = self._store.get_all(keys)
        before = {key: -1.0 if sketch is None else sketch.get_estimate() for key, sketch in found.items()}
        for key, item in zip(keys, counted, strict=True):
            sketch = found[key]
            if sketch is None:
                sketch = found[key] = self._library.hll_sketch(self._lg_k, self._library.HLL_4)
            sketch.update(item)
        self._store.put_all(
            {key: each for key, each in found.items() if each is not None and each.get_estimate() != before[key]}
        )

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

    def _counted(self, item: Any) -> Any:
        """The item as the library takes it. Raises StoreRefused for one that it does not take."""
        kind = type(item)
        try:
            if kind is str and (item.isascii() or item.encode()):
                return item or EMPTY_TEXT
        except UnicodeEncodeError as cause:
            raise StoreRefused(f"store '{self._name}': item {item!r:.100} cannot be counted: {cause}") from cause
        if kind is float or (kind is int and _SMALLEST <= item <= _LARGEST):
            return item
        raise StoreRefused(
            f"store '{self._name}': a distinct count takes str, int of 64 bits and float, got {item!r:.100}"
        )

    def estimate_union(self, keys: Iterable[Any]) -> float:
        """The approximate number of different items under any of `keys`."""
        union = self._library.hll_union(self._lg_k)
        for sketch in self._store.get_all(keys).values():
            if sketch is not None:
                union.update(sketch)
        return float(union.get_estimate())

    def delete(self, key: Any) -> None:
        """Forget the key's sketch."""
        self._store.delete(key)


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


class Quantiles:
    """The distribution of the numbers of each key.

    1. The rank error of an answer is at most the sketch's error (1.33 % for `quantiles.k=200`), with a certainty of 99
       %.
    2. Up to `k` numbers are all kept, and answers are exact. Beyond that numbers are sampled at random, so two sketches
       of the same numbers may differ within the error. A restored sketch is the committed one.
    """

    __slots__ = ("_k", "_name", "_new", "_store")

    def __init__(self, store: KeyValueStore[Any, Any], name: str, k: int) -> None:
        self._store = store
        self._name = name
        self._k = k
        self._new: Any = library("datasketches").kll_doubles_sketch

    def add(self, key: Any, number: float) -> None:
        """Add a number, not NaN."""
        value = self._value(number)
        sketch = self._store.get(key)
        if sketch is None:
            sketch = self._new(self._k)
        sketch.update(value)
        self._store.put(key, sketch)

    def add_all(self, key: Any, numbers: Iterable[float]) -> None:
        """Add many."""
        for number in numbers:
            self.add(key, number)

    def add_each(self, keys: Sequence[Any], numbers: Sequence[float]) -> None:
        """Add a number to the sketch of the key beside it. Each sketch is read once and written once; none if a number
        is refused."""
        values = list(map(self._value, numbers))
        check_lengths(keys, values)
        found = self._store.get_all(keys)
        for key, value in zip(keys, values, strict=True):
            sketch = found[key]
            if sketch is None:
                sketch = found[key] = self._new(self._k)
            sketch.update(value)
        self._store.put_all(found)

    def _value(self, number: float) -> float:
        if type(number) not in {int, float} or number != number:  # noqa: PLR0124
            raise StoreRefused(f"store '{self._name}': a quantile sketch takes int and float, got {number!r:.100}")
        try:
            return float(number)
        except OverflowError as cause:
            raise StoreRefused(f"store '{self._name}': {cause}") from cause

    def quantile(self, key: Any, fraction: float) -> float | None:
        """The number that a `fraction` (0 to 1) of all numbers is at most; None for an unknown key."""
        found = self.quantiles(key, (fraction,))
        return None if found is None else found[0]

    def quantiles(self, key: Any, fractions: Sequence[float]) -> list[float] | None:
        """Like `quantile`, for several fractions."""
        if not all(0.0 <= fraction <= 1.0 for fraction in fractions):
            raise StoreRefused(f"store '{self._name}': a fraction is from 0 to 1, got {fractions!r:.100}")
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

    def delete(self, key: Any) -> None:
        """Forget the key's sketch."""
        self._store.delete(key)


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
