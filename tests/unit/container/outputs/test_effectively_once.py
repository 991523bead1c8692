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


class Sending(StreamTask):
    """Sends as many outputs as the message says, to the stream it names."""

    calls: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        send(envelope, collector)
        if envelope.message.get("commit"):
            coordinator.commit()


class SendingAsync(CoroutineTask):
    """As `Sending`, after so many turns of the event loop as the message says; `failures`: how often each fails
    first."""

    calls: ClassVar[list] = []
    failures: ClassVar[Counter] = Counter()

    async def process(self, envelope, collector, coordinator):
        for _ in range(envelope.message.get("turns", 0)):
            await asyncio.sleep(0)
        send(envelope, collector)
        self.calls.append(envelope.offset)
        if self.failures[envelope.offset] > 0:
            self.failures[envelope.offset] -= 1
            raise ValueError("told to")
        await asyncio.sleep(0)


def send(envelope, collector):
    message = envelope.message
    for number in range(message.get("outputs", 1)):
        output = {"id": message["id"], "number": number}
        collector.send(OutgoingMessageEnvelope(OUT, output, key=envelope.key if message.get("keyed", True) else None))


class Receiving(DeduplicatingTask):
    """Passes on what is new."""

    calls: ClassVar[list] = []

    def process_new(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(UNIQUE, envelope.message, key="k"))


class Pipeline:
    """Senders from `in` to `out`, and a receiver from `out` to `unique`."""

    def __init__(self, folder, task=Sending, partitions=1, outs=1, **keys):
        self.sender = MemoryJob(folder / "sender", partitions, task, **EFFECTIVELY | keys)
        self.cluster = self.sender.flat["systems.mem.cluster"]
        if outs != partitions:
            self.sender.admin.delete("out")
            self.sender.admin.create(StreamSpec("out", outs))
        self.receiver = self.another(folder, "receiving", Receiving, **SEEN, **{"task.inputs": "mem.out"})
        self.sender.admin.create(StreamSpec("unique", 1))
        self.sender.admin.create(StreamSpec("letters", 1))

    def another(self, folder, name, task=Sending, **keys):
        """One more job on the cluster."""
        names = {"job.name": name, "systems.mem.cluster": self.cluster, "stores.counts.changelog": f"mem.{name}-counts"}
        return MemoryJob(folder / name, task=task, **EFFECTIVELY | names | keys)

    def received(self):
        """What the receiver has passed on, sorted."""
        self.receiver.run()
        return sorted((m["id"], m["number"]) for m in map(json.loads, self.receiver.values("unique")))

    def sent(self, stream="out"):
        """(partition, id) of every record of a stream, in order per partition."""
        partitions = self.sender.admin.describe(stream).partitions
        ssps = [SystemStreamPartition("mem", stream, number) for number in range(partitions)]
        ranges, consumer, found = self.sender.admin.offsets(ssps), self.sender._new_consumer(), []
        consumer.start(dict.fromkeys(ssps, 0))
        while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
            for batch in consumer.poll(0.1, 1_000):
                found += [(batch.ssp.partition, OutputId.of(headers)) for headers in batch.headers]
        consumer.close()
        return found

    def crash(self, step, job=None, nth=1):
        """Run the sender, or another job, into a crash right after a step of its commit. It has run before: the commit
        of a first start has no outputs."""
        arm(step, nth)
        try:
            with pytest.raises(FailPointReached):
                (job or self.sender).run()
        finally:
            disarm()


def messages(seed, count=40, partitions=1):
    """Messages with random numbers of turns and outputs, and what a receiver is to get of them."""
    drawn = random.Random(seed)
    made = [{"id": i, "turns": drawn.randrange(12), "outputs": drawn.choice([0, 1, 1, 2])} for i in range(count)]
    due = sorted((m["id"], number) for m in made for number in range(m["outputs"]))
    return [(i % partitions, f"key-{i % 7}", m) for i, m in enumerate(made)], due


@pytest.fixture(autouse=True)
def no_failures():
    SendingAsync.failures.clear()


@pytest.mark.parametrize("policy", ["skip", "retry(2, 0) then dead-letter"])
def test_effectively_once_sends_in_the_order_of_offsets_whatever_fails(tmp_path, policy):
    keys = {"task.error.process.policy": policy, "task.dead.letter.stream": "mem.letters"}
    pipeline = Pipeline(tmp_path, SendingAsync, **{"task.max.concurrency": "8"}, **keys)
    inputs, _ = messages(1)
    SendingAsync.failures.update({offset: 1 + offset % 4 for offset in range(0, 40, 3)})
    pipeline.sender.send(*inputs)
    pipeline.sender.run()
    for stream in ("out", "letters"):
        places = [(each.source, each.offset, each.number) for _, each in pipeline.sent(stream)]
        assert places == sorted(set(places))
    lost = {offset for offset in range(0, 40, 3) if policy == "skip" or offset % 4 == 3 or offset % 4 == 2}
    assert {i for i, _ in pipeline.received()} == {
        m["id"] for _, _, m in inputs if m["outputs"] and m["id"] not in lost
    }


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
    pipeline.crash("commit.4")
    pipeline.sender.run()
    sent = [identity for _, identity in pipeline.sent(letters)]
    found = {(each.origin.kind, each.offset, each.number) for each in sent}
    # The message that failed took its outputs and their letters back, and has one of its own.
    assert {each for each in found if each[0] == "letter"} == {("letter", 0, 0), ("letter", 0, 1), ("letter", 1, 0)}
    assert len(sent) == 2 * len(found)
    if letters == "out":
        assert pipeline.received() == [(0, 1), (0, 7), (0, 7), (1, 8)]
