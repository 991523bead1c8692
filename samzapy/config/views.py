"""The keys of the engines with a query interface of their own, below `stores.NAME.`; each engine checks its own."""

from __future__ import annotations

from typing import Any

from samzapy.config.classes import ENGINES
from samzapy.config.keys import Key, collect
from samzapy.config.kinds import TEXT, Kind, choice, class_path, integer, split_list


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise ValueError("a number between 0 and 1")
    return value


def _names(text: str) -> tuple[str, ...]:
    names = tuple(split_list(text))
    if len(set(names)) != len(names):
        raise ValueError("different names, separated by commas")
    return names


_NAMES = Kind("names, separated by commas", _names)

HEAP_SIZE = Key(
    "stores.{store}.heap.size",
    integer(0, 2**31 - 1),
    0,
    "Items a heap keeps, in each group; one more drops the worst. 0: no limit.",
)
HEAP_ORDER = Key(
    "stores.{store}.heap.order",
    choice("highest", "lowest"),
    "highest",
    "Which score is the best: the one that `pop` and `top` give first and a bounded heap keeps.",
)
HEAP_BLOCK_SIZE = Key(
    "stores.{store}.heap.block.size",
    integer(2, 65_536),
    64,
    "Items of a heap that are one entry of its store, and so one changelog record, at most. Groups of more than a million "
    "items want larger ones: the list of a group's blocks is one entry as well.",
)
BLOOM_CAPACITY = Key(
    "stores.{store}.bloom.capacity",
    integer(1, 2**31 - 1),
    10_000,
    "Items a new filter takes before its error rate is exceeded. It has about 1.2 bytes an item at a rate of 0.01, and is "
    "one changelog record: a large one needs a larger stores.X.changelog.max.message.bytes.",
)
BLOOM_ERROR_RATE = Key(
    "stores.{store}.bloom.error.rate",
    Kind("a number between 0 and 1", _fraction),
    0.01,
    "Share of the items never added that a full filter takes for added ones.",
)
HYPERLOGLOG_LG_K = Key(
    "stores.{store}.hyperloglog.lg.k",
    integer(7, 21),
    12,
    "A new sketch has 2^lg.k counters of half a byte; its relative error is about 1.04 / sqrt(2^lg.k): 1.6 % for 12.",
)
QUANTILES_K = Key(
    "stores.{store}.quantiles.k",
    integer(8, 65_535),
    200,
    "Size of a new sketch: its ranks are off by 1.33 % for 200, by about half for twice the size.",
)
INDEX_TOKENIZER = Key(
    "stores.{store}.index.tokenizer",
    class_path(lambda _: None, tuple, "my.module:MyTokenizer"),
    None,
    "The Tokenizer class that makes terms of a text.",
    "words in lower case",
)
CUBE_DIMENSIONS = Key("stores.{store}.cube.dimensions", _NAMES, (), "The dimensions of the facts.", "required by cube")
CUBE_MEASURES = Key("stores.{store}.cube.measures", _NAMES, (), "The measures that are aggregated; facts are counted.")
CUBE_ROLLUPS = Key(
    "stores.{store}.cube.rollups",
    TEXT,
    None,
    "The combinations of dimensions that are kept: `carrier; carrier, origin; origin, month`.",
    "all dimensions together",
)
KEYS = collect(globals())

_ENGINES = {
    "heap": "heap",
    "bloom": "bloom",
    "hyperloglog": "hyperloglog",
    "quantiles": "quantiles",
    "index": "inverted-index",
    "cube": "cube",
}


def is_of_another_engine(key: Key[Any], factory: str) -> bool:
    """Whether `key` is one of these and means nothing to a store with this engine."""
    return key in KEYS and ENGINES.short[_ENGINES[key.name.split(".")[2]]] != factory
