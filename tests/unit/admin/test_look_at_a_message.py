"""The page's look at a message of an input."""

import uuid

import pytest
from rigs.store_rig import TickingClock

from samzapy.admin.store_queries import JobInspector
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.errors import RetriableError
from samzapy.system.clients import system_factory


@pytest.fixture
def config():
    return load_job(
        {
            "job.name": "j",
            "task.class": "a:B",
            "task.inputs": "m.in",
            "systems.m.samza.factory": "memory",
            "systems.m.cluster": uuid.uuid4().hex,
        }
    )


@pytest.fixture
def transaction(config):
    settings = config.systems["m"]
    factory = system_factory(settings)
    factory.admin(settings, "test").create(StreamSpec("in", 1))
    producer = factory.producer(settings, "test", "id")
    producer.init_transactions()
    producer.begin()
    producer.send([OutgoingRecord("in", b"k", b"v", 0)])
    producer.flush()
    yield producer
    producer.close()


def test_a_message_behind_an_open_transaction_is_given_up_and_found_after_its_end(config, transaction):
    inspector, place = JobInspector(config, TickingClock(10.0)), ("m.in", "0", "0")
    with pytest.raises(RetriableError, match=r"m\.in: no record for 10 s: a transaction before it is still open"):
        inspector.message(*place)
    transaction.commit()
    assert [(each.place, each.value) for each in inspector.message(*place)] == [("m.in[0]@0", '"76"')]
