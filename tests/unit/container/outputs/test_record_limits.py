"""Records that their stream would refuse: too large, without a key, or with a time too far from now."""

import json
from types import MappingProxyType, SimpleNamespace

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.container.outputs.producers import RecordLimit, RecordLimits
from samzapy.system.clients import SystemClients
from samzapy.system.kafka.factory import KafkaSystemFactory

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
def test_the_limit_of_a_stream_counts_for_outputs_only_if_they_are_not_compressed(compression, outputs):
    producer = {"message.max.bytes": str(CLIENT), **compression}
    settings = {"kafka": SystemSettings("kafka", SYSTEMS.short["kafka"], producer=producer)}
    limits = RecordLimits(SystemClients(settings, lambda _: KnownTopic(), "test"))
    stream = SystemStream("kafka", "dead")
    assert limits.of_outputs(stream) == RecordLimit(outputs)
    assert limits.of(stream) == RecordLimit(OWN)


NOW = 1_700_000_000_000
COMPACT = {"cleanup.policy": "compact,delete"}
TIMES = {"message.timestamp.before.max.ms": "5000", "message.timestamp.after.max.ms": "3000"}
AFTER, BEFORE = (
    "ms after now > message.timestamp.after.max.ms 3,000",
    "ms before now > message.timestamp.before.max.ms 5,000",
)


@pytest.mark.parametrize(
    ("config", "record", "said"),
    [
        ({"max.message.bytes": "10"}, {"value": b"x" * 10}, "record of 11 B > max.message.bytes 10"),
        ({"max.message.bytes": "10"}, {"value": b"x" * 9}, None),
        (COMPACT, {"key": None}, "a record of a compacted stream needs a key, got None"),
        (COMPACT, {}, None),
        ({"cleanup.policy": "delete"}, {"key": None}, None),
        (TIMES, {"timestamp": NOW + 3_001}, f"record with the time stamp {NOW + 3_001}, 3,001 {AFTER}"),
        (TIMES, {"timestamp": NOW - 5_001}, f"record with the time stamp {NOW - 5_001}, 5,001 {BEFORE}"),
        (TIMES, {"timestamp": NOW + 3_000}, None),
        (TIMES, {"timestamp": NOW - 5_000}, None),
        (TIMES, {"timestamp": None}, None),
        ({**TIMES, "message.timestamp.type": "LogAppendTime"}, {"timestamp": NOW + 9_999}, None),
        ({}, {"key": None, "timestamp": 2 * NOW}, None),
    ],
)
def test_a_record_that_its_stream_would_refuse_is_told_with_the_setting(config, record, said, monkeypatch):
    monkeypatch.setattr(KnownTopic, "config", config)
    settings = {"kafka": SystemSettings("kafka", SYSTEMS.short["kafka"])}
    limit = RecordLimits(SystemClients(settings, lambda _: KnownTopic(), "test")).of_outputs(
        SystemStream("kafka", "out")
    )
    found = limit.refusal(
        SystemStream("kafka", "out"), OutgoingRecord("out", b"k", b"v")._replace(**record), lambda: NOW
    )
    assert (None if found is None else str(found)) == (said and f"kafka.out: {said}")


class Keyless(CountingTask):
    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("mem", "table"), {"id": 0}))
        collector.send(OutgoingMessageEnvelope(SystemStream("mem", "table"), {"id": 1}, key="k"))


@pytest.mark.parametrize(("policy", "count"), [("skip", (1, 0)), ("dead-letter", (0, 1))])
def test_an_output_that_its_stream_refuses_follows_the_policy_of_produce(tmp_path, policy, count):
    dead = {"task.dead.letter.stream": "mem.dead"} if policy == "dead-letter" else {}
    job = MemoryJob(tmp_path, partitions=1, task=Keyless, **{"task.error.produce.policy": policy}, **dead)
    job.admin.create(StreamSpec("table", 1, {"cleanup.policy": "compact"}))
    job.admin.create(StreamSpec("dead", 1))
    job.send((0, "k", {"id": 7}))
    counts = job.run().metrics["errors"]
    assert (counts["produce.skipped"], counts["produce.dead-lettered"]) == count
    assert [json.loads(value)["id"] for *_, value in job.read("table")] == [1]
    assert [json.loads(value)["id"] for *_, value in job.read("dead")] == [7] * count[1]
