"""One changelog partition on an embedded system, and the store that is restored from it.

As a program, `BASE NTH`: restores the store below BASE from the local system there, and is killed at the NTH batch.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec, SystemSettings, change_columns
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.stores import StoreConfig
from samzapy.failpoints import arm
from samzapy.storage.changelog.restore import StoreRestore, run_restores
from samzapy.storage.changelog.topic import Tail
from samzapy.storage.local.directory import LocalFiles, store_directory
from samzapy.storage.local.marker import StoreIdentity
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.storage.spec import StoreSpec
from samzapy.system.clients import system_factory

SSP = SystemStreamPartition("log", "changes", 0)
IDENTITY = StoreIdentity("job-1", "s", 0, "t")
#: So small that a restore reaches the disk on its way.
STORE = StoreConfig("s", "rocksdb", "bytes", "bytes", properties={"container.write.buffer.size.bytes": "65536"})
BATCH = 100


@dataclass
class Changelog:
    """One changelog partition on an embedded system, and the store that is made from it."""

    system: str
    base: Path

    def __post_init__(self):
        properties = {"path": str(self.base / "log.db")} if self.system == "local" else {}
        self.settings = SystemSettings(
            "log", f"samzapy.system.local.factory:{self.system.title()}SystemFactory", properties=properties
        )
        self.factory = system_factory(self.settings)
        self.admin = self.factory.admin(self.settings, "test")
        policy = {"cleanup.policy": "compact", "delete.retention.ms": "0", "min.compaction.lag.ms": "0"}
        self.admin.create(StreamSpec(SSP.stream, 1, policy))

    def append(self, changes):
        producer = self.factory.producer(self.settings, "test")
        producer.send_columns(change_columns(SSP.stream, SSP.partition, changes))
        producer.flush()
        producer.close()

    def restore(self):
        """Restore the local store from where it is; its rows, how many records were read, and the end of the log."""
        spec = StoreSpec(STORE, RocksDbStorageEngineFactory())
        path = store_directory(self.base, "job-1", "s", "Partition 0")
        local = LocalFiles(spec, path, SYSTEM_CLOCK, lock_wait_s=0.0).open_kept(lambda marker: None)
        log = self.admin.offsets([SSP])[SSP]
        start = log.oldest if local.marker is None else local.marker.changelog_offset + 1
        restore = StoreRestore(local.engine, IDENTITY, Tail(SSP, start, log.upcoming), chunk_bytes=5_000)
        consumer = self.factory.consumer(self.settings, "test")
        try:
            if start < log.upcoming:
                run_restores([restore], consumer, SYSTEM_CLOCK, poll_records=BATCH)
            with local.engine.iterate(None, None) as pairs:
                return dict(pairs), restore.records
        finally:
            consumer.close()
            local.engine.close()


if __name__ == "__main__":
    arm("restore.batch", nth=int(sys.argv[2]), action="kill")
    Changelog("local", Path(sys.argv[1])).restore()
