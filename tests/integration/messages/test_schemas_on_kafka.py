"""Messages with registered schemas on a real Kafka, with a registry over HTTP."""

from __future__ import annotations

import pytest
from jobs import schema_job as jobs
from rigs.schema_registry import schema_registry

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import preparing
from samzapy.serializers import serde_registry
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = [pytest.mark.slow, pytest.mark.kafka]


def test_a_job_with_avro_reads_writes_and_keeps_its_state_exactly_once(
    tmp_path, kafka, kafka_settings, kafka_admin, unique_topic, clients, monkeypatch
):
    orders, totals = unique_topic("orders"), unique_topic("totals")
    for topic in (orders, totals):
        kafka_admin.create(StreamSpec(topic, 1))
    monkeypatch.setattr(jobs, "OUT", type(jobs.OUT)("events", totals))
    with schema_registry() as server:
        flat = {
            "job.name": unique_topic("job")[-60:],
            "job.default.system": "events",
            "job.logged.store.base.dir": str(tmp_path),
            "task.class": "jobs.schema_job:TotalsTask",
            "task.inputs": f"events.{orders}",
            "task.guarantee": "exactly-once",
            "task.checkpoint.replication.factor": "1",
            "systems.events.samza.factory": "kafka",
            "systems.events.consumer.bootstrap.servers": kafka,
            "systems.events.default.stream.replication.factor": "1",
            "systems.events.default.stream.samza.key.serde": "string",
            "systems.events.default.stream.samza.msg.serde": "avro",
            "systems.events.default.stream.samza.offset.default": "oldest",
            "stores.totals.factory": "rocksdb",
            "stores.totals.key.serde": "string",
            "stores.totals.msg.serde": "avro",
            "stores.totals.changelog": f"events.{totals}-changelog",
            **jobs.registry_keys("avro", server.url, jobs.AVRO, auto_register="true"),
        }
        serde = serde_registry(flat)["avro"]
        producer = clients(KafkaSystemFactory().producer(kafka_settings, "test"))
        value = serde.at(orders, "value").to_bytes({"user": "ann", "amount": 3})
        producer.send([OutgoingRecord(orders, b"ann", value, 0)] * 2)
        producer.flush()
        with preparing(load_job(flat), until_end=True) as job:
            LocalRunner().run(job, RunOptions())
        assert f"{totals}-value" in server.subjects
        assert f"{totals}-changelog-value" in server.subjects
        consumer = clients(KafkaSystemFactory().consumer(kafka_settings, "test"))
        consumer.register(SystemStreamPartition("kafka", totals, 0), 0)
        consumer.start()
        found = []
        while len(found) < 2:
            found += [value for batch in consumer.poll(1.0, 10) for value in batch.values]
        assert [serde.from_bytes(value)["amount"] for value in found] == [3, 6]
