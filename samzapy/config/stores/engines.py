"""The keys of the storage engines, below `stores.NAME.`: names, defaults and meanings.

Each engine reads and checks its own keys. A view is an engine that offers another interface to the entries of a byte
engine.
"""

from __future__ import annotations

from typing import Any

from samzapy.config.reading.classes import ENGINES
from samzapy.config.reading.keys import TEXT, Key, Kind, choice, class_path, collect, integer, split_list


def _rocksdb_key(leaf: str, default: str, doc: str, *otherwise: str) -> Key[str | None]:
    return Key(f"stores.{{store}}.{leaf}", TEXT, None, doc, default, otherwise)


CACHE_SIZE = _rocksdb_key(
    "container.cache.size.bytes",
    "the store shares container.rocksdb.cache.bytes",
    "Bytes of a separate block cache for this store. The tasks of a container share it. 0: none.",
)
WRITE_BUFFER_SIZE = _rocksdb_key(
    "container.write.buffer.size.bytes",
    "33554432, within container.rocksdb.write.buffer.bytes",
    "Bytes of memtables, divided among the tasks of a container. A store with this key does not share the "
    "container's memtables.",
)
WAL_ENABLED = _rocksdb_key(
    "rocksdb.wal.enabled",
    "false",
    "Write-ahead log. With it a start after a kill reads nothing from the changelog, but RocksDB writes every "
    "commit twice.",
)
COMPRESSION = _rocksdb_key("rocksdb.compression", "snappy", "snappy, bzip2, zlib, lz4, lz4hc, zstd or none.")
BLOCK_SIZE = _rocksdb_key("rocksdb.block.size.bytes", "4096", "Bytes of a block.")
COMPACTION_STYLE = _rocksdb_key(
    "rocksdb.compaction.style",
    "universal",
    "universal, level or fifo, which drops the oldest entries beyond 1 GiB a task.",
)
NUM_WRITE_BUFFERS = _rocksdb_key("rocksdb.num.write.buffers", "3", "Memtables before writes wait.")
MAX_LOG_FILE_SIZE = _rocksdb_key("rocksdb.max.log.file.size.bytes", "67108864", "Bytes of RocksDB's own log file.")
KEEP_LOG_FILE_NUM = _rocksdb_key("rocksdb.keep.log.file.num", "2", "RocksDB's own log files kept.")
DELETE_OBSOLETE = _rocksdb_key(
    "rocksdb.delete.obsolete.files.period.micros", "21600000000", "Between clean-ups of files."
)
MAX_OPEN_FILES = _rocksdb_key("rocksdb.max.open.files", "-1", "Open files of one store; -1: all.")
MAX_FILE_OPENING_THREADS = _rocksdb_key(
    "rocksdb.max.file.opening.threads", "16", "Threads that open files at the start."
)
MAX_MANIFEST_FILE_SIZE = _rocksdb_key(
    "rocksdb.max.manifest.file.size",
    "1073741824",
    "Bytes of the manifest.",
    "stores-default.rocksdb.max.manifest.file.size.bytes",
)
MAX_BACKGROUND_JOBS = _rocksdb_key("rocksdb.max.background.jobs", "RocksDB's", "Flushes and compactions at a time.")
METRICS_LIST = _rocksdb_key("rocksdb.metrics.list", "-", "Further RocksDB properties to publish as gauges.")
COMPACTIONS = tuple(
    _rocksdb_key(f"rocksdb.compaction.{leaf}", "RocksDB's", doc)
    for leaf, doc in (
        ("num.levels", "Levels."),
        ("level0.file.num.compaction.trigger", "Files of level 0 that start a compaction."),
        ("target.file.size.base", "Bytes of a file of level 1."),
        ("target.file.size.multiplier", "Growth of files by level."),
        ("max.background.compactions", "Compactions at a time."),
        ("universal.max.size.amplification.percent", "Universal: extra space before everything is compacted."),
        ("universal.size.ratio", "Universal: percent by which neighbours may differ."),
        ("universal.min.merge.width", "Universal: fewest files merged."),
        ("universal.max.merge.width", "Universal: most files merged."),
        ("universal.compaction.stop.style", "Universal: when to stop taking files."),
    )
)
ROCKSDB_KEYS = (*collect(globals()), *COMPACTIONS)

SHARED_CACHE = Key(
    "container.rocksdb.cache.bytes",
    integer(0, 2**53),
    134_217_728,
    "Bytes of the block cache that the RocksDB stores of a container share. 0: none.",
)
SHARED_WRITE_BUFFERS = Key(
    "container.rocksdb.write.buffer.bytes",
    integer(65_536, 2**53),
    134_217_728,
    "Bytes of memtables of all RocksDB stores of a container. Beyond this size writes flush them.",
)
#: The memory that all stores of a container share.
SHARED_KEYS = (SHARED_CACHE, SHARED_WRITE_BUFFERS)


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
    "Number of items that a heap keeps in each group. A further item drops the worst. 0: no limit.",
)
HEAP_ORDER = Key(
    "stores.{store}.heap.order",
    choice("highest", "lowest"),
    "highest",
    "The best score. `pop` and `top` return it first, and a bounded heap keeps it.",
)
HEAP_BLOCK_SIZE = Key(
    "stores.{store}.heap.block.size",
    integer(2, 65_536),
    64,
    "Maximum number of items in one entry of the store, and so in one changelog record. Groups of more than a "
    "million items need larger blocks, because the list of a group's blocks is also one entry.",
)
BLOOM_CAPACITY = Key(
    "stores.{store}.bloom.capacity",
    integer(1, 2**31 - 1),
    10_000,
    "Number of items up to which a new filter keeps its error rate. A filter takes about 1.2 bytes per item at a "
    "rate of 0.01, and is one changelog record. A large filter needs a larger "
    "stores.X.changelog.max.message.bytes.",
)
BLOOM_ERROR_RATE = Key(
    "stores.{store}.bloom.error.rate",
    Kind("a number between 0 and 1", _fraction),
    0.01,
    "Share of absent items that a full filter reports as present.",
)
HYPERLOGLOG_LG_K = Key(
    "stores.{store}.hyperloglog.lg.k",
    integer(7, 21),
    12,
    "A new sketch has 2^lg.k counters of half a byte. Its relative error is about 1.04 / sqrt(2^lg.k): 1.6 % for 12.",
)
QUANTILES_K = Key(
    "stores.{store}.quantiles.k",
    integer(8, 65_535),
    200,
    "Size of a new sketch. Its rank error is 1.33 % for 200, and about half as much for twice the size.",
)
INDEX_TOKENIZER = Key(
    "stores.{store}.index.tokenizer",
    class_path(lambda _: None, tuple, "my.module:MyTokenizer"),
    None,
    "The Tokenizer class that splits a text into terms.",
    "words in lower case",
)
CUBE_DIMENSIONS = Key("stores.{store}.cube.dimensions", _NAMES, (), "The dimensions of the facts.", "required by cube")
CUBE_MEASURES = Key(
    "stores.{store}.cube.measures", _NAMES, (), "The measures to aggregate. A cube always counts the facts."
)
CUBE_ROLLUPS = Key(
    "stores.{store}.cube.rollups",
    TEXT,
    None,
    "The combinations of dimensions to keep: `carrier; carrier, origin; origin, month`.",
    "all dimensions together",
)
VIEW_KEYS = tuple(key for key in collect(globals()) if key not in (*ROCKSDB_KEYS, *SHARED_KEYS))

_ENGINES = {
    "heap": "heap",
    "bloom": "bloom",
    "hyperloglog": "hyperloglog",
    "quantiles": "quantiles",
    "index": "inverted-index",
    "cube": "cube",
}


def is_of_another_engine(key: Key[Any], factory: str) -> bool:
    """Whether `key` belongs to a view other than `factory`."""
    return key in VIEW_KEYS and ENGINES.short[_ENGINES[key.name.split(".")[2]]] != factory
