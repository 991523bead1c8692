"""`stores.NAME.rocksdb.*` and the memory keys, as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    UniversalCompactionStopStyle,
    UniversalCompactOptions,
    WriteBufferManager,
)

from samzapy.api.engine import EngineSettings
from samzapy.config.reading.keys import split_list
from samzapy.config.stores.engines import (
    METRICS,
    ROCKSDB_NUMBERS,
    STOP_STYLE,
    WAL,
    EngineProblem,
    RocksDbKeys,
    RocksDbNumber,
    read_engine,
)

_COMPRESSIONS: Mapping[str, Callable[[], DBCompressionType]] = {
    "snappy": DBCompressionType.snappy,
    "bzip2": DBCompressionType.bz2,
    "zlib": DBCompressionType.zlib,
    "lz4": DBCompressionType.lz4,
    "lz4hc": DBCompressionType.lz4hc,
    "zstd": DBCompressionType.zstd,
    "none": DBCompressionType.none,
}
#: fifo drops the oldest files when a task's part of the store exceeds 1 GiB. Deletions outlive the entries that they
#: delete, and every batch writes the marker, so the store stays consistent; but it loses entries that the changelog
#: keeps.
_STYLES: Mapping[str, Callable[[], DBCompactionStyle]] = {
    "universal": DBCompactionStyle.universal,
    "level": DBCompactionStyle.level,
    "fifo": DBCompactionStyle.fifo,
}
#: The part of a memtable's size that its Bloom filter gets.
_MEMTABLE_BLOOM = 0.02
_WRITE_BUFFER_BYTES = 33_554_432


_CHOICES = {STOP_STYLE: ("similar", "total"), WAL: ("true", "false")}


@dataclass(frozen=True)
class RocksDbOptions:
    """RocksDB's settings. `keys.cache_bytes` and `keys.write_buffer_bytes` are for one store of a container: its
    `tasks` share the cache and divide the buffer. Without them the cache is the container's, and the memtables are
    counted with those of other stores. `tuning`: the given options below `rocksdb.`."""

    keys: RocksDbKeys = field(default_factory=RocksDbKeys)
    tasks: int = 1
    bloom_bits_per_key: int = 10

    @classmethod
    def read(cls, settings: EngineSettings) -> tuple[RocksDbOptions, list[EngineProblem]]:
        """The options, and the problems of the keys."""
        keys, problems = read_engine(RocksDbKeys, settings)
        problems += _tuning_problems(keys.tuning)
        if keys.compaction_style == "fifo" and keys.max_open_files != -1:
            problems.append(
                ("rocksdb.max.open.files", str(keys.max_open_files), "expected -1 with rocksdb.compaction.style=fifo")
            )
        return cls(keys, max(1, settings.tasks_in_container)), problems

    @property
    def block_cache_bytes(self) -> int:
        """Bytes of the block cache, whether it is the store's or the container's."""
        return self.keys.shared_cache_bytes if self.keys.cache_bytes is None else self.keys.cache_bytes

    @property
    def wal(self) -> bool:
        """Whether RocksDB has a write-ahead log."""
        return self.keys.tuning.get(WAL, "").lower() == "true"

    @property
    def gauges(self) -> list[str]:
        """Further properties of RocksDB to publish."""
        return [name.removeprefix("rocksdb.") for name in split_list(self.keys.tuning.get(METRICS, ""))]

    def to_options(self, cache: Cache | None, memtables: WriteBufferManager | None = None) -> Options:
        """The options for rocksdict; `cache` is the block cache that the container's tasks share, None for none,
        `memtables` the counter that they share with other stores."""
        keys = self.keys
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(max(65_536, (keys.write_buffer_bytes or _WRITE_BUFFER_BYTES) // self.tasks))
        options.set_compression_type(_COMPRESSIONS[keys.compression]())
        options.set_compaction_style(_STYLES[keys.compaction_style]())
        options.set_max_open_files(keys.max_open_files)
        # A log torn by a kill ends before the torn batch, so a prefix of the commits is left, as without a log.
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
        options.set_block_based_table_factory(self._table(cache))
        if self.bloom_bits_per_key:
            # A new key is looked for before it is written: half of the time of such a look.
            options.set_memtable_whole_key_filtering(True)
            options.set_memtable_prefix_bloom_ratio(_MEMTABLE_BLOOM)
        if memtables is not None:
            options.set_write_buffer_manager(memtables)
        self._tune(options)
        return options

    def _table(self, cache: Cache | None) -> BlockBasedOptions:
        table = BlockBasedOptions()
        table.set_block_size(self.keys.block_bytes)
        if self.bloom_bits_per_key:
            table.set_bloom_filter(self.bloom_bits_per_key, False)
        if cache is None:
            table.disable_cache()
        else:
            table.set_block_cache(cache)
        return table

    def _tune(self, options: Options) -> None:
        universal = UniversalCompactOptions()
        given = self.keys.tuning
        if STOP_STYLE in given:
            universal.stop_style = getattr(UniversalCompactionStopStyle, given[STOP_STYLE].lower())()
        for name, number in ROCKSDB_NUMBERS.items():
            value = int(given[name]) if name in given else number.default
            if value is not None and name.startswith("compaction.universal."):
                setattr(universal, number.setter, value)
            elif value is not None:
                getattr(options, number.setter)(value)
        options.set_universal_compaction_options(universal)


def _tuning_problems(tuning: Mapping[str, str]) -> Iterator[EngineProblem]:
    for name, text in tuning.items():
        number = ROCKSDB_NUMBERS.get(name)
        if number is not None and not _within(text, number):
            yield f"rocksdb.{name}", text, f"expected an integer from {number.low} to {number.high}"
        elif name in _CHOICES and text.lower() not in _CHOICES[name]:
            yield f"rocksdb.{name}", text, f"expected one of {', '.join(_CHOICES[name])}"


def _within(text: str, number: RocksDbNumber) -> bool:
    try:
        return number.low <= int(text) <= number.high
    except ValueError:
        return False
