"""Ids of outputs in effectively-once, as a receiver sees them."""

from urllib.parse import unquote

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy import OutgoingMessageEnvelope, StreamTask
from samzapy.api.envelope import OutputId, source_of
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.config.error_policy import Stage

BROADCAST = {"task.guarantee": "effectively-once", "task.commit.ms": "1000", "task.broadcast.inputs": "mem.rates#0"}


class Answering(StreamTask):
    """Answers every message once."""

    def process(self, envelope, collector, coordinator):
        if envelope.message.get("bad"):
            raise ValueError("told to")
        collector.send(OutgoingMessageEnvelope(OUT, {"id": envelope.message["id"]}, key=envelope.key))


def ids(job, stream):
    """The ids of a stream's messages."""
    partitions = job.admin.describe(stream).partitions
    ssps = [SystemStreamPartition("mem", stream, n) for n in range(partitions)]
    ranges, consumer, found = job.admin.offsets(ssps), job._new_consumer(), []
    consumer.start({ssp: ranges[ssp].oldest for ssp in ssps})
    while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
        for batch in consumer.poll(0.1, 1_000):
            found += [OutputId.of(headers) for headers in batch.headers]
    consumer.close()
    return found


@pytest.fixture
def job(tmp_path):
    made = MemoryJob(tmp_path, task=Answering, **BROADCAST)
    made.admin.create(StreamSpec("rates", 1))
    made.admin.create(StreamSpec("letters", 1))
    return made


def test_what_two_tasks_make_of_a_broadcast_message_are_two_messages(job):
    job.send((0, "a", {"id": 1}), (1, "b", {"id": 2}))
    job.send((0, "r", {"id": 3}), stream="rates")
    job.run()
    stream_id = {name: job.admin.describe(name).stream_id for name in ("in", "rates")}
    found = ids(job, "out")
    inputs = [("in", 0, ""), ("in", 1, ""), ("rates", 0, "Partition 0"), ("rates", 0, "Partition 1")]
    assert sorted(each.source for each in found) == sorted(
        source_of(("counting", "1"), SystemStreamPartition("mem", name, number), stream_id[name], task, "out")
        for name, number, task in inputs
    )
    assert {each[1:] for each in found} == {(0, 0)}


def test_dead_letters_of_a_broadcast_message_name_their_tasks_too(job):
    job.send((0, "r", {"id": 3, "bad": True}), stream="rates")
    job.run(**{f"task.error.{Stage.PROCESS.value}.policy": "dead-letter", "task.dead.letter.stream": "mem.letters"})
    assert sorted(unquote(found.source.split(":")[7]) for found in ids(job, "letters")) == [
        "Partition 0",
        "Partition 1",
    ]
