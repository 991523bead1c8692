"""`stores.NAME.rocksdb.*` and the memory keys, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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

from samzapy.config.stores.engines import SHARED_CACHE, SHARED_WRITE_BUFFERS

_COMPRESSIONS: Mapping[str, Callable[[], DBCompressionType]] = {
    "snappy": DBCompressionType.snappy,
    "bzip2": DBCompressionType.bz2,
    "zlib": DBCompressionType.zlib,
    "lz4": DBCompressionType.lz4,
    "lz4hc": DBCompressionType.lz4hc,
    "zstd": DBCompressionType.zstd,
    "none": DBCompressionType.none,
}
#: fifo drops the oldest files when a task's part of the store exceeds 1 GiB. Deletions outlive the entries that they delete,
#: and every batch writes the marker, so the store stays consistent; but it loses entries that the changelog keeps.
_STYLES: Mapping[str, Callable[[], DBCompactionStyle]] = {
    "universal": DBCompactionStyle.universal,
    "level": DBCompactionStyle.level,
    "fifo": DBCompactionStyle.fifo,
}
_STYLE, _OPEN_FILES = "rocksdb.compaction.style", "rocksdb.max.open.files"
#: The part of a memtable's size that its Bloom filter gets.
_MEMTABLE_BLOOM = 0.02
_FLAGS = {"true": True, "false": False}
_STOP_STYLES = {"similar": "similar", "total": "total"}

#: key -> (smallest, largest) of the integer keys.
_OWN_CACHE, _OWN_WRITE_BUFFER = "container.cache.size.bytes", "container.write.buffer.size.bytes"
_INTEGERS: Mapping[str, tuple[int, int]] = {
    _OWN_CACHE: (0, 1 << 50),
    _OWN_WRITE_BUFFER: (65_536, 1 << 50),
    SHARED_CACHE.name: (0, 1 << 53),
    SHARED_WRITE_BUFFERS.name: (65_536, 1 << 53),
    "rocksdb.block.size.bytes": (256, 1 << 28),
    "rocksdb.compaction.num.levels": (1, 64),
    "rocksdb.compaction.level0.file.num.compaction.trigger": (1, 1_000),
    "rocksdb.compaction.target.file.size.base": (1_024, 1 << 50),
    "rocksdb.compaction.target.file.size.multiplier": (1, 1_000),
    "rocksdb.compaction.max.background.compactions": (1, 1_000),
    "rocksdb.max.background.jobs": (1, 1_000),
    "rocksdb.compaction.universal.max.size.amplification.percent": (0, 1_000_000),
    "rocksdb.compaction.universal.size.ratio": (0, 1_000_000),
    "rocksdb.compaction.universal.min.merge.width": (2, 1_000_000),
    "rocksdb.compaction.universal.max.merge.width": (2, 2_147_483_647),
    "rocksdb.num.write.buffers": (1, 1_000),
    "rocksdb.max.log.file.size.bytes": (0, 1 << 50),
    "rocksdb.keep.log.file.num": (1, 1_000_000),
    "rocksdb.delete.obsolete.files.period.micros": (0, 1 << 50),
    "rocksdb.max.open.files": (-1, 10_000_000),
    "rocksdb.max.file.opening.threads": (1, 1_000),
    "rocksdb.max.manifest.file.size": (1_024, 1 << 50),
}
_NAMES: Mapping[str, Mapping[str, object]] = {
    "rocksdb.compression": _COMPRESSIONS,
    _STYLE: _STYLES,
    "rocksdb.compaction.universal.compaction.stop.style": _STOP_STYLES,
    "rocksdb.wal.enabled": _FLAGS,
}

Problem = tuple[str, str, str]


def problems(properties: Mapping[str, str]) -> list[Problem]:
    """The problems of the properties: (key, value, allowed values)."""
    found: list[Problem] = []
    for key, value in properties.items():
        text = value.strip()
        if key in _INTEGERS and not _within(text, *_INTEGERS[key]):
            low, high = _INTEGERS[key]
            found.append((key, value, f"expected an integer from {low} to {high}"))
        elif key in _NAMES and text.lower() not in _NAMES[key]:
            found.append((key, value, f"expected one of {', '.join(_NAMES[key])}"))
    if properties.get(_STYLE, "").strip().lower() == "fifo" and properties.get(_OPEN_FILES, "-1").strip() != "-1":
        found.append((_OPEN_FILES, properties[_OPEN_FILES], f"expected -1 with {_STYLE}=fifo"))
    return found


def _within(text: str, low: int, high: int) -> bool:
    try:
        return low <= int(text) <= high
    except ValueError:
        return False


@dataclass(frozen=True)
class RocksDbOptions:
    """RocksDB's settings; sizes in bytes. `cache_bytes` and `write_buffer_bytes` are for one store of a container: its tasks
    share the cache and divide the buffer. A `cache_bytes` of None means the container's cache, of `shared_cache_bytes`;
    the memtables are counted with other stores' memtables, up to `shared_write_buffer_bytes`, if `counts_together`.
    `tuning` holds the integer keys that are set only when given."""

    cache_bytes: int | None = None
    write_buffer_bytes: int = 33_554_432
    counts_together: bool = True
    shared_cache_bytes: int = SHARED_CACHE.default
    shared_write_buffer_bytes: int = SHARED_WRITE_BUFFERS.default
    tasks: int = 1
    block_bytes: int = 4_096
    bloom_bits_per_key: int = 10
    compression: str = "snappy"
    compaction_style: str = "universal"
    universal_stop_style: str | None = None
    num_write_buffers: int = 3
    max_log_file_bytes: int = 67_108_864
    keep_log_files: int = 2
    delete_obsolete_files_micros: int = 21_600_000_000
    max_open_files: int = -1
    max_file_opening_threads: int = 16
    max_manifest_bytes: int = 1_073_741_824
    wal: bool = False
    tuning: Mapping[str, int] | None = None

    @classmethod
    def parse(cls, properties: Mapping[str, str], tasks_in_container: int = 1) -> RocksDbOptions:
        """The properties with the reference's defaults. They have passed `problems`."""
        given = {key: int(value) for key, value in properties.items() if key in _INTEGERS}
        names = {key: value.strip().lower() for key, value in properties.items() if key in _NAMES}
        own = {field: given.pop(key) for key, field in _FIELDS.items() if key in given}
        return cls(
            counts_together=_OWN_WRITE_BUFFER not in properties,
            tasks=max(1, tasks_in_container),
            compression=names.get("rocksdb.compression", "snappy"),
            compaction_style=names.get("rocksdb.compaction.style", "universal"),
            universal_stop_style=names.get("rocksdb.compaction.universal.compaction.stop.style"),
            wal=_FLAGS[names.get("rocksdb.wal.enabled", "false")],
            tuning=given,
            **own,
        )

    @property
    def block_cache_bytes(self) -> int:
        """Bytes of the block cache, whether it is the store's or the container's."""
        return self.shared_cache_bytes if self.cache_bytes is None else self.cache_bytes

    def to_options(self, cache: Cache | None, memtables: WriteBufferManager | None = None) -> Options:
        """The options for rocksdict; `cache` is the block cache that the container's tasks share, None for none,
        `memtables` the counter that they share with other stores."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(max(65_536, self.write_buffer_bytes // self.tasks))
        options.set_max_write_buffer_number(self.num_write_buffers)
        options.set_compression_type(_COMPRESSIONS[self.compression]())
        options.set_compaction_style(_STYLES[self.compaction_style]())
        options.set_max_log_file_size(self.max_log_file_bytes)
        options.set_keep_log_file_num(self.keep_log_files)
        options.set_delete_obsolete_files_period_micros(self.delete_obsolete_files_micros)
        options.set_max_open_files(self.max_open_files)
        options.set_max_file_opening_threads(self.max_file_opening_threads)
        options.set_max_manifest_file_size(self.max_manifest_bytes)
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
        table.set_block_size(self.block_bytes)
        if self.bloom_bits_per_key:
            table.set_bloom_filter(self.bloom_bits_per_key, False)
        if cache is None:
            table.disable_cache()
        else:
            table.set_block_cache(cache)
        return table

    def _tune(self, options: Options) -> None:
        universal = UniversalCompactOptions()
        if self.universal_stop_style is not None:
            universal.stop_style = getattr(UniversalCompactionStopStyle, self.universal_stop_style)()
        for key, value in (self.tuning or {}).items():
            if key in _UNIVERSAL:
                setattr(universal, _UNIVERSAL[key], value)
            else:
                getattr(options, _SETTERS[key])(value)
        options.set_universal_compaction_options(universal)


_FIELDS = {
    _OWN_CACHE: "cache_bytes",
    _OWN_WRITE_BUFFER: "write_buffer_bytes",
    SHARED_CACHE.name: "shared_cache_bytes",
    SHARED_WRITE_BUFFERS.name: "shared_write_buffer_bytes",
    "rocksdb.block.size.bytes": "block_bytes",
    "rocksdb.num.write.buffers": "num_write_buffers",
    "rocksdb.max.log.file.size.bytes": "max_log_file_bytes",
    "rocksdb.keep.log.file.num": "keep_log_files",
    "rocksdb.delete.obsolete.files.period.micros": "delete_obsolete_files_micros",
    "rocksdb.max.open.files": "max_open_files",
    "rocksdb.max.file.opening.threads": "max_file_opening_threads",
    "rocksdb.max.manifest.file.size": "max_manifest_bytes",
}
_UNIVERSAL = {
    "rocksdb.compaction.universal.max.size.amplification.percent": "max_size_amplification_percent",
    "rocksdb.compaction.universal.size.ratio": "size_ratio",
    "rocksdb.compaction.universal.min.merge.width": "min_merge_width",
    "rocksdb.compaction.universal.max.merge.width": "max_merge_width",
}
#: RocksDB counts compactions and flushes together since 6: the older key sets the same number.
_SETTERS = {
    "rocksdb.compaction.num.levels": "set_num_levels",
    "rocksdb.compaction.level0.file.num.compaction.trigger": "set_level_zero_file_num_compaction_trigger",
    "rocksdb.compaction.target.file.size.base": "set_target_file_size_base",
    "rocksdb.compaction.target.file.size.multiplier": "set_target_file_size_multiplier",
    "rocksdb.compaction.max.background.compactions": "set_max_background_jobs",
    "rocksdb.max.background.jobs": "set_max_background_jobs",
}
