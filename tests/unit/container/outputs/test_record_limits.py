"""The sizes at which records are too large before they are sent."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from jobs.memory_job import MemoryJob

from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.container.outputs.producers import RecordLimit, RecordLimits
from samzapy.system.clients import SystemClients
from samzapy.system.kafka.factory import KafkaSystemFactory
from samzapy.system.memory.clients import MemoryAdmin
from samzapy.system.memory.factory import MemorySystemFactory

OWN, CLIENT = 1_048_588, 10_485_760


class KnownTopic(KafkaSystemFactory):
    """Describes every topic alike, without a broker."""

    def admin(self, settings, client_id):
        described = SimpleNamespace(hidden="", config={"max.message.bytes": str(OWN)})
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


class SmallerThanTheyAre(MemoryAdmin):
    """Its streams take larger records than they say, as if these were compressed."""

    def describe(self, stream):
        found = super().describe(stream)
        return found and replace(found, config={**found.config, "max.message.bytes": "2000"})


class Compressing(MemorySystemFactory):
    def admin(self, settings, client_id):
        return SmallerThanTheyAre(super().admin(settings, client_id)._cluster, settings.name)

    def compresses(self, settings):
        return True


def test_outputs_and_dead_letters_that_fit_compressed_are_sent_whole(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    job.admin.create(StreamSpec("dead", 1))
    large = "x" * 5_000
    job.send((0, "k", {"id": 0, "do": "fail", "held": large}), (0, "k", {"id": large}))
    policies = {"task.error.process.policy": "dead-letter", "task.error.produce.policy": "skip"}
    dead = {"task.dead.letter.stream": "mem.dead"}
    report = job.run(**policies, **dead, **{"systems.mem.samza.factory": f"{__name__}:Compressing"})
    assert (report.metrics["errors"]["produce.skipped"], report.metrics["errors"]["process.dead-lettered"]) == (0, 1)
    assert [json.loads(value) for *_, value in job.read("dead")] == [{"id": 0, "do": "fail", "held": large}]
    assert [json.loads(value)["id"] for *_, value in job.read("out")] == [large]
