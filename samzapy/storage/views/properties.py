"""The keys below `stores.NAME.` that a view reads, parsed as their `Key`s say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from samzapy.api.engine import EngineSettings
from samzapy.config.reading.keys import Key

T = TypeVar("T")
_PREFIX = "stores.{store}."


def value_of(settings: EngineSettings, key: Key[T]) -> T:
    """The value of `key`, its default if the job file has none. Raises ValueError, which `problems_of` tells first."""
    text = settings.properties.get(leaf(key))
    return key.default if text is None else key.kind.parse(text.strip())


def problems_of(settings: EngineSettings, keys: Iterable[Key[Any]]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the values of `keys`: (key below the store, value, what is allowed)."""
    for key in keys:
        try:
            value_of(settings, key)
        except ValueError as cause:
            yield leaf(key), settings.properties[leaf(key)], f"expected {cause}"


def leaf(key: Key[Any]) -> str:
    """The key below the store."""
    return key.name.removeprefix(_PREFIX)
