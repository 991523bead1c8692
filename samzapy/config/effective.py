"""The keys in force in a job, each with its value and whether the file gave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from string import Formatter
from typing import Any, NamedTuple

from samzapy.config.job import JobConfig
from samzapy.config.keys import Key
from samzapy.config.secrets import Masked
from samzapy.config.views import is_of_another_engine


class Setting(NamedTuple):
    """One key in force; `given` is false for a default."""

    key: str
    value: str
    given: bool


def effective(config: JobConfig, keys: tuple[Key[Any], ...]) -> list[Setting]:
    """Every key of `keys` that applies to the job, then what else the file says. Secrets are hidden."""
    shown = Masked(config.resolved, getattr(config.resolved, "secret", frozenset())).shown()
    found: dict[str, Setting] = {}
    for key in keys:
        if key.name.endswith(".*"):
            continue
        for names in _names(config, key):
            name = key.at(**names)
            place = next((p for p in key.places(**names) if p in shown), None)
            value = key.default_text if place is None else shown[place]
            found[place or name] = Setting(place or name, value, place is not None)
    rest = [Setting(key, value, True) for key, value in shown.items() if key not in found]
    return [*found.values(), *rest]


def _names(config: JobConfig, key: Key[Any]) -> Iterator[Mapping[str, str]]:
    known: dict[str, list[str]] = {
        "system": sorted(config.systems),
        "stream": sorted(config.stream_ids),
        "store": sorted(name for name, s in config.stores.items() if not is_of_another_engine(key, s.factory)),
        "serde": [],
        "reporter": [reporter.name for reporter in config.metrics_reporters],
    }
    placeholders = [name for _, name, _, _ in Formatter().parse(key.name) if name]
    for values in product(*(known[name] for name in placeholders)):
        yield dict(zip(placeholders, values, strict=True))
