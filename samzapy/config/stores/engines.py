"""The keys of the storage engines, below `stores.NAME.`. An engine reads its section by `read_engine`.

A view is an engine that offers another interface to the entries of a byte engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from samzapy.api.engine import EngineSettings
from samzapy.config.reading.classes import USER_CLASS
from samzapy.config.reading.keys import TEXT, Kind, Reader, choice, family, integer, key, keys_of, labels, split_list

S = TypeVar("S")


@dataclass(frozen=True)
class RocksDbNumber:
    """An integer option: its limits, the setter of RocksDB, and the default of Samza, None for RocksDB's own."""

    setter: str
    low: int
    high: int
    default: int | None = None


#: The integer options below `rocksdb.`, by Samza's names. RocksDB counts compactions and flushes together since 6: the
#: older key sets the same number. Those below `compaction.universal.` are attributes of its options.
ROCKSDB_NUMBERS: Mapping[str, RocksDbNumber] = {
    "num.write.buffers": RocksDbNumber("set_max_write_buffer_number", 1, 1_000, 3),
    "max.background.jobs": RocksDbNumber("set_max_background_jobs", 1, 1_000),
    "max.file.opening.threads": RocksDbNumber("set_max_file_opening_threads", 1, 1_000, 16),
    "max.log.file.size.bytes": RocksDbNumber("set_max_log_file_size", 0, 1 << 50, 67_108_864),
    "keep.log.file.num": RocksDbNumber("set_keep_log_file_num", 1, 1_000_000, 2),
    "max.manifest.file.size": RocksDbNumber("set_max_manifest_file_size", 1_024, 1 << 50, 1_073_741_824),
    "delete.obsolete.files.period.micros": RocksDbNumber(
        "set_delete_obsolete_files_period_micros", 0, 1 << 50, 21_600_000_000
    ),
    "compaction.num.levels": RocksDbNumber("set_num_levels", 1, 64),
    "compaction.level0.file.num.compaction.trigger": RocksDbNumber(
        "set_level_zero_file_num_compaction_trigger", 1, 1_000
    ),
    "compaction.target.file.size.base": RocksDbNumber("set_target_file_size_base", 1_024, 1 << 50),
    "compaction.target.file.size.multiplier": RocksDbNumber("set_target_file_size_multiplier", 1, 1_000),
    "compaction.max.background.compactions": RocksDbNumber("set_max_background_jobs", 1, 1_000),
    "compaction.universal.max.size.amplification.percent": RocksDbNumber(
        "max_size_amplification_percent", 0, 1_000_000
    ),
    "compaction.universal.size.ratio": RocksDbNumber("size_ratio", 0, 1_000_000),
    "compaction.universal.min.merge.width": RocksDbNumber("min_merge_width", 2, 1_000_000),
    "compaction.universal.max.merge.width": RocksDbNumber("max_merge_width", 2, 2_147_483_647),
}
STOP_STYLE, WAL, METRICS = "compaction.universal.compaction.stop.style", "wal.enabled", "metrics.list"


@dataclass(frozen=True, kw_only=True)
class RocksDbKeys:
    """RocksDB's settings; sizes in bytes."""

    cache_bytes: int | None = key(
        "stores.{store}.container.cache.size.bytes",
        integer(0, 2**50),
        None,
        shown="the store shares container.rocksdb.cache.bytes",
    )
    """Bytes of a separate block cache for this store. The tasks of a container share it. 0: none."""
    write_buffer_bytes: int | None = key(
        "stores.{store}.container.write.buffer.size.bytes",
        integer(65_536, 2**50),
        None,
        shown="33554432, within container.rocksdb.write.buffer.bytes",
    )
    """Bytes of memtables, divided among the tasks of a container. A store with this key does not share the container's
    memtables."""
    compression: str = key(
        "stores.{store}.rocksdb.compression",
        choice("snappy", "bzip2", "zlib", "lz4", "lz4hc", "zstd", "none"),
        "snappy",
    )
    """The compression of blocks."""
    block_bytes: int = key("stores.{store}.rocksdb.block.size.bytes", integer(256, 2**28), 4_096)
    """Bytes of a block."""
    compaction_style: str = key(
        "stores.{store}.rocksdb.compaction.style", choice("universal", "level", "fifo"), "universal"
    )
    """fifo drops the oldest entries beyond 1 GiB a task."""
    max_open_files: int = key("stores.{store}.rocksdb.max.open.files", integer(-1, 10_000_000), -1)
    """Open files of one store; -1: all."""
    tuning: Mapping[str, str] = family("stores.{store}.rocksdb.*", leaves=(*ROCKSDB_NUMBERS, STOP_STYLE, WAL, METRICS))
    """RocksDB's other options by Samza's names, for experiments: their defaults are Samza's or RocksDB's. With
    wal.enabled=true a start after a kill reads nothing from the changelog, but RocksDB writes every commit twice.
    metrics.list names further properties to publish as gauges."""
    shared_cache_bytes: int = key("container.rocksdb.cache.bytes", integer(0, 2**53), 134_217_728)
    """Bytes of the block cache that the RocksDB stores of a container share. 0: none."""
    shared_write_buffer_bytes: int = key("container.rocksdb.write.buffer.bytes", integer(65_536, 2**53), 134_217_728)
    """Bytes of memtables of all RocksDB stores of a container. Beyond this size writes flush them."""


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise ValueError("a number between 0 and 1")
    return value


def _names(text: str) -> tuple[str, ...]:
    names = split_list(text)
    if len(set(names)) != len(names):
        raise ValueError("different names, separated by commas")
    return names


_NAMES = Kind("names, separated by commas", _names)


@dataclass(frozen=True)
class HeapKeys:
    """Top-N lists."""

    size: int = key("stores.{store}.heap.size", integer(0, 2**31 - 1), 0)
    """Number of items that a heap keeps in each group. A further item drops the worst. 0: no limit."""
    highest: bool = key("stores.{store}.heap.order", labels(highest=True, lowest=False), True, shown="highest")
    """The best score. `pop` and `top` return it first, and a bounded heap keeps it."""


@dataclass(frozen=True)
class BloomKeys:
    """Filters of items."""

    capacity: int = key("stores.{store}.bloom.capacity", integer(1, 2**31 - 1), 10_000)
    """Number of items up to which a new filter keeps its error rate. A filter takes about 1.2 bytes per item at a rate
    of 0.01, and is one changelog record. A large filter needs a larger stores.X.changelog.max.message.bytes."""
    error_rate: float = key("stores.{store}.bloom.error.rate", Kind("a number between 0 and 1", _fraction), 0.01)
    """Share of absent items that a full filter reports as present."""


@dataclass(frozen=True)
class HyperLogLogKeys:
    """Counts of different items."""

    lg_k: int = key("stores.{store}.hyperloglog.lg.k", integer(7, 21), 12)
    """A new sketch has 2^lg.k counters of half a byte. Its relative error is about 1.04 / sqrt(2^lg.k): 1.6 % for
    12."""


@dataclass(frozen=True)
class QuantilesKeys:
    """Quantiles of numbers."""

    k: int = key("stores.{store}.quantiles.k", integer(8, 65_535), 200)
    """Size of a new sketch. Its rank error is 1.33 % for 200, and about half as much for twice the size."""


@dataclass(frozen=True)
class IndexKeys:
    """Inverted indexes."""

    tokenizer: str | None = key("stores.{store}.index.tokenizer", USER_CLASS, None, shown="words in lower case")
    """The Tokenizer class that splits a text into terms."""


@dataclass(frozen=True)
class CubeKeys:
    """Data cubes."""

    dimensions: tuple[str, ...] = key("stores.{store}.cube.dimensions", _NAMES, (), shown="required by cube")
    """The dimensions of the facts."""
    measures: tuple[str, ...] = key("stores.{store}.cube.measures", _NAMES, ())
    """The measures to aggregate. A cube always counts the facts."""
    rollups: str | None = key("stores.{store}.cube.rollups", TEXT, None, shown="all dimensions together")
    """The combinations of dimensions to keep: `carrier; carrier, origin; origin, month`."""


ENGINE_SECTIONS = (RocksDbKeys, HeapKeys, BloomKeys, HyperLogLogKeys, QuantilesKeys, IndexKeys, CubeKeys)


#: A problem of an engine's key: the key below the store, its value, and what is allowed.
EngineProblem = tuple[str, str | None, str]


def read_engine(section: type[S], settings: EngineSettings) -> tuple[S, list[EngineProblem]]:
    """The section of an engine's keys, and the problems of their values. A bad value counts as the default."""
    prefix = f"stores.{settings.store}."
    shared = {key.name for key in keys_of(section) if "{" not in key.name}
    properties = settings.properties
    reader = Reader({name if name in shared else prefix + name: value for name, value in properties.items()})
    read = reader.read(section, {"store": settings.store})
    return read, [(bad.key.removeprefix(prefix), bad.value, bad.message) for bad in reader.problems]
