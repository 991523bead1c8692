"""What a task sends as columns reaches the producer as columns, between the records before and after it."""

import pytest

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingColumns, StreamSpec, SystemSettings
from samzapy.container.outputs.collector import BufferingCollector, Outbox
from samzapy.container.outputs.producers import ForwardingProducer
from samzapy.errors import Unreachable
from samzapy.serializers import JsonSerde, StringSerde
from samzapy.system.local.factory import MemoryCluster, MemorySystemFactory

OUT = SystemStream("memory", "out")
WAYS = {"send": [OutgoingMessageEnvelope(OUT, 1, "a")], "send_message": [OUT, 1, "a"], "send_batch": [OUT, ["a"], [1]]}


class Noting(ForwardingProducer):
    """Notes what it passes on."""

    def __init__(self, producer):
        super().__init__(producer)
        self.passed = []

    def send_columns(self, columns):
        self.passed.append(columns)
        self._producer.send_columns(columns)


@pytest.fixture
def made():
    """A collector over a producer that notes, and the producer."""
    MemoryCluster.reset_all()
    settings = SystemSettings("memory", "samzapy.system.local.factory:MemorySystemFactory")
    factory = MemorySystemFactory()
    factory.admin(settings, "admin").create(StreamSpec("out", 2))
    noting, serdes = Noting(factory.producer(settings, "test")), (None, JsonSerde())
    return BufferingCollector(lambda stream: serdes, lambda system: noting, None, Outbox()), noting


def test_columns_and_records_leave_as_and_in_the_order_they_were_sent(made):
    (collector, noting), keys = made, [b"c", b"d"]
    collector.send_message(OUT, 1, b"a")
    collector.send(OutgoingMessageEnvelope(OUT, 2, b"b"))
    collector.send_batch(OUT, keys, [3, None])
    keys.clear()
    collector.send_batch(OUT, None, [5], partition_keys=[1])
    collector.send_message(OUT, 6, b"f")
    collector.hand_over()
    assert noting.passed == [
        OutgoingColumns("out", (b"a", b"b"), (b"1", b"2")),
        OutgoingColumns("out", [b"c", b"d"], [b"3", None]),
        OutgoingColumns("out", None, [b"5"], [1], [None]),
        OutgoingColumns("out", (b"f",), (b"6",)),
    ]
    assert collector.sent == 6


def test_outputs_that_are_taken_back_were_columns_or_records(made):
    collector, noting = made
    collector.send_batch(OUT, [b"a"], [1])
    mark = collector.mark()
    collector.send_batch(OUT, [b"b", b"c"], [2, 3])
    collector.send_message(OUT, 4, b"d")
    taken = collector.take_since(mark)
    collector.hand_over()
    assert noting.passed == [OutgoingColumns("out", [b"a"], [b"1"])]
    collector.put_back(taken)
    collector.hand_over()
    assert noting.passed[1:] == [
        OutgoingColumns("out", [b"b", b"c"], [b"2", b"3"]),
        OutgoingColumns("out", (b"d",), (b"4",)),
    ]


@pytest.mark.parametrize("send", WAYS)
def test_a_service_that_a_serde_does_not_reach_is_no_fault_of_an_output(send):
    class WithoutService(JsonSerde):
        def to_bytes(self, value):
            raise Unreachable("registry: does not answer")

    serdes = StringSerde(), WithoutService()
    collector = BufferingCollector(lambda stream: serdes, lambda system: None, None, Outbox())
    with pytest.raises(Unreachable, match=r"^registry: does not answer$"):
        getattr(collector, send)(*WAYS[send])
