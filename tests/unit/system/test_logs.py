"""What a log keeps and drops, in a file and in memory: late transactions, compaction, retention."""

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings, change_columns
from samzapy.errors import ProducerFenced
from samzapy.system.local import factory
from samzapy.system.local.factory import LocalConsumer, LocalSystemFactory, MemoryCluster, MemorySystemFactory
from samzapy.system.local.streams import find_stream
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("log", "s", 0)


class Log:
    """A log with one stream, `s`, and its clients."""

    def __init__(self, kind, folder):
        self.clock = ManualClock()
        self.settings = SystemSettings("log", "", properties={"path": str(folder / "log.db")})
        self.factory = LocalSystemFactory(self.clock)
        if kind == "memory":
            MemoryCluster.reset_all()
            MemoryCluster.named("log").clock = self.clock
            self.factory = MemorySystemFactory()
        self.clients = []
        self.admin = self.kept(self.factory.admin(self.settings, "a"))
        self.create("s")

    def kept(self, client):
        self.clients.append(client)
        return client

    def create(self, stream, **config):
        self.admin.create(StreamSpec(stream, 1, {key.replace("_", "."): value for key, value in config.items()}))

    def producer(self, transactional_id=None, timeout_ms=1000):
        producer = self.kept(self.factory.producer(self.settings, "p", transactional_id, timeout_ms))
        if transactional_id:
            producer.init_transactions()
            producer.begin()
        return producer

    def consumer(self, offset=0, ssp=SSP):
        consumer = self.kept(self.factory.consumer(self.settings, "c"))
        consumer.start({ssp: offset})
        return consumer

    def read(self):
        consumer = self.consumer()
        values = [value for batch in consumer.poll(0.0, 1000) for value in batch.values]
        return values, consumer.position(SSP)


@pytest.fixture(params=["local", "memory"])
def log(request, tmp_path):
    log = Log(request.param, tmp_path)
    yield log
    for client in log.clients:
        client.close()


def send(producer, *values, stream="s", timestamp=None):
    producer.send([OutgoingRecord(stream, b"k", value, 0, timestamp=timestamp) for value in values])
    producer.flush()


# Transactions


def test_the_end_of_a_transaction_takes_an_offset(log):
    writer = log.producer("id")
    send(writer, b"a")
    writer.commit()
    writer.begin()
    writer.send([OutgoingRecord("s", b"k", b"never flushed", 0)])
    writer.abort()
    assert log.admin.offsets([SSP])[SSP].upcoming == 2
    writer.begin()
    send(writer, b"c")
    writer.abort()
    assert log.admin.offsets([SSP])[SSP].upcoming == 4
    assert log.read() == ([b"a"], 4)


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_reader_passes_the_end_of_a_transaction_without_a_wait(log, monkeypatch, end):
    writer = log.producer("id")
    send(writer, b"v")
    getattr(writer, end)()

    def wait(self, timeout_s):
        raise AssertionError(f"it waits for {timeout_s} s")

    monkeypatch.setattr(LocalConsumer, "_wait", wait)
    upcoming = log.admin.offsets([SSP])[SSP].upcoming
    reader = log.consumer(1 if end == "commit" else 0)
    assert reader.poll(60.0, 10) == []
    assert reader.position(SSP) == upcoming
    with pytest.raises(AssertionError, match="waits for 60"):
        reader.poll(60.0, 10)


def test_a_dropped_producer_blocks_readers_until_its_id_is_taken_over(log):
    dropped = log.producer("id", timeout_ms=3_600_000)
    send(dropped, b"lost")
    send(log.producer(), b"kept")
    assert log.read() == ([], 0)
    log.producer("id")
    assert log.read() == ([b"kept"], 3)


def test_records_that_were_not_flushed_are_lost_with_their_producer(log):
    dropped = log.producer()
    dropped.send([OutgoingRecord("s", b"k", b"lost", 0)])
    dropped.close()
    assert log.read() == ([], 0)


def test_a_transaction_past_its_time_out_is_ended_by_a_reader(log):
    slow = log.producer("id", timeout_ms=1000)
    send(slow, b"slow")
    consumer = log.consumer()
    log.clock.advance(0.999)
    assert consumer.poll(0.0, 10) == []
    assert consumer.position(SSP) == 0
    log.clock.advance(0.001)
    consumer.poll(0.0, 10)
    consumer.poll(0.0, 10)
    assert consumer.position(SSP) == 2
    with pytest.raises(ProducerFenced):
        slow.commit()


def test_a_time_out_counts_from_the_first_write_of_each_transaction(log):
    producer = log.producer("id", timeout_ms=1000)
    for value in (b"1", b"2", b"3"):
        send(producer, value)
        log.clock.advance(0.999)
        producer.commit()
        producer.begin()
    assert log.read()[0] == [b"1", b"2", b"3"]


def test_a_transaction_that_keeps_writing_times_out(log):
    producer = log.producer("id", timeout_ms=1000)
    for _ in range(4):
        send(producer, b"v")
        log.clock.advance(0.25)
    with pytest.raises(ProducerFenced):
        send(producer, b"late")
    assert log.read()[0] == []


# Cleaning


def test_tombstones_go_when_their_first_compaction_is_old_enough(log):
    log.create("compacted", cleanup_policy="compact", delete_retention_ms="1000")
    send(log.producer(), b"1", None, stream="compacted", timestamp=0)
    assert log.admin.compact("compacted") == 1
    log.clock.advance(0.999)
    assert log.admin.compact("compacted") == 0
    log.clock.advance(0.001)
    assert log.admin.compact("compacted") == 1


def test_a_tombstone_after_a_compaction_waits_for_the_next_one(log):
    log.create("compacted", cleanup_policy="compact", delete_retention_ms="1000")
    producer = log.producer()
    send(producer, b"1", stream="compacted")
    assert log.admin.compact("compacted") == 0
    send(producer, None, stream="compacted")
    log.clock.advance(1)
    assert log.admin.compact("compacted") == 1, "the value, and not what deletes it"
    log.clock.advance(1)
    assert log.admin.compact("compacted") == 1


def test_retention_keeps_what_is_behind_an_open_transaction(log):
    log.create("expiring", retention_ms="1000")
    pending, other = log.producer("id", timeout_ms=60_000), log.producer()
    for producer in (other, pending, other):
        send(producer, b"old", stream="expiring", timestamp=0)
    assert log.admin.compact("expiring") == 1
    pending.commit()
    assert log.admin.compact("expiring") == 2


def test_an_open_transaction_is_not_compacted(log):
    log.create("compacted", cleanup_policy="compact")
    producer = log.producer("id")
    send(producer, b"1", b"2", stream="compacted")
    assert log.admin.compact("compacted") == 0
    producer.commit()
    assert log.admin.compact("compacted") == 1


def test_retention_drops_older_records(log):
    log.create("expiring", retention_ms="1000")
    for age_ms in (1001, 1000):
        send(log.producer(), b"v", stream="expiring", timestamp=log.clock.wall_ms() - age_ms)
    ssp = SystemStreamPartition("log", "expiring", 0)
    assert log.admin.compact("expiring") == 1
    assert log.admin.offsets([ssp])[ssp] == (1, 2)


def test_closing_a_producer_compacts_a_log_that_has_grown_a_lot(log):
    log.create("compacted", cleanup_policy="compact")
    producer = log.producer()
    producer.send_columns(change_columns("compacted", 0, [(b"k", b"v")] * 60_000))
    producer.flush()
    producer.close()
    assert log.admin.compact("compacted") == 0


# Headers


def test_the_partitions_of_a_stream_are_measured_without_a_look_at_all_of_them_for_each(log, monkeypatch):
    log.admin.create(StreamSpec("wide", 50))
    looks = []
    monkeypatch.setattr(factory, "find_stream", lambda *of: looks.append(of[1]) or find_stream(*of))
    wide = [SystemStreamPartition("log", "wide", number) for number in range(50)]
    assert len(log.admin.offsets(wide)) == len(log.admin.offsets_at(wide, 0)) == 50
    assert looks == ["wide", "wide"]


# Clusters in memory


def test_systems_that_name_one_cluster_share_its_streams(tmp_path):
    MemoryCluster.reset_all()
    factory, named = MemorySystemFactory(), SystemSettings("kafka", "")
    factory.admin(named, "a").create(StreamSpec("s", 1))
    other = SystemSettings("other", "", properties={"cluster": "kafka"})
    assert factory.admin(other, "a").list_streams() == ["s"]
    assert factory.admin(SystemSettings("apart", ""), "a").list_streams() == []
    MemoryCluster.reset_all()
    assert factory.admin(named, "a").list_streams() == []
