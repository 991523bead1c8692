"""A transactional producer whose connection was lost, on a real broker behind a proxy that cuts it."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from rigs.numbered_stream import kafka_at
from rigs.tcp_proxy import Api, TcpProxy, Way

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.devkafka import DevBroker, Listener
from samzapy.devkafka.broker import free_port
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka
FACTORY = KafkaSystemFactory()


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """(settings of a system behind the proxy, proxy)."""
    hidden = free_port()
    with TcpProxy(hidden) as proxy:
        listener = Listener("PROXIED", "PLAINTEXT", hidden, proxy.port)
        with DevBroker(tmp_path_factory.mktemp("proxied"), tied=True, listeners=[listener]):
            yield kafka_at(f"127.0.0.1:{proxy.port}"), proxy


@pytest.fixture
def take_overs(proxied):
    """How many a broker has been asked for so far."""
    _, proxy = proxied
    return lambda: proxy.passed[Api.INIT_PRODUCER_ID, Way.REQUEST]


def committed(settings, ssp):
    admin, consumer = FACTORY.admin(settings, "a"), FACTORY.consumer(settings, "c")
    end = admin.offsets([ssp])[ssp].upcoming
    consumer.start({ssp: 0})
    found = []
    while consumer.position(ssp) < end:
        found += [value for batch in consumer.poll(1.0, 100) for value in batch.values]
    admin.close()
    consumer.close()
    return found


def test_a_producer_takes_over_from_itself_after_a_lost_connection(proxied, take_overs, clients):
    settings, proxy = proxied
    ssp, name = SystemStreamPartition("kafka", uuid.uuid4().hex, 0), uuid.uuid4().hex
    clients(FACTORY.admin(settings, "a")).create(StreamSpec(ssp.stream, 1))
    producer = clients(FACTORY.producer(settings, "p", name))
    producer.init_transactions()
    before = take_overs()
    for value, cut, took_over in ((b"1", False, False), (b"2", True, False), (b"3", False, True), (b"4", False, False)):
        assert write(producer, ssp.stream, value) is took_over
        if cut:
            # What comes now goes over a connection that librdkafka has to make anew.
            assert proxy.reset()
        producer.commit()
    assert take_overs() == before + 1
    assert committed(settings, ssp) == [b"1", b"2", b"3", b"4"]


def test_a_late_end_over_a_lost_connection_ends_no_later_transaction(proxied, clients):
    settings, proxy = proxied
    ssp, name = SystemStreamPartition("kafka", uuid.uuid4().hex, 0), uuid.uuid4().hex
    clients(FACTORY.admin(settings, "a")).create(StreamSpec(ssp.stream, 1))
    producer = clients(FACTORY.producer(settings, "p", name))
    producer.init_transactions()
    hold = proxy.hold(Api.END_TXN)
    write(producer, ssp.stream, b"first")
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(producer.commit)
        hold.wait()
        assert proxy.cut(hold) == 1
        committing.result(60)
    assert write(producer, ssp.stream, b"second")
    proxy.release(hold)
    hold.wait_until_answered()
    producer.abort()
    assert committed(settings, ssp) == [b"first"]


def write(producer, stream, value):
    """Write in a transaction; returns whether its begin was a take-over."""
    took_over = producer.begin()
    producer.send([OutgoingRecord(stream, b"k", value, 0)])
    producer.flush()
    return took_over
