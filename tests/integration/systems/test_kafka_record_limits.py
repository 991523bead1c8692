"""Records that the broker, and not the client, refuses."""

import uuid
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.error_policy import Action, ErrorConfig, ErrorPolicy, Stage
from samzapy.container.errors.recovery import CheckingCollector, Recovery
from samzapy.container.errors.user_failures import HandledFailures
from samzapy.container.outputs.collector import Outbox
from samzapy.container.outputs.producers import record_limit
from samzapy.errors import RecordRefused, RecordTooLarge, TransactionIndeterminate
from samzapy.metrics import Registry
from samzapy.system.clients import SystemClients, system_factory
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka
LIMIT = 20_000


@pytest.fixture
def topic(kafka_admin, unique_topic):
    name = unique_topic()
    kafka_admin.create(StreamSpec(name, 1, {"max.message.bytes": str(LIMIT)}))
    return name


@pytest.fixture
def producer(kafka_settings):
    made = []

    def make(transactional_id=None, **properties):
        settings = replace(kafka_settings, producer=properties)
        made.append(KafkaSystemFactory().producer(settings, "test", transactional_id))
        return made[-1]

    yield make
    for each in made:
        each.close()


def count(kafka_settings, kafka_admin, topic):
    ssp = SystemStreamPartition("kafka", topic, 0)
    consumer = KafkaSystemFactory().consumer(kafka_settings, "test")
    found, end = 0, kafka_admin.offsets([ssp])[ssp].upcoming
    consumer.start({ssp: 0})
    while consumer.position(ssp) < end:
        found += sum(len(batch.values) for batch in consumer.poll(0.2, 1_000))
    consumer.close()
    return found


def test_a_transaction_with_a_refused_record_is_aborted_and_another_works(kafka_settings, kafka_admin, topic, producer):
    name = f"limits-{uuid.uuid4().hex[:8]}"
    spoilt = producer(name)
    spoilt.init_transactions()
    spoilt.begin()
    spoilt.send([OutgoingRecord(topic, b"k", b"x" * 2 * LIMIT, 0)])
    with pytest.raises(RecordTooLarge, match=rf"kafka\.{topic}\[0\]: record of 40,001 B > max\.message\.bytes 20,000"):
        spoilt.flush()
    spoilt.abort()
    with pytest.raises(TransactionIndeterminate, match="the broker has refused a record of it"):
        spoilt.begin()
    spoilt.close()
    again = producer(name)
    again.init_transactions()
    again.begin()
    again.send([OutgoingRecord(topic, b"k", b"fits", 0)])
    again.commit()
    assert count(kafka_settings, kafka_admin, topic) == 1


def test_a_batch_too_large_for_the_broker_names_the_property_to_lower(kafka_settings, kafka_admin, topic, producer):
    records = [OutgoingRecord(topic, b"k", b"x" * 1_000, 0)] * 500
    writer = producer()
    writer.send(records)
    with pytest.raises(RecordTooLarge, match=r"systems\.kafka\.producer\.batch\.size must be below its max\.message"):
        writer.flush()
    smaller = producer(**{"batch.size": str(LIMIT - 2_000)})
    before = count(kafka_settings, kafka_admin, topic)
    smaller.send(records)
    smaller.flush()
    assert count(kafka_settings, kafka_admin, topic) - before == 500


@pytest.mark.parametrize("later", ["flush", "send"])
def test_effectively_once_nothing_overtakes_a_record_that_is_refused(
    kafka_settings, kafka_admin, topic, producer, later
):
    writer = producer(**{"batch.num.messages": "1", "linger.ms": "0"})
    sizes = [2 * LIMIT if number == 10 else 10 for number in range(60)]
    calls = {"flush": writer.flush, "send": lambda: writer.send([OutgoingRecord(topic, b"k", b"later", 0)])}

    def send_all_and_go_on():
        # The broker may answer before all are sent.
        writer.send([OutgoingRecord(topic, b"k", b"x" * size, 0) for size in sizes])
        list(iter(calls[later], "never"))

    with pytest.raises(RecordTooLarge, match=rf"kafka\.{topic}\[0\]: record of 40,001 B > max\.message\.bytes 20,000"):
        send_all_and_go_on()
    writer.close()
    assert count(kafka_settings, kafka_admin, topic) == 10


REFUSED = {
    "a time far ahead": (OutgoingRecord("", b"k", b"v", 0, timestamp=2**53), {}, "for its timestamp: .*after.max.ms"),
    "no key": (
        OutgoingRecord("", None, b"v", 0),
        {"cleanup.policy": "compact"},
        "in a compacted topic each needs a key",
    ),
}


@pytest.mark.parametrize("what", ["a size", *REFUSED])
def test_the_policy_decides_about_what_the_broker_would_refuse(kafka_settings, kafka_admin, unique_topic, what):
    large = OutgoingRecord("", b"k", b"x" * (LIMIT - 50)), {"max.message.bytes": str(LIMIT)}
    record, config, *_ = REFUSED.get(what, large)
    metrics, stream = Registry(), SystemStream("kafka", unique_topic())
    kafka_admin.create(StreamSpec(stream.stream, 1, config))
    skipping = ErrorConfig(dict.fromkeys(Stage, ErrorPolicy(Action.SKIP)))
    recovery = Recovery("t", skipping, metrics, lambda _: None, SYSTEM_CLOCK, None, HandledFailures())
    # Only the broker has a limit that matters.
    settings = replace(kafka_settings, producer={"message.max.bytes": "9000000"})
    with closing(SystemClients({"kafka": settings}, system_factory, "test")) as clients:
        limit_of = partial(record_limit, clients)
        collector = CheckingCollector(
            lambda _: (None, None), clients.producer, lambda *_: (), Outbox(), recovery, limit_of
        )
        collector.send(OutgoingMessageEnvelope(stream, b"good", b"k", timestamp=SYSTEM_CLOCK.wall_ms() + 60_000))
        collector.send(OutgoingMessageEnvelope(stream, record.value, record.key, timestamp=record.timestamp))
        collector.hand_over()
        clients.producer("kafka").flush()
    assert metrics.counter("errors", "produce.skipped").count == 1
    assert count(kafka_settings, kafka_admin, stream.stream) == 1


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_a_record_that_no_repetition_helps_says_so(kafka_admin, unique_topic, producer, what, transactional):
    record, config, message = REFUSED[what]
    stream = unique_topic()
    kafka_admin.create(StreamSpec(stream, 1, config))
    writer = producer(f"refused-{uuid.uuid4().hex[:8]}" if transactional else None)
    if transactional:
        writer.init_transactions()
        writer.begin()
    writer.send([OutgoingRecord(stream, b"good", b"v", 0), record._replace(stream=stream)])
    with pytest.raises(RecordRefused, match=rf"kafka\.{stream}\[0\]: the broker refuses a record.*{message}"):
        writer.flush()
