"""Engines with a query interface, each a view over the key-value store.

engine          a view factory and the storage engine below it, as one engine
entry_keys      names as ordered bytes
heap            top-N and bounded sort
heap_group      a group of a bounded heap in memory, for a batch of pushes
sorted_blocks   the items of one group of a heap, in order
sketches        Bloom filters, distinct counts, quantiles; the only importer of the sketch libraries
inverted_index  text search
cube            roll-ups over dimensions
timers          timers by key, in order of time
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
