"""The parts of the checks that find values which a writer would change to make them fit, for every kind of schema.

A check is made once for a schema. It runs for each value, so a value of a type that always fits costs no call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from samzapy.errors import SerdeError

#: Raises Misfit.
Look = Callable[[Any], None]

#: Greater numbers become infinite in 32 bits.
LARGEST_FLOAT = (2 - 2**-24) * 2.0**127


class Misfit(Exception):
    """A value that does not fit; `path` leads to it, the last step first."""

    def __init__(self, expected: str, value: object) -> None:
        super().__init__(f"expected {expected}, got {type(value).__name__} {value!r:.100}")
        self.path: list[str] = []


class Check(NamedTuple):
    """The types with values that always fit, and the look at a value of another type; None if the writer changes
    none."""

    fits: frozenset[type]
    look: Look | None


UNCHECKED = Check(frozenset(), None)


def checked(serde: str, check: Check) -> Callable[[Any], None] | None:
    """The function that raises SerdeError, with the path of the place, for a value that does not fit; None if the
    writer changes none. The error names `serde`."""
    fits, look = check
    if look is None:
        return None

    def of_value(value: Any) -> None:
        if type(value) in fits:
            return
        try:
            look(value)
        except Misfit as found:
            raise SerdeError(f"{serde} serde: ${''.join(reversed(found.path))}: {found}") from None

    return of_value


def look_at_all(parts: Iterable[tuple[Any, Any]], fits: frozenset[type], each: Look) -> None:
    """Look at the values of a collection, each given after its place."""
    for place, held in parts:
        if type(held) not in fits:
            try:
                each(held)
            except Misfit as found:
                found.path.append(f"[{place!r}]")
                raise


def as_float(value: Any) -> float:
    """The number in 64 bits, rounded; infinite if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def is_bool_of_numpy(value: Any) -> bool:
    """Whether the value is a bool of numpy, not an array of them."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return bool(kind == "b") and value.shape == ()
