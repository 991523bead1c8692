"""Records as columns from a real Kafka: by the compiled extension, and from confluent-kafka's Messages."""

import random
import threading

import pytest
from rigs.kafka_cluster import grow_topic

from samzapy import native
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import OffsetOutOfRange, SamzapyError, UnknownStream
from samzapy.system.kafka import KafkaSystemFactory, fetching

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

WAYS = [
    pytest.param(True, id="compiled", marks=pytest.mark.skipif(native.extension is None, reason=native.missing)),
    pytest.param(False, id="python"),
]
compiled_only = pytest.mark.skipif(native.extension is None, reason=native.missing)
DEADLINE_S = 60.0


@pytest.fixture
def reader(kafka_settings, clients, monkeypatch):
    """`reader(positions, compiled=...)`: a started consumer."""

    def made(positions, *, compiled=True, settings=kafka_settings):
        with monkeypatch.context() as patched:
            if not compiled:
                patched.setattr(fetching, "extension", None)
            consumer = clients(KafkaSystemFactory().consumer(settings, "test"))
            consumer.start(dict(positions))
        assert isinstance(consumer._fetch, fetching.NativeFetch if compiled else fetching.MessageFetch)
        return consumer

    return made


@pytest.fixture
def producer(kafka_settings, clients):
    return clients(KafkaSystemFactory().producer(kafka_settings, "test"))


def rows(batch):
    headers = batch.headers or [None] * len(batch.offsets)
    return list(zip(batch.offsets, batch.keys, batch.values, batch.timestamps, headers, strict=True))


def read(consumer, ends, most=1_000):
    """Every row of each partition up to the position in `ends`."""
    found, deadline = {ssp: [] for ssp in ends}, SYSTEM_CLOCK.monotonic() + DEADLINE_S
    while any(consumer.position(ssp) < end for ssp, end in ends.items()):
        assert SYSTEM_CLOCK.monotonic() < deadline, f"read {[len(each) for each in found.values()]} of {ends}"
        for batch in consumer.poll(0.1, most):
            found[batch.ssp] += rows(batch)
    return found


def random_records(chosen, topics, count):
    for number in range(count):
        headers = [("n", b"%d" % number), ("n", None), ("é", b"")] if chosen.random() < 0.2 else None
        yield OutgoingRecord(
            chosen.choice(topics),
            chosen.choice([None, b"", b"key-%d" % number]),
            chosen.choice([None, b"", b"value-%d" % number, b"x" * chosen.randrange(2_000)]),
            chosen.randrange(3),
            None,
            headers,
            chosen.choice([None, 1_700_000_000_000 + number]),
        )


@compiled_only
def test_both_ways_find_the_same_records_around_aborted_ones(kafka_settings, kafka_admin, clients, topic, reader):
    chosen, topics = random.Random(11), [topic(3), topic(3)]
    writer = clients(KafkaSystemFactory().producer(kafka_settings, "test", topics[0]))
    writer.init_transactions()
    for commit in (True, False, True, True, False):
        writer.begin()
        writer.send(list(random_records(chosen, topics, 700)))
        writer.flush()
        writer.commit() if commit else writer.abort()
    ssps = [SystemStreamPartition("kafka", name, number) for name in topics for number in range(3)]
    ends = {ssp: log.upcoming for ssp, log in kafka_admin.offsets(ssps).items()}
    starts = dict.fromkeys(ssps, 0)
    found, expected = (read(reader(starts, compiled=way), ends, most=300) for way in (True, False))
    assert found == expected
    assert sum(map(len, found.values())) == 2_100


@pytest.mark.parametrize("compiled", WAYS)
def test_a_consumer_may_be_closed_while_records_wait_and_a_thread_polls(compiled, topic, producer, reader):
    name = topic()
    producer.send([OutgoingRecord(name, None, b"x" * 500, 0) for _ in range(20_000)])
    producer.flush()
    ssp = SystemStreamPartition("kafka", name, 0)
    for _ in range(3):
        consumer, outcomes = reader({ssp: 0}, compiled=compiled), []

        def poll(consumer=consumer, outcomes=outcomes):
            try:
                while True:
                    outcomes.append(len(consumer.poll(0.02, 50)))
            except SamzapyError as closed:
                outcomes.append(str(closed))

        thread = threading.Thread(target=poll)
        thread.start()
        deadline = SYSTEM_CLOCK.monotonic() + DEADLINE_S
        while len(outcomes) < 20:
            assert SYSTEM_CLOCK.monotonic() < deadline
        consumer.close()
        thread.join(DEADLINE_S)
        assert outcomes[-1] == "the consumer of system 'kafka' is not started, or closed"


def outcome(consumer, ends):
    """What polls come to: the read counts at `ends`, or the class of the error."""
    try:
        return {ssp.partition: len(found) for ssp, found in read(consumer, ends).items()}
    except SamzapyError as error:
        return type(error)


def deleted(admin, consumer, ssps):
    admin.delete(ssps[0].stream)
    return dict.fromkeys(ssps, 1_000)


def made_anew(admin, consumer, ssps):
    admin.delete(ssps[0].stream)
    assert isinstance(outcome(consumer, dict.fromkeys(ssps, 1_000)), type)
    admin.create(StreamSpec(ssps[0].stream, 2))
    # The failure of a deleted topic is final.
    return dict.fromkeys(ssps, 1_000)


def grown(admin, consumer, ssps):
    grow_topic(admin._connection.servers, ssps[0].stream, 5)
    return dict.fromkeys(ssps, 10)


EVENTS = {deleted: UnknownStream, made_anew: UnknownStream, grown: {0: 0, 1: 0}}


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_of_the_topic_ends_polls_alike(event, compiled, kafka_admin, topic, producer, reader):
    name = topic(2)
    producer.send([OutgoingRecord(name, None, b"%d" % n, n % 2) for n in range(20)])
    producer.flush()
    ssps = [SystemStreamPartition("kafka", name, number) for number in range(2)]
    consumer = reader(dict.fromkeys(ssps, 0), compiled=compiled)
    assert outcome(consumer, dict.fromkeys(ssps, 10)) == {0: 10, 1: 10}
    assert outcome(consumer, event(kafka_admin, consumer, ssps)) == EVENTS[event]


@pytest.mark.parametrize("compiled", WAYS)
def test_a_position_before_the_log_is_out_of_range_alike(compiled, kafka_admin, topic, producer, reader):
    name = topic()
    producer.send([OutgoingRecord(name, None, b"%d" % n, 0) for n in range(10)])
    producer.flush()
    ssp = SystemStreamPartition("kafka", name, 0)
    kafka_admin.delete_records(ssp, 7)
    assert outcome(reader({ssp: 3}, compiled=compiled), {ssp: 10}) == OffsetOutOfRange
