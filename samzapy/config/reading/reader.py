"""Reads typed values from a flat configuration, and collects problems instead of stopping at the first."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

from samzapy.config.reading.keys import Key, duration_hint, in_ms, keys_by_field
from samzapy.config.reading.secrets import MASK, Masked, is_secret, without_password
from samzapy.errors import ConfigProblem

T = TypeVar("T")
S = TypeVar("S")
_NOTHING: Mapping[str, str] = {}


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """`; did you mean X?` with the nearest of `known`, or an empty text if none is near."""
    near = difflib.get_close_matches(text, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


class Reader:
    """The values of one configuration.

    `get` notes a problem and returns the default if a text is bad, so one pass finds every problem. `secret` are the
    keys to hide in messages, `broken` the keys with a reference that could not be resolved. Values of keys that end in
    `.ms` may be durations such as 3s; `values` has them in milliseconds.
    """

    def __init__(
        self,
        values: Mapping[str, str],
        secret: frozenset[str] = frozenset(),
        broken: frozenset[str] = frozenset(),
    ) -> None:
        self.values: Mapping[str, str] = {key: in_ms(key, value) for key, value in values.items()}
        self._sorted = sorted(self.values)
        self._order = {key: number for number, key in enumerate(self.values)}
        self.problems: list[ConfigProblem] = []
        self.warnings: list[str] = []
        self.secret, self._broken = secret, broken

    def read(self, section: type[S], names: Mapping[str, str] = _NOTHING, **computed: Any) -> S:
        """An instance of the dataclass `section`: the fields in `computed`, and the values of the keys of the others.

        `names` fill the placeholders of the keys. Notes a problem for each bad value and each absent required key.
        """
        keys = keys_by_field(section).items()
        return section(**{field: self._read(key, names) for field, key in keys if field not in computed}, **computed)

    def value(self, section: type, field: str, **names: str) -> Any:
        """The value of one field of a dataclass with keys."""
        return self._read(keys_by_field(section)[field], names)

    def place(self, section: type, field: str, **names: str) -> str:
        """The key in the file that has the value of the field, or an alternative; the key itself if there is none."""
        return self._find(keys_by_field(section)[field], names)

    def is_set(self, name: str) -> bool:
        """Whether the file sets the key `name`, even if its value could not be resolved."""
        return name in self.values or name in self._broken

    def missing(self, name: str, example: str, when: str = "") -> None:
        """Note that `name` has no value, unless a problem of it is known. `when`: in which case the key is required."""
        if name not in self._broken and all(problem.key != name for problem in self.problems):
            self.problem(name, f"required{when and ' '}{when}, e.g. {example}")

    def below(self, prefix: str) -> Masked:
        """All pairs below `prefix`, by the keys without it, in the order of the file."""
        cut = len(prefix)
        # A job may have thousands of streams, and each asks for its keys.
        places = range(bisect_left(self._sorted, prefix), len(self._sorted))
        keys = takewhile(lambda key: key.startswith(prefix), map(self._sorted.__getitem__, places))
        result = {key[cut:]: self.values[key] for key in sorted(keys, key=self._order.__getitem__)}
        return Masked(result, frozenset(key[cut:] for key in self.secret if key.startswith(prefix)))

    def problem(self, key: str, message: str, value: str | None = None) -> None:
        """Note a problem; a secret value is hidden."""
        shown = value if value is None else MASK if self.is_secret(key) else without_password(value)
        result = ConfigProblem(key, shown, message)
        if result not in self.problems:
            self.problems.append(result)

    def warn(self, message: str) -> None:
        """Note something odd that does not stop the job."""
        if message not in self.warnings:
            self.warnings.append(message)

    def is_secret(self, key: str) -> bool:
        """Whether the value of `key` must not be shown."""
        return key in self.secret or is_secret(key)

    def _read(self, key: Key[Any], names: Mapping[str, str]) -> Any:
        if key.name.endswith(".*"):
            return self.below(key.at(**names).removesuffix("*"))
        name = self._find(key, names)
        value, text = key.default, self.values.get(name)
        if text is not None:
            try:
                value = key.parse(text)
            except ValueError as cause:
                self.problem(name, f"expected {cause}{duration_hint(name, text)}", text)
        if key.example is not None and not value:
            self.missing(name, key.example)
        return value

    def _find(self, key: Key[Any], names: Mapping[str, str]) -> str:
        places = key.places(**names)
        return next(filter(self.is_set, places), places[0])
