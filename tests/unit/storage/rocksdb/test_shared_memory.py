"""The RocksDB stores of a container share a block cache and a limit of their memtables."""

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.config.stores.engines import RocksDbKeys
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory, shared_memory
from samzapy.verify.processes import until

MIB = 1_048_576
SMALL = {"container.rocksdb.cache.bytes": "4194304", "container.rocksdb.write.buffer.bytes": "1048576"}


@pytest.fixture
def opened(tmp_path):
    """`opened(store, properties)`: an engine of a factory of its own, which is closed after the test."""
    engines = []

    def open_one(store, properties):
        factory = RocksDbStorageEngineFactory()
        engines.append((factory, factory.open(tmp_path / store, EngineSettings(store, properties))))
        return engines[-1][1]

    yield open_one
    for _, engine in engines:
        engine.close()


def fill(engine, number):
    engine.write({b"%d-%d" % (number, key): b"v" * 1_000 for key in range(100)}, b"m")


def test_memtables_of_many_stores_stay_near_their_common_limit(opened):
    limit = 16 * MIB
    wanted = {"container.rocksdb.write.buffer.bytes": str(limit)}
    engines = [opened(f"s{number}", wanted) for number in range(8)]
    for number in range(80):
        for engine in engines:
            fill(engine, number)
    # 64 MiB were written, and each store alone would keep its 32. A flush takes its time, and comes with the next write
    # of a store.
    memtables = shared_memory(RocksDbKeys().shared_cache_bytes, limit).memtables
    until(lambda: memtables.get_usage() < 3 * limit, lambda: f"{memtables.get_usage():,} B")


def test_blocks_of_all_stores_are_in_one_cache_unless_a_store_has_its_own(opened):
    engines = [opened(f"s{number}", SMALL) for number in range(3)]
    own = opened("own", {**SMALL, "container.cache.size.bytes": "1048576"})
    for number, engine in enumerate([*engines, own]):
        fill(engine, number)
        engine.flush()
        assert engine.get(b"%d-1" % number) is not None
    usage = [engine.metrics()["block-cache-usage"] for engine in engines]
    assert len(set(usage)) == 1
    assert usage[0] > own.metrics()["block-cache-usage"]
