"""The cube that a task sees.

cell    c <roll-up's dimensions> <value> ...   the aggregate of the facts with these values
design  d                                      measures and roll-ups, as they were when the first fact came
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore
from samzapy.errors import ConfigError, ConfigProblem, StoreRefused
from samzapy.storage.views.cube.aggregate import Aggregate, Number, is_number, merged, opened, with_fact
from samzapy.storage.views.cube.design import CubeDesign, leading
from samzapy.storage.views.cube.values import Value, from_name, rank, to_name
from samzapy.storage.views.entry_keys import key, names

_DESIGN = b"d"


class Cell(NamedTuple):
    """The facts with these values of some dimensions."""

    dimensions: dict[str, Value]
    aggregate: Aggregate


class CubeStore:
    """Counts facts and sums up their measures by the values of their dimensions, in every roll-up of the job file.

    The value of a dimension is a str, an int, a bool or None. A question about dimensions that no roll-up has exactly is
    answered from a finer one; one that no roll-up covers raises StoreRefused. Facts are only added: their maximum could
    not be taken back.
    """

    __slots__ = ("_design", "_name", "_store")

    def __init__(self, store: KeyValueStore[bytes, Any], name: str, design: CubeDesign) -> None:
        """Raises ConfigError if the store's facts were rolled up otherwise."""
        self._store = store
        self._name = name
        self._design = design
        known = store.get(_DESIGN)
        if known is not None and known != design.described():
            message = f"the store holds facts with {known}; to start anew, name another changelog"
            raise ConfigError([ConfigProblem(f"stores.{name}.cube.rollups", str(design.described()), message)])

    def add(self, dimensions: Mapping[str, Value], measures: Mapping[str, Number] | None = None) -> None:
        """Add a fact: a value for every dimension, and what was measured (a measure may be left out, or None).

        Raises StoreRefused, and adds nothing, for a missing or unknown dimension, an unknown measure, or a value that
        is none.
        """
        design, store = self._design, self._store
        if len(dimensions) != len(design.dimensions) or not all(name in dimensions for name in design.dimensions):
            wanted = ", ".join(design.dimensions)
            raise StoreRefused(f"store '{self._name}': a fact has the dimensions {wanted}, got {dimensions!r:.200}")
        named = {name: to_name(value, self._name) for name, value in dimensions.items()}
        values = self._values(measures or {})
        if store.get(_DESIGN) is None:
            store.put(_DESIGN, design.described())
        for rollup in design.rollups:
            place = key(b"c", ",".join(rollup), *[named[dimension] for dimension in rollup])
            store.put(place, with_fact(store.get(place), values))

    def cell(self, dimensions: Mapping[str, Value]) -> Aggregate | None:
        """The facts with these values of these dimensions, whatever the others; None if there are none."""
        found = self.slice(dimensions, ())
        return found[0].aggregate if found else None

    def slice(self, where: Mapping[str, Value], by: Sequence[str]) -> list[Cell]:
        """The facts with the values `where`, one cell for each combination of values of the dimensions `by`, in order."""
        # By names, not values: 1 == True.
        groups: dict[tuple[str, ...], Sequence[Any]] = {}
        for found, held in self._cells(where, by):
            group = tuple([found[dimension] for dimension in by])
            known = groups.get(group)
            groups[group] = held if known is None else merged(known, held)
        entries = [([from_name(name) for name in group], held) for group, held in groups.items()]
        entries.sort(key=lambda entry: [rank(value) for value in entry[0]])
        measures = self._design.measures
        return [
            Cell({**where, **dict(zip(by, values, strict=True))}, opened(held, measures)) for values, held in entries
        ]

    def roll_up(self, *by: str) -> list[Cell]:
        """All facts, by these dimensions; without any, one cell of everything."""
        return self.slice({}, by)

    def drill(self, cell: Cell, dimension: str) -> list[Cell]:
        """What a cell is made of, by one more dimension."""
        return self.slice(cell.dimensions, (dimension,))

    def _cells(
        self, where: Mapping[str, Value], by: Sequence[str]
    ) -> Iterator[tuple[Mapping[str, str], Sequence[Any]]]:
        """The stored cells that answer a question, each with the names of the values of its roll-up's dimensions."""
        rollup = self._design.covering({*where, *by}, where.keys())
        if rollup is None:
            kept = "; ".join(", ".join(each) for each in self._design.rollups)
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
                found = dict(zip(rollup, names(data)[1:], strict=True))
                if all(found[dimension] == name for dimension, name in named.items()):
                    yield found, held

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
