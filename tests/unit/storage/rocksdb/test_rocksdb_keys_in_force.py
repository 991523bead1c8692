"""What RocksDB itself writes down about the options it runs with, for every key of a job file."""

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.config.reading.keys import keys_of
from samzapy.config.stores.engines import RocksDbKeys
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

DEFAULTS = {
    "write_buffer_size": "33554432",
    "compression": "kSnappyCompression",
    "block_size": "4096",
    "compaction_style": "kCompactionStyleUniversal",
    "max_write_buffer_number": "3",
    "max_log_file_size": "67108864",
    "keep_log_file_num": "2",
    "delete_obsolete_files_period_micros": "21600000000",
    "max_open_files": "-1",
    "max_file_opening_threads": "16",
    "max_manifest_file_size": "1073741824",
    "wal_recovery_mode": "kPointInTimeRecovery",
}
CHANGED = [
    ("container.write.buffer.size.bytes", "131072", "write_buffer_size=131072"),
    ("rocksdb.compression", "lz4", "compression=kLZ4Compression"),
    ("rocksdb.compression", "lz4hc", "compression=kLZ4HCCompression"),
    ("rocksdb.compression", "bzip2", "compression=kBZip2Compression"),
    ("rocksdb.compression", "zlib", "compression=kZlibCompression"),
    ("rocksdb.compression", "zstd", "compression=kZSTD"),
    ("rocksdb.compression", "none", "compression=kNoCompression"),
    ("rocksdb.block.size.bytes", "8192", "block_size=8192"),
    ("rocksdb.compaction.style", "level", "compaction_style=kCompactionStyleLevel"),
    ("rocksdb.compaction.style", "FIFO", "compaction_style=kCompactionStyleFIFO"),
    ("rocksdb.num.write.buffers", "5", "max_write_buffer_number=5"),
    ("rocksdb.max.log.file.size.bytes", "1000000", "max_log_file_size=1000000"),
    ("rocksdb.keep.log.file.num", "7", "keep_log_file_num=7"),
    ("rocksdb.delete.obsolete.files.period.micros", "1000", "delete_obsolete_files_period_micros=1000"),
    ("rocksdb.max.open.files", "64", "max_open_files=64"),
    ("rocksdb.max.file.opening.threads", "3", "max_file_opening_threads=3"),
    ("rocksdb.max.manifest.file.size", "100000", "max_manifest_file_size=100000"),
    ("rocksdb.max.background.jobs", "3", "max_background_jobs=3"),
    ("rocksdb.compaction.max.background.compactions", "5", "max_background_jobs=5"),
    ("rocksdb.compaction.num.levels", "9", "num_levels=9"),
    ("rocksdb.compaction.level0.file.num.compaction.trigger", "6", "level0_file_num_compaction_trigger=6"),
    ("rocksdb.compaction.target.file.size.base", "1048576", "target_file_size_base=1048576"),
    ("rocksdb.compaction.target.file.size.multiplier", "3", "target_file_size_multiplier=3"),
    ("rocksdb.compaction.universal.max.size.amplification.percent", "150", "max_size_amplification_percent=150"),
    ("rocksdb.compaction.universal.size.ratio", "7", "size_ratio=7"),
    ("rocksdb.compaction.universal.min.merge.width", "3", "min_merge_width=3"),
    ("rocksdb.compaction.universal.max.merge.width", "99", "max_merge_width=99"),
    ("rocksdb.compaction.universal.compaction.stop.style", "similar", "stop_style=kCompactionStopStyleSimilarSize"),
]
#: Tested by what they do: the block cache, the log, and further gauges.
ELSEWHERE = {"container.cache.size.bytes", "rocksdb.wal.enabled", "rocksdb.metrics.list"}


def options_in_force(path, **properties):
    RocksDbStorageEngineFactory().open(path, EngineSettings("s", properties)).close()
    newest = max(path.glob("OPTIONS-*"))
    return newest.read_text().replace(" ", "")


def test_every_key_of_the_engine_is_tested():
    names = {name for key in keys_of(RocksDbKeys) for name in key.names if name.startswith("stores.")}
    known = {name.removeprefix("stores.{store}.") for name in names}
    assert {key for key, _, _ in CHANGED} | ELSEWHERE == known


def test_a_store_without_keys_runs_with_samzas_defaults(tmp_path):
    found = options_in_force(tmp_path / "s")
    assert [f"{name}={value}" for name, value in DEFAULTS.items() if f"{name}={value}\n" not in found] == []


@pytest.mark.parametrize(("key", "value", "in_force"), CHANGED)
def test_a_key_changes_what_rocksdb_runs_with(tmp_path, key, value, in_force):
    found = options_in_force(tmp_path / "s", **{key: value})
    assert f"{in_force}\n" in found or f"{in_force};" in found


def test_no_block_cache_means_none(tmp_path):
    assert "no_block_cache=true" in options_in_force(tmp_path / "s", **{"container.cache.size.bytes": "0"})
    assert "no_block_cache=false" in options_in_force(tmp_path / "t")
