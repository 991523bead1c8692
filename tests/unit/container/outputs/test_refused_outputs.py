"""What a task cannot send, and what it is told."""

import re

import pytest
from jobs.memory_job import MemoryJob

from samzapy import AsyncStreamTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.serde import Serde
from samzapy.errors import SerdeError, TaskFailed

#: What the task under test sends.
SENT = {
    "unknown": OutgoingMessageEnvelope(SystemStream("nope", "x"), 1),
    "changelog": OutgoingMessageEnvelope(SystemStream("mem", "counts-changelog"), 1),
    "checkpoints": OutgoingMessageEnvelope(SystemStream("mem", "__samza_checkpoint_ver_1_for_counting_1"), 1),
    "system": OutgoingMessageEnvelope(SystemStream("men", "x"), 1),
    "text": OutgoingMessageEnvelope("mem.out", 1),
    "list": OutgoingMessageEnvelope([], 1),
    "none": None,
    "message": {"a": 1},
    "headers": lambda: OutgoingMessageEnvelope(SystemStream("mem", "out"), 1, headers={"a": b"1"}),
    "text header": lambda: OutgoingMessageEnvelope(SystemStream("mem", "out"), 1, headers=[("a", "1")]),
    "time": lambda: OutgoingMessageEnvelope(SystemStream("mem", "out"), 1, timestamp=1.5),
    "late": lambda: OutgoingMessageEnvelope(SystemStream("mem", "out"), 1, timestamp=2**63),
}
REASONS = {
    "unknown": "ValueError: cannot send to nope.x: system 'nope' is not configured; known: mem, or "
    "add systems.nope.samza.factory",
    "system": "ValueError: cannot send to men.x: system 'men' is not configured; known: mem; did you mean mem?",
    "changelog": "ValueError: cannot send to mem.counts-changelog: it is the changelog of store 'counts', which only "
    "the runtime writes",
    "checkpoints": "ValueError: cannot send to mem.__samza_checkpoint_ver_1_for_counting_1: it is the job's checkpoint "
    "topic, which only the runtime writes",
    "text": "TypeError: expected a SystemStream to send to, got str 'mem.out': SystemStream(system, stream)",
    "list": "TypeError: expected a SystemStream to send to, got list []: SystemStream(system, stream)",
    "none": "TypeError: expected an OutgoingMessageEnvelope to send, got NoneType None",
    "message": "TypeError: expected an OutgoingMessageEnvelope to send, got dict {'a': 1}",
    "headers": "TypeError: headers: expected (str, bytes or None) pairs, got {'a': b'1'}",
    "text header": "TypeError: headers: expected (str, bytes or None) pairs, got [('a', '1')]",
    "time": "TypeError: timestamp: expected whole milliseconds since 1970, got 1.5",
    "late": "TypeError: timestamp: expected whole milliseconds since 1970, got 9223372036854775808",
}


def sent(what):
    given = SENT[what]
    return given() if callable(given) else given


class SendingTask(StreamTask):
    """Sends what the message names."""

    def process(self, envelope, collector, coordinator):
        collector.send(sent(envelope.message["id"]))


class AsyncSendingTask(AsyncStreamTask):
    """Sends what the message names."""

    def process_async(self, envelope, collector, coordinator, callback):
        collector.send(sent(envelope.message["id"]))
        callback.complete()


COLLECTORS = {
    "plain": (SendingTask, {}),
    "with ids": (SendingTask, {"task.guarantee": "effectively-once", "task.commit.ms": "1000"}),
    "tolerant": (SendingTask, {"task.error.serialize.policy": "skip"}),
    "sizing": (SendingTask, {"task.error.produce.policy": "skip"}),
    "asynchronous": (AsyncSendingTask, {}),
}


@pytest.mark.parametrize(
    "collector",
    ["plain", "with ids", "asynchronous", *(pytest.param(n, marks=pytest.mark.slow) for n in ("tolerant", "sizing"))],
)
@pytest.mark.parametrize("what", SENT)
def test_what_cannot_be_sent_is_told_at_send_with_the_input(tmp_path, collector, what):
    task, keys = COLLECTORS[collector]
    job = MemoryJob(tmp_path, 1, task, **keys)
    job.send((0, "a", {"id": what}))
    with pytest.raises(TaskFailed) as caught:
        job.run()
    # An asynchronous task has returned by then, so it has no line.
    told = re.sub(r" \(test_refused_outputs\.py:\d+\)$", "", str(caught.value))
    assert told == f"Partition 0: process of mem.in[0]@0 failed: {' '.join(REASONS[what].split())}"


REFUSED = {
    "key": (OutgoingMessageEnvelope(SystemStream("mem", "out"), {}, key=7), "key: string serde takes a str, got int"),
    "partition key": (
        OutgoingMessageEnvelope(SystemStream("mem", "out"), {}, partition_key=b"p"),
        "partition key: string serde takes a str, got bytes",
    ),
    "message": (
        OutgoingMessageEnvelope(SystemStream("mem", "out"), object(), key="k"),
        "message: json serde takes a value of JSON, got object",
    ),
}


class WrongTask(StreamTask):
    """Sends what no serde takes."""

    def process(self, envelope, collector, coordinator):
        collector.send(REFUSED[envelope.message["id"]][0])


@pytest.mark.parametrize("what", REFUSED)
def test_a_serde_that_refuses_names_the_part_and_what_it_takes(tmp_path, what):
    keys = {"streams.out.samza.system": "mem", "streams.out.samza.key.serde": "string"}
    job = MemoryJob(tmp_path, 1, WrongTask, **keys, **{"streams.out.samza.msg.serde": "json"})
    job.send((0, "a", {"id": what}))
    with pytest.raises(SerdeError, match=REFUSED[what][1]):
        job.run()


class OneResult(Serde):
    """Gives whatever the key or message holds."""

    def to_bytes(self, value):
        return value[0]

    def from_bytes(self, data):
        return [data]


class RawTask(StreamTask):
    """Sends the results that the serde of a user is going to give."""

    results = ()

    def process(self, envelope, collector, coordinator):
        part, result = self.results
        stream, given = SystemStream("mem", "out"), {"key": [b"k"], "message": [b"1"], part: [result]}
        match envelope.message["id"]:
            case "send":
                collector.send(OutgoingMessageEnvelope(stream, **given))
            case "send_message":
                collector.send_message(stream, given["message"], given["key"])
            case "send_batch":
                collector.send_batch(stream, [given["key"]], [given["message"]])


@pytest.fixture
def raw_job(tmp_path, monkeypatch):
    def make(call, part, result):
        monkeypatch.setattr(RawTask, "results", (part, result))
        own = {"serializers.registry.own.class": f"{__name__}:OneResult", "streams.out.samza.system": "mem"}
        serdes = {"streams.out.samza.key.serde": "own", "streams.out.samza.msg.serde": "own"}
        job = MemoryJob(tmp_path, 1, RawTask, **own, **serdes)
        job.send((0, "a", {"id": call}))
        return job

    return make


CALLS = [
    *((call, part) for call in ("send", "send_message", "send_batch") for part in ("key", "message")),
    ("send", "partition_key"),
]


@pytest.mark.parametrize(("call", "part"), CALLS)
def test_a_users_serde_that_makes_no_bytes_is_named_at_send(raw_job, call, part):
    with pytest.raises(SerdeError, match=r"mem\.out: cannot serialize .*the serde made str, not bytes"):
        raw_job(call, part, "text").run()


@pytest.mark.parametrize("call", ["send", "send_message", "send_batch"])
@pytest.mark.parametrize("result", [bytearray(b"m"), memoryview(b"m")])
def test_other_buffers_of_a_users_serde_become_the_bytes_of_a_message(raw_job, call, result):
    job = raw_job(call, "message", result)
    job.run()
    assert job.read("out") == [(0, "k", b"m")]
