"""What a cube keeps: dimensions, measures, and the combinations of dimensions it is rolled up to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from samzapy.api.engine import EngineSettings
from samzapy.config.stores import engines
from samzapy.storage.views.entry_keys import is_name
from samzapy.storage.views.properties import leaf, problems_of, value_of

_KEYS = (engines.CUBE_DIMENSIONS, engines.CUBE_MEASURES, engines.CUBE_ROLLUPS)


@dataclass(frozen=True)
class CubeDesign:
    """`rollups` are combinations of `dimensions`, each in the order in which its cells are sorted."""

    dimensions: tuple[str, ...]
    measures: tuple[str, ...]
    rollups: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, settings: EngineSettings) -> CubeDesign:
        """As the job file says; without `cube.rollups` one of all dimensions."""
        dimensions = value_of(settings, engines.CUBE_DIMENSIONS)
        text = value_of(settings, engines.CUBE_ROLLUPS)
        return cls(dimensions, value_of(settings, engines.CUBE_MEASURES), _rollups(text) if text else (dimensions,))

    def described(self) -> dict[str, Any]:
        """As it is kept in the store: a cube that was kept otherwise cannot be continued."""
        return {"measures": list(self.measures), "rollups": sorted(map(list, self.rollups))}

    def covering(self, wanted: Collection[str], fixed: Collection[str]) -> tuple[str, ...] | None:
        """The roll-up that answers a question about the dimensions `wanted`, `fixed` ones among them, with the fewest
        cells: no other dimensions if possible, and fixed ones in front. None if there is none."""
        able = [rollup for rollup in self.rollups if set(wanted) <= set(rollup)]
        return min(able, key=lambda rollup: (len(rollup), -leading(rollup, fixed)), default=None)


def leading(rollup: Sequence[str], fixed: Collection[str]) -> int:
    """How many of the roll-up's first dimensions are fixed."""
    for place, dimension in enumerate(rollup):
        if dimension not in fixed:
            return place
    return len(rollup)


def problems(settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
    """What is wrong with `cube.*`: (key below the store, value, what is allowed)."""
    wrong: list[tuple[str, str | None, str]] = list(problems_of(settings, _KEYS))
    return wrong or list(_contradictions(settings))


def _contradictions(settings: EngineSettings) -> Iterator[tuple[str, str | None, str]]:
    design = CubeDesign.of(settings)
    place, text = leaf(engines.CUBE_ROLLUPS), settings.properties.get(leaf(engines.CUBE_ROLLUPS))
    if not design.dimensions:
        yield leaf(engines.CUBE_DIMENSIONS), None, "required, e.g. carrier, origin, month"
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
