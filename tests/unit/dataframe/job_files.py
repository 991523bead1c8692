"""A job of the page-view task in a folder, and its changelog, for what Spark would run in its workers."""

from contextlib import closing
from pathlib import Path

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec, SystemSettings, change_columns
from samzapy.config.loader import load_job
from samzapy.system.local import LocalSystemFactory

PARTITIONS = 2
LOG = "counts-log"
TASKS = {0: "Partition 0", 1: "Partition 1"}


class JobFolder:
    """The job's flat pairs with absolute paths, its input, and its changelog."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        self.folder = folder
        self.keys = {
            "job.name": "views",
            "job.default.system": "local",
            "job.logged.store.base.dir": str(folder / "state"),
            "systems.local.samza.factory": "local",
            "systems.local.path": str(folder / "local.db"),
            "systems.local.default.stream.samza.key.serde": "string",
            "systems.local.default.stream.samza.msg.serde": "json",
            "systems.local.default.stream.samza.offset.default": "oldest",
            "task.class": "samzapy.examples.page_views:PageViewCountTask",
            "task.inputs": "local.views",
            "page.views.output": "local.out",
            "stores.counts.factory": "rocksdb",
            "stores.counts.key.serde": "string",
            "stores.counts.msg.serde": "long",
            "stores.counts.changelog": f"local.{LOG}",
            **overrides,
        }
        self.config = load_job(self.keys)
        self.factory = LocalSystemFactory()
        self.settings: SystemSettings = self.config.systems["local"]
        self.admin = self.factory.admin(self.settings, "test")
        for stream in ("views", "out"):
            self.admin.create(StreamSpec(stream, PARTITIONS))

    def create_log(self) -> None:
        self.admin.create(StreamSpec(LOG, PARTITIONS, {"cleanup.policy": "compact"}))

    def ssp(self, partition: int, stream: str = LOG) -> SystemStreamPartition:
        return SystemStreamPartition("local", stream, partition)

    def log(self, partition: int):
        return self.admin.offsets([self.ssp(partition)])[self.ssp(partition)]

    def append(self, partition: int, *changes: tuple[bytes, bytes | None], stream: str = LOG) -> None:
        with closing(self.factory.producer(self.settings, "test")) as producer:
            producer.send_columns(change_columns(stream, partition, changes))
            producer.flush()

    def committed(self, partition: int, stream: str = LOG) -> list[tuple[bytes | None, bytes | None]]:
        """Every committed record, in order."""
        found, log = [], self.admin.offsets([self.ssp(partition, stream)])[self.ssp(partition, stream)]
        with closing(self.factory.consumer(self.settings, "test")) as consumer:
            consumer.start({self.ssp(partition, stream): log.oldest})
            while consumer.position(self.ssp(partition, stream)) < log.upcoming:
                for batch in consumer.poll(0.1, 10_000):
                    found += zip(batch.keys, batch.values, strict=True)
        return found


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)
