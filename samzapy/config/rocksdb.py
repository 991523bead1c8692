"""The keys of the RocksDB engine. Its options parse and check them; here are their names, defaults and meanings."""

from __future__ import annotations

from samzapy.config.keys import Key, collect
from samzapy.config.kinds import TEXT


def _key(leaf: str, default: str, doc: str, *otherwise: str) -> Key[str | None]:
    return Key(f"stores.{{store}}.{leaf}", TEXT, None, doc, default, otherwise)


CACHE_SIZE = _key(
    "container.cache.size.bytes", "104857600", "Bytes of RocksDB's block cache, shared by the tasks of a container."
)
WRITE_BUFFER_SIZE = _key(
    "container.write.buffer.size.bytes", "33554432", "Bytes of memtables, shared by the tasks of a container."
)
WAL_ENABLED = _key(
    "rocksdb.wal.enabled",
    "false",
    "Write-ahead log: after a kill nothing is replayed from the changelog, but every commit is written twice.",
)
COMPRESSION = _key("rocksdb.compression", "snappy", "snappy, bzip2, zlib, lz4, lz4hc, zstd or none.")
BLOCK_SIZE = _key("rocksdb.block.size.bytes", "4096", "Bytes of a block.")
COMPACTION_STYLE = _key(
    "rocksdb.compaction.style",
    "universal",
    "universal, level or fifo, which forgets the oldest entries beyond 1 GiB a task.",
)
NUM_WRITE_BUFFERS = _key("rocksdb.num.write.buffers", "3", "Memtables before writes wait.")
MAX_LOG_FILE_SIZE = _key("rocksdb.max.log.file.size.bytes", "67108864", "Bytes of RocksDB's own log file.")
KEEP_LOG_FILE_NUM = _key("rocksdb.keep.log.file.num", "2", "RocksDB's own log files kept.")
DELETE_OBSOLETE = _key("rocksdb.delete.obsolete.files.period.micros", "21600000000", "Between clean-ups of files.")
MAX_OPEN_FILES = _key("rocksdb.max.open.files", "-1", "Open files of one store; -1: all.")
MAX_FILE_OPENING_THREADS = _key("rocksdb.max.file.opening.threads", "16", "Threads that open files at the start.")
MAX_MANIFEST_FILE_SIZE = _key(
    "rocksdb.max.manifest.file.size",
    "1073741824",
    "Bytes of the manifest.",
    "stores-default.rocksdb.max.manifest.file.size.bytes",
)
MAX_BACKGROUND_JOBS = _key("rocksdb.max.background.jobs", "RocksDB's", "Flushes and compactions at a time.")
METRICS_LIST = _key("rocksdb.metrics.list", "-", "Further RocksDB properties to publish as gauges.")
COMPACTIONS = tuple(
    _key(f"rocksdb.compaction.{leaf}", "RocksDB's", doc)
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
KEYS = (*collect(globals()), *COMPACTIONS)
