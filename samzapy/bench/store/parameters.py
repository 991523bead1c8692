"""The numbers of one set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from samzapy.config.reading.reader import did_you_mean
from samzapy.errors import ConfigError, ConfigProblem

N = TypeVar("N", int, float)


class Parameters:
    """`prefix`PARAM of a file. Reading one fills in its default, and the counts (`count=True`) are multiplied by
    `scale`. After everything was read, `check` refuses what is left: a slip would otherwise measure the default."""

    def __init__(self, prefix: str, given: Mapping[str, str], scale: float = 1.0) -> None:
        self._prefix = prefix
        self._given = dict(given)
        self._scale = scale
        #: What was read, defaults included.
        self.values: dict[str, int | float] = {}

    def integer(self, name: str, default: int, *, count: bool = False, least: int = 1) -> int:
        """A whole number. Raises ConfigError."""
        value = self._read(name, default, int, f"integer >= {least}", least)
        if count:
            value = max(least, int(value * self._scale))
            self.values[name] = value
        return value

    def number(self, name: str, default: float) -> float:
        """A number >= 0. Raises ConfigError."""
        return self._read(name, default, float, "number >= 0", 0.0)

    def check(self) -> None:
        """Raise ConfigError for every parameter that nothing has read."""
        unknown = sorted(set(self._given) - set(self.values))
        if unknown:
            known = list(self.values)
            raise ConfigError(
                ConfigProblem(
                    f"{self._prefix}{name}", self._given[name], f"unknown parameter{did_you_mean(name, known)}"
                )
                for name in unknown
            )

    def _read(self, name: str, default: N, kind: Callable[[str], N], allowed: str, least: N) -> N:
        value = default
        text = self._given.get(name)
        if text is not None:
            try:
                value = kind(text)
            except ValueError:
                value = least - 1
            if not value >= least:
                raise ConfigError([ConfigProblem(f"{self._prefix}{name}", text, allowed)])
        self.values[name] = value
        return value
