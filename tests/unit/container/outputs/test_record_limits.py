"""Records that are too large for their stream."""

import json
from types import MappingProxyType, SimpleNamespace

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.container.outputs.producers import record_limit
from samzapy.system.clients import SystemClients
from samzapy.system.kafka import KafkaSystemFactory

OWN, CLIENT = 1_048_588, 10_485_760


class KnownTopic(KafkaSystemFactory):
    """Describes every topic alike, without a broker."""

    config = MappingProxyType({"max.message.bytes": str(OWN)})

    def admin(self, settings, client_id):
        described = SimpleNamespace(hidden="", config=self.config)
        return SimpleNamespace(describe=lambda _: described)


@pytest.mark.parametrize(
    ("compression", "outputs"),
    [({}, OWN), ({"compression.type": "none"}, OWN), ({"compression.type": "zstd"}, CLIENT)],
)
def test_the_limit_of_a_stream_counts_for_uncompressed_outputs_only(compression, outputs):
    producer = {"message.max.bytes": str(CLIENT), **compression}
    settings = {"kafka": SystemSettings("kafka", SYSTEMS.short["kafka"], producer=producer)}
    clients = SystemClients(settings, lambda _: KnownTopic(), "test")
    assert record_limit(clients, SystemStream("kafka", "dead")) == outputs


class TooLong(CountingTask):
    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("mem", "table"), {"id": 0, "text": "x" * 2_000}))
        collector.send(OutgoingMessageEnvelope(SystemStream("mem", "table"), {"id": 1}, key="k"))


@pytest.mark.parametrize(("policy", "count"), [("skip", (1, 0)), ("dead-letter", (0, 1))])
def test_an_output_that_its_stream_refuses_follows_the_policy_of_produce(tmp_path, policy, count):
    dead = {"task.dead.letter.stream": "mem.dead"} if policy == "dead-letter" else {}
    job = MemoryJob(tmp_path, partitions=1, task=TooLong, **{"task.error.produce.policy": policy}, **dead)
    job.admin.create(StreamSpec("table", 1, {"max.message.bytes": "1000"}))
    job.admin.create(StreamSpec("dead", 1))
    job.send((0, "k", {"id": 7}))
    counts = job.run().metrics["errors"]
    assert (counts["produce.skipped"], counts["produce.dead-lettered"]) == count
    assert [json.loads(value)["id"] for *_, value in job.read("table")] == [1]
    assert [json.loads(value)["id"] for *_, value in job.read("dead")] == [7] * count[1]
