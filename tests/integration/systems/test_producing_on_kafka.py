"""Records into a real Kafka: by the compiled extension, and by confluent-kafka's calls for each."""

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from samzapy import native
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingColumns, OutgoingRecord, change_columns
from samzapy.errors import ProducerError, RecordTooLarge, UnknownPartition, UnknownStream
from samzapy.system.kafka import KafkaSystemFactory, client, queue

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

compiled_only = pytest.mark.skipif(native.extension is None, reason=native.missing)
WAYS = [pytest.param(True, id="compiled", marks=compiled_only), pytest.param(False, id="python")]


@pytest.fixture
def writer(kafka_settings, clients, monkeypatch):
    """`writer(compiled, transactional_id)`: a producer whose client is made that way."""

    def made(compiled, transactional_id=None, **properties):
        if not compiled:
            monkeypatch.setattr(queue, "extension", None)
        named = {name.replace("_", "."): value for name, value in properties.items()}
        settings = replace(kafka_settings, producer={**kafka_settings.producer, **kafka_settings.consumer, **named})
        return clients(KafkaSystemFactory().producer(settings, "test", transactional_id))

    return made


@pytest.fixture
def lower_limit(kafka):
    """`lower_limit(topic, size)` sets the topic's max.message.bytes."""

    def lower(name, size):
        resource = ConfigResource(ResourceType.TOPIC, name)
        change = AlterConfigOpType.SET
        resource.add_incremental_config(ConfigEntry("max.message.bytes", str(size), incremental_operation=change))
        admin = AdminClient({"bootstrap.servers": kafka})
        (answer,) = admin.incremental_alter_configs([resource]).values()
        answer.result(30)

    return lower


@pytest.fixture
def stored(kafka_settings, kafka_admin, clients):
    """`stored(stream, partitions)`: (key, value, headers, time) of the records of each partition."""

    def read(stream, partitions):
        found = []
        for number in range(partitions):
            ssp = SystemStreamPartition("kafka", stream, number)
            consumer, end, records = KafkaSystemFactory().consumer(kafka_settings, "test"), 0, []
            consumer.start({ssp: 0})
            end = kafka_admin.offsets([ssp])[ssp].upcoming
            while consumer.position(ssp) < end:
                for batch in consumer.poll(0.1, 5_000):
                    headers = batch.headers or [None] * len(batch.offsets)
                    records += zip(batch.keys, batch.values, headers, batch.timestamps, strict=True)
            consumer.close()
            found.append(records)
        return found

    return read


def random_records(stream, count, seed=3):
    chosen = random.Random(seed)
    for number in range(count):
        key = chosen.choice([b"", b"key-%d" % (number % 50)])
        place = chosen.choice([{}, {"partition": chosen.randrange(3)}, {"partition_key": b"p%d" % (number % 7)}])
        headers = chosen.choice([None, None, (("n", b"%d" % number), ("n", None), ("é", b""))])
        value = chosen.choice([None, b"", b"value-%d" % number])
        yield OutgoingRecord(stream, key, value, headers=headers, timestamp=1_700_000_000_000 + number, **place)


@compiled_only
def test_both_ways_store_the_same_records(topic, writer, stored):
    found = []
    for compiled in (True, False):
        streams = [topic(3), topic(3)]
        producer = writer(compiled)
        records = [record for stream in streams for record in random_records(stream, 400)]
        random.Random(5).shuffle(records)
        producer.send(records)
        sent = producer.flush()
        found.append([stored(stream, 3) for stream in streams])
        last = [[sent.get((stream, number)) for number in range(3)] for stream in streams]
        assert all(
            offset is None or 0 <= offset < len(records)
            for row, stream in zip(last, found[-1], strict=True)
            for offset, records in zip(row, stream, strict=True)
        )
    assert found[0] == found[1]
    assert sum(len(records) for stream in found[0] for records in stream) == 800


@pytest.mark.parametrize("compiled", WAYS)
def test_columns_keep_the_order_of_each_key_and_null_is_not_empty(compiled, topic, writer, stored):
    stream = topic(3)
    producer = writer(compiled)
    keys = [b"k%d" % (n % 20) for n in range(9_000)]
    values = [None if n % 7 == 0 else b"" if n % 7 == 1 else b"%d" % n for n in range(9_000)]
    producer.send_columns(OutgoingColumns(stream, keys, values))
    producer.send_columns(OutgoingColumns(stream, None, [b"without a key"]))
    producer.flush()
    records = [each for partition in stored(stream, 3) for each in partition]
    for key in set(keys):
        expected = [value for each, value in zip(keys, values, strict=True) if each == key]
        assert [value for each, value, _, _ in records if each == key] == expected
    assert [value for key, value, _, _ in records if key is None] == [b"without a key"]


@pytest.mark.parametrize("compiled", WAYS)
def test_the_last_offset_of_each_of_many_partitions_is_known(compiled, topic, writer, kafka_admin):
    stream = topic(150)
    producer = writer(compiled)
    for turn in range(1, 3):
        for number in range(150):
            producer.send_columns(change_columns(stream, number, [(b"k%d" % n, b"v") for n in range(number % 5 + 1)]))
        assert producer.flush() == {(stream, n): turn * (n % 5 + 1) - 1 for n in range(150)}


@pytest.mark.parametrize("compiled", WAYS)
def test_a_full_queue_is_waited_for_and_nothing_changes_its_order(compiled, topic, writer, stored):
    stream = topic()
    producer = writer(compiled, queue_buffering_max_messages="100", linger_ms="1")
    changes = [(b"k%d" % n, b"v%d" % n) for n in range(3_000)]
    producer.send_columns(change_columns(stream, 0, changes[:1_500])._replace(headers=[[("h", b"1")]] * 1_500))
    producer.send_columns(OutgoingColumns(stream, *map(list, zip(*changes[1_500:], strict=True)), [0] * 1_500))
    producer.flush()
    (records,) = stored(stream, 1)
    assert [(key, value) for key, value, _, _ in records] == changes
    assert [headers for _, _, headers, _ in records] == [[("h", b"1")]] * 1_500 + [None] * 1_500


@pytest.mark.parametrize("compiled", WAYS)
def test_records_without_a_broker_fail_by_name(compiled, kafka_settings, topic, writer):
    stream = topic(2)
    producer = writer(compiled, message_timeout_ms="1000")
    producer.send_columns(change_columns(stream, 1, [(b"k", b"v")]))
    producer.flush()
    producer.send_columns(change_columns(stream, 1, [(b"k", b"12345")]))
    producer._client.purge()
    with pytest.raises(ProducerError, match=rf"kafka\.{stream}\[1\]: record of 6 B was not acknowledged"):
        producer.flush()


def test_records_that_are_not_acknowledged_in_time_are_counted(topic, writer, monkeypatch):
    producer = writer(compiled=False)
    producer.send_columns(change_columns(topic(), 0, [(b"k", b"v"), (b"l", b"v")]))
    # A broker may answer before any deadline.
    monkeypatch.setattr(type(producer), "_flush_some", lambda *_: 2)
    with pytest.raises(ProducerError, match=r"2 records were not acknowledged after 0 s on "):
        producer.flush(0.0)


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("headers", [None, (("a", b"1"),)])
def test_a_record_above_the_limit_is_refused_and_those_before_it_are_sent(compiled, headers, topic, writer, stored):
    stream = topic()
    producer = writer(compiled)
    columns = change_columns(stream, 0, [(b"a", b"v"), (b"k", b"x" * 2_000_000), (b"b", b"v")])
    with pytest.raises(RecordTooLarge, match=rf"kafka\.{stream}\[0\]: .*2,000,001 B"):
        producer.send_columns(columns._replace(headers=headers and [headers] * 3))
    with pytest.raises(UnknownPartition):
        writer(compiled).send_columns(change_columns(stream, 1, [(b"a", b"v")]))


@compiled_only
def test_records_of_a_paused_queue_wait_until_it_goes_on(kafka, topic):
    properties = {"bootstrap.servers": kafka, "enable.idempotence": "true"}
    errors = client.Connection("test", kafka, properties)
    producer, records = queue.open_producer(errors, lambda _: None, with_offsets=True)
    stream = topic(2)
    for partition in (0, 1):
        records.send(change_columns(stream, partition, [(b"k", b"before")]))
    assert producer.flush(30) == 0
    records.pause(on=True)
    for partition in (0, 1):
        records.send(change_columns(stream, partition, [(b"k", b"kept back")]))
    assert producer.flush(0.5) == 2
    records.pause(on=False)
    assert producer.flush(30) == 0
    assert records.settle() == {(stream, 0): 1, (stream, 1): 1}


#: Gives producers up with records in their queues, over and over.
GIVE_UP = """
import gc, sys
from samzapy.api.system import SystemSettings, change_columns
from samzapy.system.kafka import KafkaSystemFactory
settings = SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": sys.argv[1]})
for number in range(30):
    producer = KafkaSystemFactory().producer(settings, "p")
    producer.send_columns(change_columns(sys.argv[2], 0, [(b"k%d" % n, b"v") for n in range(3_000)]))
    if number % 2:
        producer.purge()
    del producer
    gc.collect()
print("given up")
"""


@compiled_only
def test_outcomes_of_records_given_up_with_their_producer_have_a_place(kafka, topic):
    # Freed memory is overwritten, so that a late outcome crashes the process or lets it hang.
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", GIVE_UP, kafka, topic()],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (0, "given up\n"), done.stderr


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transaction"])
@pytest.mark.parametrize("compiled", WAYS)
def test_a_record_for_a_deleted_topic_is_an_unknown_stream(compiled, transactional, topic, writer, kafka_admin):
    name = topic()
    producer = writer(compiled, f"id-{name}" if transactional else None)
    if transactional:
        producer.init_transactions()
        producer.begin()
    producer.send([OutgoingRecord(name, None, b"before", 0)])
    producer.flush()
    if transactional:
        producer.commit()
        producer.begin()
    kafka_admin.delete(name)
    producer.send([OutgoingRecord(name, None, b"after", 0)])
    with pytest.raises(UnknownStream, match=f"topic '{name}' does not exist"):
        producer.flush()


@pytest.mark.parametrize("compiled", WAYS)
def test_records_after_a_refused_one_fail_with_its_size_and_the_setting(
    compiled, topic, writer, kafka_admin, lower_limit
):
    name = topic()
    producer = writer(compiled, f"id-{name}")
    producer.init_transactions()
    producer.begin()
    lower_limit(name, 1_000)
    producer.send([OutgoingRecord(name, None, b"x" * 5_000, 0)])
    assert producer._client.flush(30) == 0  # alone in its batch
    with pytest.raises(RecordTooLarge, match=r"record of 5,000 B.*max\.message\.bytes"):  # noqa: PT012
        for _ in range(600):
            producer.send([OutgoingRecord(name, None, b"small", 0)])
            producer._client.poll(0.05)
