"""The material of a case: its parameters, and seeded keys and values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, TypeVar

import orjson

from samzapy.config.reading.reader import did_you_mean
from samzapy.errors import ConfigError, ConfigProblem

N = TypeVar("N", int, float)


class Parameters:
    """The keys `prefix`PARAM of a file.

    Reading a parameter fills in its default and multiplies counts (`count=True`) by `scale`. `check` comes after all
    reads and refuses the keys that are left: a misspelt key would otherwise measure the default.
    """

    def __init__(self, prefix: str, given: Mapping[str, str], scale: float = 1.0) -> None:
        self._prefix = prefix
        self._given = dict(given)
        self._scale = scale
        #: The parameters that were read, defaults included.
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


#: Different values; a put takes one after the other.
_POOL = 1_024


class Material:
    """Keys and values as a store with these serdes takes them. The same seed gives the same ones.

    Key serdes: string, bytes. Value serdes: bytes, string, json (an object with a counter and a text).
    """

    def __init__(self, key_serde: str, msg_serde: str, seed: int) -> None:
        for kind, serde, known in (("key", key_serde, ("string", "bytes")), ("msg", msg_serde, _MAKERS)):
            if serde not in known:
                raise ConfigError([ConfigProblem(f"{kind}.serde", serde, f"to measure, one of {', '.join(known)}")])
        self._key_serde = key_serde
        self._make = _MAKERS[msg_serde]
        self._seed = seed
        self.chance = random.Random(seed)

    def key(self, text: str) -> Any:
        """One key."""
        return text if self._key_serde == "string" else text.encode()

    def keys(self, count: int, *, shuffled: bool = False, kind: str = "k") -> list[Any]:
        """Distinct keys that begin with `kind`, in order or shuffled."""
        made = [self.key(f"{kind}{number:09d}") for number in range(count)]
        if shuffled:
            random.Random(self._seed + 1).shuffle(made)
        return made

    def absent(self, count: int) -> list[Any]:
        """Distinct keys, in order, that are not among `keys`. Each sorts right after one of them, because a store does
        not look into its tables for a key outside of its range."""
        return [self.key(f"k{number:09d}-") for number in range(count)]

    def drawn(self, keys: list[Any], count: int, exponent: float = 0.0) -> list[Any]:
        """`count` of the keys: the n-th has the weight 1 / n ** exponent (0: all alike)."""
        if not exponent:
            return self.chance.choices(keys, k=count)
        weights = list(accumulate(1.0 / rank**exponent for rank in range(1, len(keys) + 1)))
        return self.chance.choices(keys, cum_weights=weights, k=count)

    def value(self, size: int) -> Any:
        """A value that serializes to about `size` bytes."""
        return self._make(size, self.chance)

    def values(self, size: int, count: int) -> list[Any]:
        """`count` values out of a pool."""
        pool = [self.value(size) for _ in range(min(count, _POOL))]
        return [pool[number % len(pool)] for number in range(count)]


def _text(size: int, chance: random.Random) -> str:
    return chance.randbytes((size + 1) // 2).hex()[:size]


def _object(size: int, chance: random.Random) -> dict[str, Any]:
    made = {"count": chance.randrange(1_000_000), "text": ""}
    made["text"] = _text(max(0, size - len(orjson.dumps(made))), chance)
    return made


_MAKERS = {
    "bytes": lambda size, chance: chance.randbytes(size),
    "string": _text,
    "json": _object,
}
