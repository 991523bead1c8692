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
from samzapy.config.stores.engines import EngineProblem, RocksDbKeys, read_engine

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


@dataclass(frozen=True)
class _Number:
    """An integer option: its limits, the setter of RocksDB, and the default of Samza, None for RocksDB's own."""

    setter: str
    low: int
    high: int
    default: int | None = None


_UNIVERSAL = "compaction.universal."
#: The integer options below `rocksdb.`. RocksDB counts compactions and flushes together since 6: the older key sets the
#: same number. Those of `_UNIVERSAL` are attributes of its options.
_NUMBERS: Mapping[str, _Number] = {
    "num.write.buffers": _Number("set_max_write_buffer_number", 1, 1_000, 3),
    "max.background.jobs": _Number("set_max_background_jobs", 1, 1_000),
    "max.file.opening.threads": _Number("set_max_file_opening_threads", 1, 1_000, 16),
    "max.log.file.size.bytes": _Number("set_max_log_file_size", 0, 1 << 50, 67_108_864),
    "keep.log.file.num": _Number("set_keep_log_file_num", 1, 1_000_000, 2),
    "max.manifest.file.size": _Number("set_max_manifest_file_size", 1_024, 1 << 50, 1_073_741_824),
    "delete.obsolete.files.period.micros": _Number(
        "set_delete_obsolete_files_period_micros", 0, 1 << 50, 21_600_000_000
    ),
    "compaction.num.levels": _Number("set_num_levels", 1, 64),
    "compaction.level0.file.num.compaction.trigger": _Number("set_level_zero_file_num_compaction_trigger", 1, 1_000),
    "compaction.target.file.size.base": _Number("set_target_file_size_base", 1_024, 1 << 50),
    "compaction.target.file.size.multiplier": _Number("set_target_file_size_multiplier", 1, 1_000),
    "compaction.max.background.compactions": _Number("set_max_background_jobs", 1, 1_000),
    "compaction.universal.max.size.amplification.percent": _Number("max_size_amplification_percent", 0, 1_000_000),
    "compaction.universal.size.ratio": _Number("size_ratio", 0, 1_000_000),
    "compaction.universal.min.merge.width": _Number("min_merge_width", 2, 1_000_000),
    "compaction.universal.max.merge.width": _Number("max_merge_width", 2, 2_147_483_647),
}
_STOP_STYLE, _WAL = "compaction.universal.compaction.stop.style", "wal.enabled"
_CHOICES = {_STOP_STYLE: ("similar", "total"), _WAL: ("true", "false")}


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
        return self.keys.tuning.get(_WAL, "").lower() == "true"

    @property
    def gauges(self) -> list[str]:
        """Further properties of RocksDB to publish."""
        names = (name.strip() for name in self.keys.tuning.get("metrics.list", "").split(","))
        return [name.removeprefix("rocksdb.") for name in names if name]

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
        if _STOP_STYLE in given:
            universal.stop_style = getattr(UniversalCompactionStopStyle, given[_STOP_STYLE].lower())()
        for name, number in _NUMBERS.items():
            value = int(given[name]) if name in given else number.default
            if value is not None and name.startswith(_UNIVERSAL):
                setattr(universal, number.setter, value)
            elif value is not None:
                getattr(options, number.setter)(value)
        options.set_universal_compaction_options(universal)


def _tuning_problems(tuning: Mapping[str, str]) -> Iterator[EngineProblem]:
    for name, text in tuning.items():
        number = _NUMBERS.get(name)
        if number is not None and not _within(text, number):
            yield f"rocksdb.{name}", text, f"expected an integer from {number.low} to {number.high}"
        elif name in _CHOICES and text.lower() not in _CHOICES[name]:
            yield f"rocksdb.{name}", text, f"expected one of {', '.join(_CHOICES[name])}"


def _within(text: str, number: _Number) -> bool:
    try:
        return number.low <= int(text) <= number.high
    except ValueError:
        return False
