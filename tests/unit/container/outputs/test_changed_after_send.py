"""A message, key or header that the task changes after it has sent it leaves as it was sent, from each kind of task."""

from dataclasses import dataclass, field

import pytest

from samzapy import AsyncStreamTask, BatchTask, CoroutineTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.testing import TaskTestDriver

OUT = SystemStream("sys", "out")
JOB = {
    "task.inputs": "sys.in",
    "systems.sys.default.stream.samza.key.serde": "json",
    "systems.sys.default.stream.samza.msg.serde": "json",
}


@dataclass
class Place:
    name: str
    tags: list[str] = field(default_factory=list)


def send_changing(collector):
    """Send one envelope three times, and change everything in it in between."""
    message, key, headers = {"n": 0, "deep": [[0]]}, [0], [("n", b"0")]
    envelope = OutgoingMessageEnvelope(OUT, message, key=key, headers=headers)
    for number in (1, 2, 3):
        collector.send(envelope)
        message["n"] = message["deep"][0][0] = key[0] = number
        headers[0] = ("n", b"%d" % number)
        envelope = OutgoingMessageEnvelope(OUT, message, key=key, headers=headers)
    place = Place("oslo")
    collector.send_message(OUT, place)
    place.name = "rome"
    place.tags.append("old")


class Messages(StreamTask):
    def process(self, envelope, collector, coordinator):
        send_changing(collector)


class Coroutines(CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        send_changing(collector)


class Callbacks(AsyncStreamTask):
    def process_async(self, envelope, collector, coordinator, callback):
        send_changing(collector)
        callback.complete()


class Batches(BatchTask):
    def process_batch(self, batch, collector, coordinator):
        send_changing(collector)


ONCE = {"task.guarantee": "effectively-once", "task.checkpoint.factory": "topic", "task.checkpoint.system": "sys"}


@pytest.mark.parametrize("guarantee", [{}, ONCE | {"task.batch.max.messages": "1"}], ids=["at-least", "effectively"])
@pytest.mark.parametrize("task", [Messages, Coroutines, Callbacks, Batches])
def test_an_output_leaves_as_it_was_sent(task, guarantee):
    with TaskTestDriver(task, JOB | guarantee) as driver:
        driver.send("in", 1)
        *changing, place = driver.outputs("out")
        assert [each.message for each in changing] == [{"n": n, "deep": [[n]]} for n in (0, 1, 2)]
        assert [each.key for each in changing] == [[0], [1], [2]]
        assert [dict(each.headers)["n"] for each in changing] == [b"0", b"1", b"2"]
        assert place.message == {"name": "oslo", "tags": []}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a\udcff", r"headers\[1\]: the name 'a\\udcff' has no form in UTF-8 \(surrogates not allowed\)"),
        ("a\0b", r"headers\[1\]: the name 'a\\x00b' has a NUL, which would end it"),
    ],
)
def test_a_header_with_a_name_that_cannot_be_sent_is_refused(name, reason):
    # A client in C would end the process, or cut the name off.
    with pytest.raises(ValueError, match=reason):
        OutgoingMessageEnvelope(OUT, 1, headers=[("fine\t\u00e9", b""), (name, b"1")])
