"""The cube store: counts facts and sums up their measures, over chosen dimensions.

cell    c <roll-up's dimensions> <value> ...   the aggregate of the facts with these values
design  d                                      the measures and roll-ups at the first fact

An aggregate is `[facts, measure...]`, a measure `[values, sum, smallest, largest]`, or None without a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores.engines import CubeKeys, read_engine
from samzapy.errors import ConfigError, StoreRefused
from samzapy.storage.views import check_lengths, is_name, key, names

#: A measure's value; None where a fact has none.
Number = int | float | None

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1

_DESIGN = b"d"

#: Values of a type that have their part of a key at hand; then all are forgotten.
_REMEMBERED = 10_000

Value = str | int | bool | None


def to_name(value: Value, store: str) -> str:
    """The value behind a letter for its type. Raises StoreRefused for anything but a value."""
    if value is None:
        return "n"
    if type(value) is bool:
        return f"b{int(value)}"
    if type(value) is int and value.bit_length() < 256:
        return f"i{value}"
    if type(value) is str and is_name(value):
        return "s" + value
    raise StoreRefused(
        f"store '{store}': the value of a dimension is a str without a zero character, an int, a bool or None, "
        f"got {value!r:.100}"
    )


def from_name(name: str) -> Value:
    """The value that `to_name` was given."""
    kind, text = name[0], name[1:]
    if kind == "n":
        return None
    if kind == "b":
        return text == "1"
    return int(text) if kind == "i" else text


def rank(value: Value) -> tuple[int, int | str]:
    """The sort key of a value: None, false, true, numbers, texts."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    return (2, value) if isinstance(value, int) else (3, value)


@dataclass(frozen=True)
class Measure:
    """The values of one measure: their number, sum, minimum and maximum (None without values)."""

    count: int
    sum: float
    min: float | None
    max: float | None

    @property
    def mean(self) -> float | None:
        """The mean, None of no values."""
        return self.sum / self.count if self.count else None


@dataclass(frozen=True)
class Aggregate:
    """`count` facts and their measures."""

    count: int
    measures: Mapping[str, Measure]


def is_number(value: object) -> bool:
    """Whether `value` can be a measure's: an int of 64 bits, or a float that is not NaN."""
    if type(value) is int:
        return _SMALLEST <= value <= _LARGEST
    return type(value) is float and value == value  # noqa: PLR0124


def fact_of(values: Sequence[Number]) -> list[Any]:
    """The stored aggregate of one fact."""
    return [1, *[None if value is None else [1, value, value, value] for value in values]]


def merged(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """The stored aggregate of the facts of both."""
    return [one[0] + other[0], *map(_added, one[1:], other[1:])]


def _added(one: list[Any] | None, other: list[Any] | None) -> list[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    total = one[1] + other[1]
    if type(total) is int and not _SMALLEST <= total <= _LARGEST:
        total = float(total)
    return [one[0] + other[0], total, min(one[2], other[2]), max(one[3], other[3])]


def opened(held: Sequence[Any], measures: Sequence[str]) -> Aggregate:
    """The stored aggregate as an `Aggregate`."""
    parts = (Measure(0, 0, None, None) if part is None else Measure(*part) for part in held[1:])
    return Aggregate(held[0], dict(zip(measures, parts, strict=True)))


@dataclass(frozen=True)
class CubeDesign:
    """`rollups` are combinations of `dimensions`, each in the order of its cells."""

    dimensions: tuple[str, ...]
    measures: tuple[str, ...]
    rollups: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, settings: EngineSettings) -> CubeDesign:
        """Read the design from the settings; without `cube.rollups` one roll-up of all dimensions."""
        keys, _ = read_engine(CubeKeys, settings)
        return cls(keys.dimensions, keys.measures, _rollups(keys.rollups) if keys.rollups else (keys.dimensions,))

    def described(self) -> dict[str, Any]:
        """The design as the store keeps it: a cube with another design cannot be continued."""
        return {"measures": list(self.measures), "rollups": sorted(map(list, self.rollups))}

    def covering(self, wanted: Collection[str], fixed: Collection[str]) -> tuple[str, ...] | None:
        """The roll-up that answers a query for the dimensions `wanted`, `fixed` ones among them, with the fewest cells:
        no other dimensions if possible, and fixed ones in front. None if there is none."""
        able = [rollup for rollup in self.rollups if set(wanted) <= set(rollup)]
        return min(able, key=lambda rollup: (len(rollup), -leading(rollup, fixed)), default=None)


def leading(rollup: Sequence[str], fixed: Collection[str]) -> int:
    """The number of the roll-up's first dimensions that are fixed."""
    for place, dimension in enumerate(rollup):
        if dimension not in fixed:
            return place
    return len(rollup)


def problems(settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
    """The problems of `cube.*`: (key below the store, value, allowed values)."""
    return read_engine(CubeKeys, settings)[1] or list(_contradictions(settings))


def _contradictions(settings: EngineSettings) -> Iterator[tuple[str, str | None, str]]:
    design = CubeDesign.of(settings)
    place, text = "cube.rollups", settings.properties.get("cube.rollups")
    if not design.dimensions:
        yield "cube.dimensions", None, "required, e.g. carrier, origin, month"
        return
    for rollup in design.rollups:
        unknown = [dimension for dimension in rollup if dimension not in design.dimensions]
        if unknown:
            yield place, text, f"{unknown[0]!r} is not among the dimensions {', '.join(design.dimensions)}"
        if len(set(rollup)) != len(rollup) or not all(map(is_name, rollup)):
            yield place, text, "a roll-up has different dimensions"
    if len(set(map(frozenset, design.rollups))) != len(design.rollups):
        yield place, text, "each combination of dimensions once"


def _rollups(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(name.strip() for name in part.split(",")) for part in text.split(";") if part.strip())


class Cell(NamedTuple):
    """The facts with these values of some dimensions."""

    dimensions: dict[str, Value]
    aggregate: Aggregate


class CubeStore:
    """Counts facts and sums up their measures by the values of their dimensions, in every roll-up of the job file.

    The value of a dimension is a str, an int, a bool or None. A query for dimensions that no roll-up has exactly is
    answered from a finer one; a query that no roll-up covers raises StoreRefused. Facts cannot be removed, since a
    maximum cannot be undone.
    """

    def __init__(self, store: KeyValueStore[bytes, Any], name: str, design: CubeDesign) -> None:
        """Raises ConfigError if the store has another design."""
        self._store = store
        self._name = name
        self._design = design
        self._dimensions = frozenset(design.dimensions)
        #: The prefix of each roll-up's cells, and its dimensions.
        self._rollups = [(key(b"c", ",".join(rollup)), rollup) for rollup in design.rollups]
        #: Values as parts of keys, by type: 1 == True.
        self._encoded: dict[type, dict[Value, bytes]] = {str: {}, int: {}, bool: {}, type(None): {}}
        known = store.get(_DESIGN)
        if known is not None and known != design.described():
            message = f"the store holds facts with {known}; to begin again, name another changelog"
            raise ConfigError.of(f"stores.{name}.cube.rollups", str(design.described()), message)

    def add(self, dimensions: Mapping[str, Value], measures: Mapping[str, Number] | None = None) -> None:
        """Add a fact: a value for every dimension, and its measures (one may be left out, or None).

        Raises StoreRefused, and adds nothing, for a missing or unknown dimension, an unknown measure, or a value that
        is none.
        """
        design, store = self._design, self._store
        if dimensions.keys() != self._dimensions:
            raise self._other_dimensions(dimensions)
        encoded = self._encoded
        try:
            parts = {name: encoded[type(value)][value] for name, value in dimensions.items()}
        except KeyError:
            parts = {name: self._encode(value) for name, value in dimensions.items()}
        fact = fact_of(self._values(measures or {}))
        get, put = store.get, store.put
        if get(_DESIGN) is None:
            put(_DESIGN, design.described())
        for prefix, rollup in self._rollups:
            place = prefix + b"".join([parts[dimension] for dimension in rollup])
            held = get(place)
            put(place, fact if held is None else merged(held, fact))

    def add_all(
        self, dimensions: Mapping[str, Sequence[Value]], measures: Mapping[str, Sequence[Number]] | None = None
    ) -> None:
        """Like `add` of facts in columns: the values of every dimension and of the measures. Each cell is read once and
        written once. Sums of floats may differ from `add`'s in the last digits.

        Raises as `add`, and adds nothing then; ValueError for columns of different lengths.
        """
        design, store, given = self._design, self._store, measures or {}
        if dimensions.keys() != self._dimensions:
            raise self._other_dimensions(dimensions)
        check_lengths(*dimensions.values(), *given.values())
        parts = {name: list(map(self._part, column)) for name, column in dimensions.items()}
        rows = zip(*given.values(), strict=True) if given else [()] * len(parts[design.dimensions[0]])
        facts = [fact_of(self._values(dict(zip(given, row, strict=True)))) for row in rows]
        cells: dict[bytes, list[Any]] = {}
        for prefix, rollup in self._rollups:
            places = map(prefix.__add__, map(b"".join, zip(*[parts[name] for name in rollup], strict=True)))
            for place, fact in zip(places, facts, strict=True):
                held = cells.get(place)
                cells[place] = fact if held is None else merged(held, fact)
        if not cells:
            return
        if store.get(_DESIGN) is None:
            store.put(_DESIGN, design.described())
        store.merge_all(cells, merged)

    def _other_dimensions(self, dimensions: Mapping[str, Any]) -> StoreRefused:
        known, given = ", ".join(self._design.dimensions), list(dimensions)
        return StoreRefused(f"store '{self._name}': a fact has the dimensions {known}, got {given!r:.200}")

    def _part(self, value: Value) -> bytes:
        try:
            return self._encoded[type(value)][value]
        except KeyError:
            return self._encode(value)

    def _encode(self, value: Value) -> bytes:
        part = key(b"", to_name(value, self._name))
        known = self._encoded[type(value)]
        if len(known) >= _REMEMBERED:
            known.clear()
        known[value] = part
        return part

    def cell(self, dimensions: Mapping[str, Value]) -> Aggregate | None:
        """The facts with these values of these dimensions and any values of the others; None if there are none."""
        result = self.slice(dimensions, ())
        return result[0].aggregate if result else None

    def slice(self, where: Mapping[str, Value], by: Sequence[str]) -> list[Cell]:
        """The facts with the values `where`, one cell for each combination of values of the dimensions `by`, in
        order."""
        # By names, not values: 1 == True.
        groups: dict[tuple[str, ...], Sequence[Any]] = {}
        for result, held in self._cells(where, by):
            group = tuple([result[dimension] for dimension in by])
            known = groups.get(group)
            groups[group] = held if known is None else merged(known, held)
        entries = [([from_name(name) for name in group], held) for group, held in groups.items()]
        entries.sort(key=lambda entry: [rank(value) for value in entry[0]])
        measures = self._design.measures
        return [
            Cell({**where, **dict(zip(by, values, strict=True))}, opened(held, measures)) for values, held in entries
        ]

    def roll_up(self, *by: str) -> list[Cell]:
        """All facts, by these dimensions; without any, one cell of all facts."""
        return self.slice({}, by)

    def drill(self, cell: Cell, dimension: str) -> list[Cell]:
        """The cells that make up a cell, by one more dimension."""
        return self.slice(cell.dimensions, (dimension,))

    def _cells(
        self, where: Mapping[str, Value], by: Sequence[str]
    ) -> Iterator[tuple[Mapping[str, str], Sequence[Any]]]:
        """The stored cells that answer a question, each with the names of the values of its roll-up's dimensions."""
        rollup = self._design.covering({*where, *by}, where.keys())
        if rollup is None:
            kept = "; ".join(", ".join(item) for item in self._design.rollups)
            wanted = ", ".join(dict.fromkeys([*where, *by]))
            raise StoreRefused(f"store '{self._name}': no roll-up has the dimensions {wanted}; kept are: {kept}")
        named = {dimension: to_name(value, self._name) for dimension, value in where.items()}
        front = rollup[: leading(rollup, named)]
        place = key(b"c", ",".join(rollup), *[named[dimension] for dimension in front])
        if len(front) == len(rollup):
            held = self._store.get(place)
            if held is not None:
                yield named, held
            return
        with self._store.prefix(place) as entries:
            for data, held in entries:
                result = dict(zip(rollup, names(data)[1:], strict=True))
                if all(result[dimension] == name for dimension, name in named.items()):
                    yield result, held

    def _values(self, measures: Mapping[str, Number]) -> list[Number]:
        known = self._design.measures
        for name, value in measures.items():
            if name not in known:
                raise StoreRefused(
                    f"store '{self._name}': no measure {name!r:.100}; known: {', '.join(known) or 'none'}"
                )
            if value is not None and not is_number(value):
                raise StoreRefused(
                    f"store '{self._name}': measure {name} is an int of 64 bits, a float or None, got {value!r:.100}"
                )
        return [measures.get(name) for name in known]


class CubeFactory(StoreViewFactory):
    """Makes a CubeStore."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> CubeStore:
        return CubeStore(store, settings.store, CubeDesign.of(settings))

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        return problems(settings)
