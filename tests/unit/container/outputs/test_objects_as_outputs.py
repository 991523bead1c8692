"""Objects sent to a json output that names no class: they are what msgspec writes for them."""

import datetime as dt
import json

import attr
import attrs
import msgspec
import pytest
from typing_extensions import Self

from samzapy import BatchTask, StreamTask, SystemStream
from samzapy.errors import SerdeError
from samzapy.serializers.documents import JsonSerde, JsonSerdeFactory
from samzapy.testing import TaskTestDriver

OUT = SystemStream("sys", "out")
JOB = {"task.inputs": "sys.in", "systems.sys.default.stream.samza.msg.serde": "json"}


class Point(msgspec.Struct, rename="camel", tag=True):
    at_x: int
    at_y: int = 0


class Event(msgspec.Struct, tag_field="kind", tag="event", omit_defaults=True):
    id: int
    when: dt.datetime = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    raw: bytes = b""
    place: Point | None = msgspec.field(default=None, name="pl-ace")


class Row(msgspec.Struct, array_like=True):
    a: int
    b: str


@attrs.define
class Named:
    name: str


OBJECTS = [
    Point(1),
    Event(2),
    Event(3, dt.datetime(2026, 2, 3, 4, tzinfo=dt.timezone.utc), b"x", Point(5, 6)),
    Row(7, "y"),
    Named("z"),
]


class Sending(StreamTask):
    def process(self, envelope, collector, coordinator):
        collector.send_message(OUT, {"plain": 1})
        for each in OBJECTS:
            collector.send_message(OUT, each)
        collector.send_message(OUT, {"held": OBJECTS, "n": 1})
        if envelope.message == "odd":
            collector.send_message(OUT, {"odd": {1}})


class SendingBatches(BatchTask):
    def process_batch(self, batch, collector, coordinator):
        odd = [{"odd": {1}}] * ("odd" in batch.messages)
        messages = [{"plain": 1}, *OBJECTS, {"held": OBJECTS, "n": 1}, *odd]
        collector.send_batch(OUT, None, messages, inputs=[batch.offsets[0]] * len(messages))


@pytest.mark.parametrize("policy", [{}, {"task.error.serialize.policy": "skip"}, {"task.error.produce.policy": "skip"}])
@pytest.mark.parametrize("task", [Sending, SendingBatches])
def test_an_object_without_a_class_in_the_job_file_is_what_msgspec_writes(task, policy):
    with TaskTestDriver(task, JOB | policy) as driver:
        driver.send("in", "x")
        driver.send("in", "x")
        written = [json.loads(msgspec.json.encode(each)) for each in OBJECTS]
        assert driver.outputs("out").messages == [{"plain": 1}, *written, {"held": written, "n": 1}] * 2


@pytest.mark.parametrize("task", [Sending, SendingBatches])
def test_what_is_no_document_is_refused_all_the_same(task):
    with TaskTestDriver(task, JOB) as driver:
        driver.send("in", "x")
        with pytest.raises(SerdeError, match=r"message=\{'odd': \{1\}\}.*Type is not JSON serializable: set"):
            driver.send("in", "odd")


class PassingOn(StreamTask):
    def process(self, envelope, collector, coordinator):
        collector.send_message(OUT, envelope.message)


class PassingBatchesOn(BatchTask):
    def process_batch(self, batch, collector, coordinator):
        collector.send_batch(OUT, None, batch.messages)


@pytest.mark.parametrize("task", [PassingOn, PassingBatchesOn])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
def test_an_int_beyond_64_bits_passes_unchanged(task, number):
    messages = [{"n": 1}, {"wei": number, "n": 1}, {"n": 2}]
    with TaskTestDriver(task, JOB) as driver:
        driver.send_batch("in", None, messages)
        assert driver.outputs("out").messages == messages


@pytest.mark.parametrize("value", OBJECTS)
def test_the_bytes_are_those_of_msgspec(value):
    assert JsonSerde().wider().to_bytes(value) == msgspec.json.encode(value)


@attrs.define
class Account:
    owner: str
    _balance: int = 0


class Bank(msgspec.Struct):
    accounts: list[Account]


@attrs.define
class OfAbsentName:
    count: "Missing"  # noqa: F821


@pytest.mark.parametrize("value", [Account("ann", 5), {"held": [Account("ann", 5)]}, Bank([Account("ann", 5)])])
def test_an_object_with_an_attribute_that_would_not_be_written_is_refused_each_time(value):
    class SendingIt(StreamTask):
        def process(self, envelope, collector, coordinator):
            collector.send_message(OUT, value)

    for _ in range(2):
        with (
            TaskTestDriver(SendingIt, JOB) as driver,
            pytest.raises(SerdeError, match=r"message: Account\._balance would not be written"),
        ):
            driver.send("in", "x")


@attr.s
class Unannotated:
    count = attr.ib()


class First(msgspec.Struct):
    count: int


class Second(msgspec.Struct):
    page: str


class OfUntaggedUnion(msgspec.Struct):
    held: First | Second


class OfItself(msgspec.Struct):
    next: Self | None = None


@attrs.define
class WithCache:
    count: int
    _known: dict = attrs.field(init=False, factory=dict)


def test_an_object_of_a_class_with_an_absent_name_is_written():
    assert JsonSerde().wider().to_bytes({"held": OfAbsentName(1)}) == b'{"held":{"count":1}}'


@pytest.mark.parametrize("value", [Unannotated(1), OfUntaggedUnion(First(1)), OfItself(OfItself()), WithCache(1)])
def test_an_object_of_a_class_that_could_not_be_read_is_written(value):
    assert JsonSerde().wider().to_bytes([value]) == b"[" + msgspec.json.encode(value) + b"]"


@attr.s
class UnannotatedAccount:
    _balance = attr.ib()


def test_an_object_without_annotations_that_would_not_be_written_whole_is_refused():
    with pytest.raises(TypeError) as refused:
        JsonSerde().wider().to_bytes([UnannotatedAccount(1)])
    assert str(refused.value.__cause__).startswith("UnannotatedAccount._balance would not be written")


def test_sorted_keys_are_those_of_objects_too():
    serde = JsonSerdeFactory().serde("json", {"sort.keys": "true"}).wider()
    assert serde.to_bytes({"b": Point(1, 2), "a": 1}) == b'{"a":1,"b":{"atX":1,"atY":2,"type":"Point"}}'
