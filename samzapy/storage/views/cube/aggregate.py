"""What is known of some facts, in a form that more facts, and other aggregates, can be added to.

In the store an aggregate is `[facts, measure...]`, a measure `[values, sum, smallest, largest]`, or None without a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: A measure's value; None where a fact has none.
Number = int | float | None

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


@dataclass(frozen=True)
class Measure:
    """The values of one measure: how many, their sum, the smallest and the largest (None of no values)."""

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
    """`count` facts, and what they measured."""

    count: int
    measures: Mapping[str, Measure]


def is_number(value: object) -> bool:
    """Whether `value` can be a measure's: an int of 64 bits, or a float that is not NaN."""
    if type(value) is int:
        return _SMALLEST <= value <= _LARGEST
    return type(value) is float and value == value  # noqa: PLR0124


def with_fact(held: Sequence[Any] | None, values: Sequence[Number]) -> list[Any]:
    """The stored aggregate with one more fact."""
    if held is None:
        return [1, *(None if value is None else [1, value, value, value] for value in values)]
    parts = zip(held[1:], values, strict=True)
    return [held[0] + 1, *(_added(part, None if value is None else [1, value, value, value]) for part, value in parts)]


def merged(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """The stored aggregate of the facts of both."""
    return [one[0] + other[0], *(_added(a, b) for a, b in zip(one[1:], other[1:], strict=True))]


def _added(one: list[Any] | None, other: list[Any] | None) -> list[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    total = one[1] + other[1]
    if type(total) is int and not _SMALLEST <= total <= _LARGEST:
        total = float(total)
    return [one[0] + other[0], total, min(one[2], other[2]), max(one[3], other[3])]


def opened(held: Sequence[Any], measures: Sequence[str]) -> Aggregate:
    """The stored aggregate for people."""
    parts = (Measure(0, 0, None, None) if part is None else Measure(*part) for part in held[1:])
    return Aggregate(held[0], dict(zip(measures, parts, strict=True)))
