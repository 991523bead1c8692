"""What `get_all`, `put_all` and `delete_all` are given, as lists, with errors that name the store."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from samzapy.errors import StoreRefused

K = TypeVar("K")
V = TypeVar("V")
_TUPLE, _TWO = {tuple}, {2}


def key_list(store: str, keys: Iterable[K]) -> list[K]:
    """The keys. Raises StoreRefused for what cannot be iterated, such as None."""
    try:
        found = iter(keys)
    except TypeError as cause:
        raise StoreRefused(f"store '{store}': expected an iterable of keys, got {_shown(keys)}") from cause
    return list(found)


def entry_list(store: str, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> list[tuple[K, V]]:
    """The entries as pairs. Raises StoreRefused for what is neither a mapping nor pairs."""
    if isinstance(entries, Mapping):
        return list(entries.items())
    try:
        found = iter(entries)
    except TypeError as cause:
        raise StoreRefused(
            f"store '{store}': expected a mapping or (key, value) pairs, got {_shown(entries)}"
        ) from cause
    pairs = list(found)
    if set(map(type, pairs)) <= _TUPLE and set(map(len, pairs)) <= _TWO:
        return pairs
    try:
        return [(key, value) for key, value in pairs]
    except (TypeError, ValueError) as cause:
        bad = next(pair for pair in pairs if not _is_pair(pair))
        raise StoreRefused(f"store '{store}': expected (key, value) pairs, got {_shown(bad)} among them") from cause


def _is_pair(entry: object) -> bool:
    try:
        _, _ = entry  # type: ignore[misc]
    except (TypeError, ValueError):
        return False
    return True


def _shown(given: object) -> str:
    return "None" if given is None else f"{type(given).__name__} {reprlib.repr(given)}"
