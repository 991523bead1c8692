"""The bytes that a store appends to its changelog, as its metrics have them."""

import json
import uuid
from contextlib import closing

import pytest

from samzapy import InitableTask, StreamTask
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

LOG, METRICS = SystemStreamPartition("sys", "counts-log", 0), SystemStreamPartition("sys", "metrics", 0)


class Keeping(InitableTask, StreamTask):
    """Keeps each message, deletes the keys without one, and commits where a message says so."""

    def init(self, context):
        self.store = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        if envelope.message:
            self.store.put(envelope.key, envelope.message)
        else:
            self.store.delete(envelope.key)
        if "commit" in envelope.message:
            coordinator.commit()


@pytest.mark.parametrize("ttl", [{}, {"stores.counts.rocksdb.ttl.ms": "600000"}], ids=["kept", "expiring"])
def test_a_store_counts_the_bytes_of_the_keys_and_values_in_its_changelog(ttl):
    config = load_job(
        {
            "job.name": "kept",
            "task.class": f"{__name__}:Keeping",
            "task.inputs": "sys.in",
            "task.commit.ms": "-1",
            "systems.sys.samza.factory": "memory",
            "systems.sys.cluster": uuid.uuid4().hex,
            "systems.sys.default.stream.samza.offset.default": "oldest",
            "systems.sys.default.stream.samza.key.serde": "string",
            "systems.sys.default.stream.samza.msg.serde": "string",
            "stores.counts.factory": "inmemory",
            "stores.counts.key.serde": "string",
            "stores.counts.msg.serde": "string",
            "stores.counts.changelog": "sys.counts-log",
            "metrics.reporters": "all",
            "metrics.reporter.all.class": "snapshot",
            "metrics.reporter.all.stream": "sys.metrics",
            **ttl,
        }
    )
    settings = config.systems["sys"]
    factory = system_factory(settings)
    admin = factory.admin(settings, "test")
    admin.create(StreamSpec("in", 1))
    messages = [("a", "12345"), ("a", "1"), ("bcd", "commit"), ("bcd", ""), ("é", "x" * 1_000)]
    with closing(factory.producer(settings, "test")) as producer:
        producer.send([OutgoingRecord("in", key.encode(), value.encode(), 0) for key, value in messages])
        producer.flush()
    LocalRunner().run(prepare(config, until_end=True), RunOptions())
    snapshots = [json.loads(value)["metrics"] for _, value in records(factory, settings, admin, METRICS)]
    (*_, counted) = [each["Partition 0"]["store.counts.changelog-bytes"] for each in snapshots if "commit" in each]
    assert counted == sum(map(size, records(factory, settings, admin, LOG)))
    assert counted > 1_000


def size(record):
    key, value = record
    return len(key) + len(value or b"")


def records(factory, settings, admin, ssp):
    found, log = [], admin.offsets([ssp])[ssp]
    with closing(factory.consumer(settings, "test")) as consumer:
        consumer.register(ssp, log.oldest)
        consumer.start()
        while consumer.position(ssp) < log.upcoming:
            for batch in consumer.poll(0.1, 1_000):
                found += zip(batch.keys, batch.values, strict=True)
    return found
