"""What samzapy's promises rest on, on a real broker: bounds, transactions, fencing, refusals, outages."""

import uuid

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import EnvironmentFailure, ProducerFenced
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka
FACTORY = KafkaSystemFactory()
DEADLINE_S = 40.0


@pytest.fixture
def topic(kafka_admin):
    def create(partitions=1, **config):
        name = f"integration-{uuid.uuid4().hex[:12]}"
        kafka_admin.create(StreamSpec(name, partitions, {k.replace("_", "."): v for k, v in config.items()}))
        return name

    return create


@pytest.fixture
def producer(kafka_settings, clients):
    def make(transactional_id=None, settings=None, timeout_ms=60_000):
        made = clients(FACTORY.producer(settings or kafka_settings, "p", transactional_id, timeout_ms))
        if transactional_id is not None:
            made.init_transactions()
        return made

    return make


@pytest.fixture
def reader(kafka_settings, clients):
    def make(ssp, offset, settings=None):
        made = clients(FACTORY.consumer(settings or kafka_settings, "c"))
        made.start({ssp: offset})
        return made

    return make


def ssp_of(stream, partition=0):
    return SystemStreamPartition("kafka", stream, partition)


def record(stream, value, key=b"k", partition=0):
    return OutgoingRecord(stream, key, value, partition)


def read_until(consumer, done):
    found, deadline = [], SYSTEM_CLOCK.monotonic() + DEADLINE_S
    while not done(found):
        assert SYSTEM_CLOCK.monotonic() < deadline, f"only {found} came in time"
        found.extend(value for batch in consumer.poll(0.2, 1000) for value in batch.values)
    return found


def test_a_transaction_that_took_too_long_costs_the_producer(topic, producer, reader, kafka_admin):
    stream = topic()
    ssp = ssp_of(stream)
    slow = producer(uuid.uuid4().hex, timeout_ms=1000)
    slow.begin()
    slow.send([record(stream, b"late")])
    slow.flush()
    consumer = reader(ssp, 0)
    assert read_until(consumer, lambda _: consumer.position(ssp) >= 1) == []
    with pytest.raises(ProducerFenced):
        slow.commit()


@pytest.mark.parametrize(
    ("security", "reason"),
    [
        # librdkafka reports the same lost connection as a failed handshake or as a broker that is away.
        ({"security.protocol": "ssl"}, "(TLS handshake failed|.*SSL handshake failed)"),
        (
            {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "hunter2",
            },
            "authentication failed",
        ),
    ],
)
def test_a_listener_that_speaks_otherwise_is_told_as_such(kafka, security, reason):
    secure = SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": kafka, **security})
    with pytest.raises(EnvironmentFailure, match=f"{kafka}.*{reason}") as raised:
        FACTORY.admin(secure, "a").list_streams()
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)
