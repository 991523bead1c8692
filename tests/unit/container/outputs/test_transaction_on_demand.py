"""A producer that had to take over from itself may have shut out its rightful successor: so the owner is asked for."""

import uuid

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.container.outputs.producers import TransactionOnDemand
from samzapy.errors import ProducerFenced, TaskMigrated
from samzapy.system.local.factory import MemorySystemFactory

RECORD = OutgoingRecord("out", b"k", b"v", 0)


@pytest.fixture
def system():
    settings = SystemSettings("mem", "memory", properties={"cluster": uuid.uuid4().hex})
    factory = MemorySystemFactory()
    factory.admin(settings, "test").create(StreamSpec("out", 1))
    return factory, settings


def committed(factory, settings):
    """How many records a reader of committed ones finds."""
    ssp = SystemStreamPartition("mem", "out", 0)
    end = factory.admin(settings, "test").offsets([ssp])[ssp].upcoming
    consumer = factory.consumer(settings, "test")
    consumer.start({ssp: 0})
    records = 0
    while consumer.position(ssp) < end:
        records += sum(len(batch.keys) for batch in consumer.poll(1.0, 100))
    return records


def refuse():
    raise TaskMigrated("a newer attempt runs this container")


def test_an_undisturbed_producer_asks_nobody(system):
    factory, settings = system
    transaction = TransactionOnDemand(factory.producer(settings, "test", "task-0"), refuse)
    transaction.init_transactions()
    transaction.send([RECORD])
    transaction.commit()
    assert committed(factory, settings) == 1


def takes_over(producer):
    """Make its `begin` say so."""
    begin = producer.begin
    producer.begin = lambda: begin() or True


def test_nothing_is_sent_by_a_producer_that_took_over_but_is_not_the_owner(system):
    factory, settings = system
    producer = factory.producer(settings, "test", "task-0")
    transaction = TransactionOnDemand(producer, refuse)
    transaction.init_transactions()
    takes_over(producer)
    with pytest.raises(TaskMigrated):
        transaction.send([RECORD])
    transaction.commit()
    successor = factory.producer(settings, "test", "task-0")
    successor.init_transactions()
    assert committed(factory, settings) == 0


def test_the_owner_goes_on_and_its_predecessor_is_refused(system):
    factory, settings = system
    predecessor = TransactionOnDemand(factory.producer(settings, "test", "task-0"), refuse)
    predecessor.init_transactions()
    predecessor.send([RECORD])
    asked = []
    producer = factory.producer(settings, "test", "task-0")
    owner = TransactionOnDemand(producer, lambda: asked.append("owner"))
    owner.init_transactions()
    takes_over(producer)
    owner.send([RECORD])
    owner.commit()
    assert asked == ["owner"]
    with pytest.raises(ProducerFenced):
        predecessor.commit()
    assert committed(factory, settings) == 1
