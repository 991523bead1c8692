"""Records that their stream would refuse: too large, without a key, or with a time too far from now."""

import json
from types import MappingProxyType, SimpleNamespace

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.container.outputs.producers import record_limit
from samzapy.errors import RecordRefused
from samzapy.system.clients import SystemClients
from samzapy.system.kafka import KafkaSystemFactory
from samzapy.testing import ManualClock

OWN, CLIENT = 1_048_588, 10_485_760


class KnownTopic(KafkaSystemFactory):
    """Describes every topic alike, without a broker."""

    config = MappingProxyType({"max.message.bytes": str(OWN)})

    def admin(self, settings, client_id):
        described = SimpleNamespace(hidden="", config=self.config)
        return SimpleNamespace(describe=lambda _: described)


@pytest.mark.parametrize(
    ("compression", "outputs"), [({}, OWN), ({"compression.type": "none"}, OWN), ({"compression.type": "zstd"}, CLIENT)]
)
def test_the_limit_of_a_stream_counts_for_uncompressed_outputs_only(compression, outputs):
    producer = {"message.max.bytes": str(CLIENT), **compression}
    settings = {"kafka": SystemSettings("kafka", SYSTEMS.short["kafka"], producer=producer)}
    clients = SystemClients(settings, lambda _: KnownTopic(), "test")
    assert record_limit(clients, SystemStream("kafka", "dead")).record_bytes == outputs


NOW = 1_700_000_000_000
TIMES = {"message.timestamp.before.max.ms": "5000", "message.timestamp.after.max.ms": "3000"}


@pytest.mark.parametrize(
    ("config", "record", "expected"),
    [
        ({"cleanup.policy": "compact,delete"}, {"key": None}, "a record of a compacted stream needs a key, got None"),
        (
            TIMES,
            {"timestamp": NOW + 3_001},
            f"{NOW + 3_001}, 3,001 ms after now > message.timestamp.after.max.ms 3,000",
        ),
        (
            TIMES,
            {"timestamp": NOW - 5_001},
            f"{NOW - 5_001}, 5,001 ms before now > message.timestamp.before.max.ms 5,000",
        ),
        (TIMES, {"timestamp": NOW + 3_000}, None),
        (TIMES, {"timestamp": NOW - 5_000}, None),
        (TIMES | {"message.timestamp.type": "LogAppendTime"}, {"timestamp": NOW + 9_999}, None),
        ({"cleanup.policy": "delete"}, {"key": None, "timestamp": 2 * NOW}, None),
    ],
)
def test_a_refusal_of_a_key_or_a_time_names_the_setting(config, record, expected, monkeypatch):
    monkeypatch.setattr(KnownTopic, "config", config)
    settings = {"kafka": SystemSettings("kafka", SYSTEMS.short["kafka"])}
    stream, sent = SystemStream("kafka", "out"), OutgoingRecord("out", b"k", b"v")._replace(**record)
    limit = record_limit(SystemClients(settings, lambda _: KnownTopic(), "test"), stream)
    refusal = limit.refusal(stream, sent, ManualClock(NOW))
    assert refusal is expected or str(refusal).endswith(expected)


class Refused(CountingTask):
    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("mem", "table"), {"id": 0, "text": "x" * 2_000}, key="k"))
        collector.send(OutgoingMessageEnvelope(SystemStream("mem", "table"), {"id": 0}))
        collector.send(OutgoingMessageEnvelope(SystemStream("mem", "table"), {"id": 1}, key="k"))


def test_an_output_that_ends_the_attempt_names_its_key_and_its_inputs(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, task=Refused)
    job.admin.create(StreamSpec("table", 1, {"max.message.bytes": "1000"}))
    job.send((0, "a", {"id": 7}), (0, "b", {"id": 8}))
    said = r"^mem\.table\[0\]: key b'k': record of 2,0\d\d B .* \(while processing mem\.in\[0\]@0 to 1\)$"
    with pytest.raises(RecordRefused, match=said) as caught:
        job.run()
    assert caught.value.call.span == ("mem.in[0]", 0, 1)


@pytest.mark.parametrize(("policy", "count"), [("skip", (2, 0)), ("dead-letter", (0, 2))])
def test_an_output_that_its_stream_refuses_follows_the_policy_of_produce(tmp_path, policy, count):
    dead = {"task.dead.letter.stream": "mem.dead"} if policy == "dead-letter" else {}
    job = MemoryJob(tmp_path, partitions=1, task=Refused, **{"task.error.produce.policy": policy}, **dead)
    job.admin.create(StreamSpec("table", 1, {"max.message.bytes": "1000", "cleanup.policy": "compact"}))
    job.admin.create(StreamSpec("dead", 1))
    job.send((0, "k", {"id": 7}))
    counts = job.run().metrics["errors"]
    assert (counts.get("produce.skipped", 0), counts.get("produce.dead-lettered", 0)) == count
    assert [json.loads(value)["id"] for *_, value in job.read("table")] == [1]
    assert [json.loads(value)["id"] for *_, value in job.read("dead")] == [7] * count[1]
