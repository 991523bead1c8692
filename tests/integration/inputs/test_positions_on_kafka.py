"""A consumer's position is of a topic's id and of a leader epoch: topics that are created again, and logs that lose
records."""

import struct
import time

import pytest

from samzapy import native
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.devkafka import DevBroker
from samzapy.errors import PositionVoid
from samzapy.system.kafka import KafkaSystemFactory, fetching

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

WAYS = [
    pytest.param(True, id="compiled", marks=pytest.mark.skipif(native.extension is None, reason=native.missing)),
    pytest.param(False, id="python"),
]
DEADLINE_S = 40.0


def settings_of(bootstrap):
    return SystemSettings("kafka", "samzapy.system.kafka:KafkaSystemFactory", consumer={"bootstrap.servers": bootstrap})


@pytest.fixture
def reader(clients, monkeypatch):
    """`reader(settings, ssp, offset, ...)`: a started consumer of one partition."""

    def made(settings, ssp, offset, stream_id="", epoch=None, *, compiled=True):
        with monkeypatch.context() as patched:
            if not compiled:
                patched.setattr(fetching, "extension", None)
            consumer = clients(KafkaSystemFactory().consumer(settings, "test"))
            consumer.start({ssp: offset}, {ssp.system_stream: stream_id}, {} if epoch is None else {ssp: epoch})
        return consumer

    return made


@pytest.fixture
def fill(kafka_settings, clients):
    def filled(stream, values, settings=kafka_settings):
        producer = clients(KafkaSystemFactory().producer(settings, "test"))
        producer.send([OutgoingRecord(stream, None, value, 0) for value in values])
        producer.flush()

    return filled


@pytest.fixture
def anew(kafka_admin):
    """Deletes a topic and creates it at once."""

    def made(stream):
        kafka_admin.delete(stream)
        kafka_admin.create(StreamSpec(stream, 1))

    return made


def until(consumer, count):
    """The values of the next records, at least `count` of them."""
    found, deadline = [], time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} records"
        found += [value for batch in consumer.poll(0.1, 50) for value in batch.values]
    return found


def until_void(consumer):
    """The error, and the values of the records that came before it."""
    found, deadline = [], time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            found += [value for batch in consumer.poll(0.1, 50) for value in batch.values]
        except PositionVoid as void:
            return void, found
    pytest.fail(f"no error; {len(found)} records")


@pytest.mark.parametrize("compiled", WAYS)
def test_no_record_of_a_recreated_topic_is_returned(reader, fill, anew, kafka_admin, kafka_settings, topic, compiled):
    stream = topic()
    ssp = SystemStreamPartition("kafka", stream, 0)
    fill(stream, [b"old"] * 5)
    before = kafka_admin.describe(stream).stream_id
    consumer = reader(kafka_settings, ssp, 0, before, compiled=compiled)
    assert until(consumer, 5) == [b"old"] * 5

    anew(stream)
    fill(stream, [b"new"] * 400)
    void, others = until_void(consumer)

    now = kafka_admin.describe(stream).stream_id
    assert others == []
    assert f"{before}, now {now}" in str(void)
    assert f"samzapy startpoint set JOB.properties oldest --input 'kafka.{stream}'" in str(void)
    with pytest.raises(PositionVoid):
        consumer.poll(0, 10)


class LosingBroker:
    """A broker whose logs lose their last records, as those of a replica that was behind and became the leader."""

    def __init__(self, folder):
        self._folder = folder
        self._broker = DevBroker(folder, tied=True)
        self.settings = settings_of(self._broker.start())

    def lose(self, ssp, first):
        """Stop, drop the records from the offset `first` on, and start again: under a greater leader epoch."""
        self._broker.stop()
        log = self._folder / "data" / f"{ssp.stream}-{ssp.partition}"
        segment = log / f"{0:020}.log"
        data, at = segment.read_bytes(), 0
        while at < len(data):
            offset, size = struct.unpack(">qi", data[at : at + 12])
            if offset >= first:
                break
            at += 12 + size
        assert offset == first, "no batch begins there"
        segment.write_bytes(data[:at])
        for index in (*log.glob("*.index"), *log.glob("*.timeindex"), *log.glob("*.snapshot")):
            index.unlink()
        (self._folder / "data" / ".kafka_cleanshutdown").unlink()
        self._broker.start()

    def stop(self):
        self._broker.stop()


@pytest.fixture(scope="module")
def losing(tmp_path_factory):
    broker = LosingBroker(tmp_path_factory.mktemp("losing"))
    yield broker
    broker.stop()


@pytest.fixture
def lossy(losing, clients, unique_topic, fill):
    """A partition with 400 records, in batches of 100."""
    stream = unique_topic()
    clients(KafkaSystemFactory().admin(losing.settings, "test")).create(StreamSpec(stream, 1))
    for _ in range(4):
        fill(stream, [b"old"] * 100, losing.settings)
    return SystemStreamPartition("kafka", stream, 0)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", WAYS)
def test_epochs_of_positions_find_an_unclean_election(reader, fill, losing, lossy, compiled):
    running = reader(losing.settings, lossy, 0, compiled=compiled)
    until(running, 400)
    epoch = running.epochs()[lossy]

    losing.lose(lossy, 300)
    fill(lossy.stream, [b"new"] * 200, losing.settings)

    starting = reader(losing.settings, lossy, 400, "", epoch, compiled=compiled)
    unknown = reader(losing.settings, lossy, 400, compiled=compiled)
    for consumer in (running, starting):
        void, others = until_void(consumer)
        assert others == []
        assert f"{lossy}: the position is 400 in leader epoch {epoch}, but the log ends at 300 in leader epoch" in str(
            void
        )
        assert f"startpoint set JOB.properties 300 --input '{lossy}'" in str(void)
        assert f"startpoint set JOB.properties 400 --input '{lossy}'" in str(void)
    assert until(unknown, 100) == [b"new"] * 100


@pytest.mark.slow
def test_epochs_refuse_no_position_behind_deleted_records(reader, fill, losing, lossy, clients):
    running = reader(losing.settings, lossy, 0)
    until(running, 400)
    epoch = running.epochs()[lossy]
    admin = clients(KafkaSystemFactory().admin(losing.settings, "test"))

    admin.delete_records(lossy, 400)
    fill(lossy.stream, [b"new"] * 10, losing.settings)

    assert until(reader(losing.settings, lossy, 400, "", epoch), 10) == [b"new"] * 10
