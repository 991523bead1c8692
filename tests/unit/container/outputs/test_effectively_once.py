"""Effectively-once from end to end on the memory system: nothing is sent that a receiver would drop, nothing twice."""

import asyncio
import json
import random
from collections import Counter
from typing import ClassVar

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy import CoroutineTask, OutgoingMessageEnvelope, StreamTask, SystemStream, SystemStreamPartition
from samzapy.api.envelope import OutputId
from samzapy.api.system import StreamSpec
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.operators import DeduplicatingTask

UNIQUE = SystemStream("mem", "unique")
EFFECTIVELY = {"task.guarantee": "effectively-once", "task.commit.ms": "50000"}
SEEN = {
    "stores.deduplication.factory": "inmemory",
    "stores.deduplication.key.serde": "string",
    "stores.deduplication.msg.serde": "json",
    "stores.deduplication.changelog": "mem.deduplication-changelog",
}


class SendingAsync(CoroutineTask):
    """Sends as many outputs as the message says, after so many turns of the event loop; `failures`: how often each
    message fails first."""

    calls: ClassVar[list] = []
    failures: ClassVar[Counter] = Counter()

    async def process(self, envelope, collector, coordinator):
        for _ in range(envelope.message["turns"]):
            await asyncio.sleep(0)
        for number in range(envelope.message["outputs"]):
            output = {"id": envelope.message["id"], "number": number}
            collector.send(OutgoingMessageEnvelope(OUT, output, key=envelope.key))
        self.calls.append(envelope.offset)
        if self.failures[envelope.offset] > 0:
            self.failures[envelope.offset] -= 1
            raise ValueError("told to")
        await asyncio.sleep(0)


class Receiving(DeduplicatingTask):
    """Passes on what is new."""

    calls: ClassVar[list] = []

    def process_new(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(UNIQUE, envelope.message, key="k"))


class Pipeline:
    """Senders from `in` to `out`, and a receiver from `out` to `unique`."""

    def __init__(self, folder, task, **keys):
        self.sender = MemoryJob(folder / "sender", 1, task, **EFFECTIVELY | keys)
        receiving = {
            "job.name": "receiving",
            "task.inputs": "mem.out",
            "systems.mem.cluster": self.sender.flat["systems.mem.cluster"],
            "stores.counts.changelog": "mem.receiving-counts",
        }
        self.receiver = MemoryJob(folder / "receiving", task=Receiving, **EFFECTIVELY | SEEN | receiving)
        for stream in ("unique", "letters"):
            self.sender.admin.create(StreamSpec(stream, 1))

    def received(self):
        """What the receiver has passed on, sorted."""
        self.receiver.run()
        return sorted((m["id"], m["number"]) for m in map(json.loads, self.receiver.values("unique")))

    def sent(self, stream):
        """The id of every record of a stream, in order."""
        ssp = SystemStreamPartition("mem", stream, 0)
        end, consumer, found = self.sender.admin.offsets([ssp])[ssp].upcoming, self.sender._new_consumer(), []
        consumer.start({ssp: 0})
        while consumer.position(ssp) < end:
            found += [OutputId.of(each) for batch in consumer.poll(0.1, 1_000) for each in batch.headers]
        consumer.close()
        return found


@pytest.fixture(autouse=True)
def no_failures():
    SendingAsync.failures.clear()


@pytest.mark.parametrize("policy", ["skip", "retry(2, 0) then dead-letter"])
def test_effectively_once_sends_in_the_order_of_offsets_whatever_fails(tmp_path, policy):
    keys = {"task.error.process.policy": policy, "task.dead.letter.stream": "mem.letters"}
    pipeline = Pipeline(tmp_path, SendingAsync, **{"task.max.concurrency": "8"}, **keys)
    drawn = random.Random(1)
    messages = [{"id": i, "turns": drawn.randrange(12), "outputs": drawn.choice([0, 1, 1, 2])} for i in range(40)]
    SendingAsync.failures.update({offset: 1 + offset % 4 for offset in range(0, 40, 3)})
    pipeline.sender.send(*((0, f"key-{message['id'] % 7}", message) for message in messages))
    pipeline.sender.run()
    for stream in ("out", "letters"):
        places = [(each.source, each.offset, each.number) for each in pipeline.sent(stream)]
        assert places == sorted(set(places))
    lost = {offset for offset in range(0, 40, 3) if policy == "skip" or offset % 4 == 3 or offset % 4 == 2}
    assert {i for i, _ in pipeline.received()} == {m["id"] for m in messages if m["outputs"] and m["id"] not in lost}


class Garbling(StreamTask):
    """Sends three outputs, of which two do not serialize."""

    calls: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        for output in (object(), {"id": envelope.message["id"], "number": 1}, object()):
            collector.send(OutgoingMessageEnvelope(OUT, output, key="k"))
        if envelope.message.get("fails"):
            raise ValueError("told to")


@pytest.mark.parametrize("letters", ["letters", "out"])
def test_effectively_once_gives_two_letters_of_one_input_two_ids(tmp_path, letters):
    keys = {"task.error.serialize.policy": "dead-letter", "task.error.process.policy": "dead-letter"}
    pipeline = Pipeline(tmp_path, Garbling, **keys, **{"task.dead.letter.stream": f"mem.{letters}"})
    pipeline.sender.run()
    pipeline.sender.send((0, "k", {"id": 0, "number": 7}), (0, "k", {"id": 1, "number": 8, "fails": True}))
    arm("commit.4")
    with pytest.raises(FailPointReached):
        pipeline.sender.run()
    disarm()
    pipeline.sender.run()
    sent = pipeline.sent(letters)
    found = {(each.source.rpartition(":")[2], each.offset, each.number) for each in sent}
    # The message that failed took its outputs and their letters back, and has one of its own.
    assert {each for each in found if each[0] == "letter"} == {("letter", 0, 0), ("letter", 0, 1), ("letter", 1, 0)}
    assert len(sent) == 2 * len(found)
    if letters == "out":
        assert pipeline.received() == [(0, 1), (0, 7), (0, 7), (1, 8)]
