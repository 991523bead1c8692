"""Engines with a query interface, each a view over the key-value store; and the keys of their entries.

heap            top-N and bounded sort
sketches        Bloom filters, distinct counts, quantiles; the only importer of the sketch libraries
inverted_index  text search
cube            roll-ups over dimensions
timers          timers by key, in order of time

In a key, names are ordered bytes behind a letter for the kind of entry. Each name is in UTF-8 and ends with a zero
byte, which no name may contain. So entries of one kind, and entries with the same first names, are neighbours, and a
key is the prefix of everything below it.
"""

from __future__ import annotations

from collections.abc import Sized
from importlib import import_module
from typing import TYPE_CHECKING, Any

from samzapy.errors import StoreRefused

if TYPE_CHECKING:
    from samzapy.storage.views.cube import Aggregate, Cell, CubeStore
    from samzapy.storage.views.heap import HeapItem, HeapStore
    from samzapy.storage.views.inverted_index import Hit, InvertedIndex, Tokenizer, WordTokenizer
    from samzapy.storage.views.sketches import BloomFilters, DistinctCounts, Quantiles
    from samzapy.storage.views.timers import Timer, TimerStore

__all__ = [
    "Aggregate",
    "BloomFilters",
    "Cell",
    "CubeStore",
    "DistinctCounts",
    "HeapItem",
    "HeapStore",
    "Hit",
    "InvertedIndex",
    "Quantiles",
    "Timer",
    "TimerStore",
    "Tokenizer",
    "WordTokenizer",
]

_HOMES = {
    "cube": ("Aggregate", "Cell", "CubeStore"),
    "heap": ("HeapItem", "HeapStore"),
    "inverted_index": ("Hit", "InvertedIndex", "Tokenizer", "WordTokenizer"),
    "sketches": ("BloomFilters", "DistinctCounts", "Quantiles"),
    "timers": ("Timer", "TimerStore"),
}


def __getattr__(name: str) -> Any:
    """Import the module of a name when it is used: every container needs timers, few need the rest."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


_END = "\0"


def key(kind: bytes, *names: str) -> bytes:
    """The key of these names. Raises StoreRefused for a name that is not a str or contains a zero character."""
    try:
        text = "".join([name + _END for name in names])
        if text.count(_END) == len(names):
            return kind + text.encode()
    except (TypeError, UnicodeEncodeError):
        pass
    wrong = next(name for name in names if not is_name(name))
    raise StoreRefused(f"expected a str without a zero character, got {wrong!r:.100}")


def names(data: bytes) -> list[str]:
    """The names of a key that was made by `key`, its kind one byte."""
    return data[1:].decode().split(_END)[:-1]


def is_name(name: object) -> bool:
    """Whether `name` can be part of a key."""
    if not isinstance(name, str) or _END in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_lengths(*columns: Sized) -> None:
    """Raise ValueError for columns of different lengths."""
    if len(lengths := set(map(len, columns))) > 1:
        raise ValueError(f"expected columns of one length, got {sorted(lengths)}")
