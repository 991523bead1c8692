import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.errors import ProducerFenced
from samzapy.system.memory.cluster import MemoryCluster
from samzapy.system.memory.factory import MemorySystemFactory
from samzapy.testing import ManualClock

SETTINGS = SystemSettings("kafka", "samzapy.system.memory.factory:MemorySystemFactory")
SSP = SystemStreamPartition("kafka", "s", 0)


@pytest.fixture
def clock():
    stopped = ManualClock()
    MemoryCluster.reset_all()
    MemoryCluster.named("kafka").clock = stopped
    yield stopped
    MemoryCluster.reset_all()


@pytest.fixture
def admin(clock):
    found = MemorySystemFactory().admin(SETTINGS, "a")
    found.create(StreamSpec("s", 1))
    return found


def producer(transactional_id=None, timeout_ms=1000):
    made = MemorySystemFactory().producer(SETTINGS, "p", transactional_id, timeout_ms)
    if transactional_id:
        made.init_transactions()
        made.begin()
    return made


def read(offset=0):
    consumer = MemorySystemFactory().consumer(SETTINGS, "c")
    consumer.register(SSP, offset)
    consumer.start()
    found = [value for batch in consumer.poll(0.0, 1000) for value in batch.values]
    return found, consumer.position(SSP)


def send(to, *values, stream="s", timestamp=None):
    to.send([OutgoingRecord(stream, b"k", value, 0, timestamp=timestamp) for value in values])


def test_systems_that_name_one_cluster_share_its_streams(admin):
    other = SystemSettings("other", SETTINGS.factory, properties={"cluster": "kafka"})
    assert MemorySystemFactory().admin(other, "a").list_streams() == ["s"]
    apart = SystemSettings("apart", SETTINGS.factory)
    assert MemorySystemFactory().admin(apart, "a").list_streams() == []


def test_a_reset_forgets_every_cluster(admin):
    MemoryCluster.reset_all()
    assert MemorySystemFactory().admin(SETTINGS, "a").list_streams() == []


def test_a_control_record_takes_an_offset(admin):
    writer = producer("id")
    send(writer, b"a")
    writer.commit()
    writer.begin()
    send(writer, b"b")
    writer.abort()
    assert admin.offsets([SSP])[SSP].upcoming == 2
    writer.begin()
    send(writer, b"c")
    writer.flush()
    writer.abort()
    assert admin.offsets([SSP])[SSP].upcoming == 4
    assert read() == ([b"a"], 4)


def test_a_dropped_producer_blocks_readers_until_its_id_is_taken_over(admin):
    dropped = producer("id", timeout_ms=3_600_000)
    send(dropped, b"lost")
    dropped.flush()
    del dropped
    other = producer()
    send(other, b"kept")
    other.flush()
    assert read() == ([], 0)
    producer("id")
    assert read() == ([b"kept"], 3)


def test_records_that_were_not_flushed_die_with_their_producer(admin):
    dropped = producer()
    send(dropped, b"lost")
    dropped.close()
    assert read() == ([], 0)


def test_a_transaction_past_its_time_out_is_aborted_and_its_producer_fenced(admin, clock):
    slow = producer("id", timeout_ms=1000)
    send(slow, b"slow")
    slow.flush()
    clock.advance(0.999)
    assert read() == ([], 0)
    clock.advance(0.001)
    assert read() == ([], 2)
    with pytest.raises(ProducerFenced):
        slow.commit()


def test_a_transaction_that_keeps_writing_times_out_all_the_same(admin, clock):
    slow = producer("id", timeout_ms=1000)
    for _ in range(4):
        send(slow, b"v")
        slow.flush()
        clock.advance(0.25)
    send(slow, b"late")
    with pytest.raises(ProducerFenced):
        slow.flush()
    assert read()[0] == []


def test_tombstones_go_when_their_first_compaction_is_old_enough(admin, clock):
    admin.create(StreamSpec("compacted", 1, {"cleanup.policy": "compact", "delete.retention.ms": "1000"}))
    writer = producer()
    writer.send([OutgoingRecord("compacted", b"k", value, 0, timestamp=0) for value in (b"1", None)])
    writer.flush()
    assert admin.compact("compacted") == 1
    clock.advance(0.999)
    assert admin.compact("compacted") == 0
    clock.advance(0.001)
    assert admin.compact("compacted") == 1


def test_a_tombstone_that_came_after_a_compaction_waits_for_the_next_one_to_grow_old(admin, clock):
    admin.create(StreamSpec("compacted", 1, {"cleanup.policy": "compact", "delete.retention.ms": "1000"}))
    writer = producer()
    send(writer, b"1", stream="compacted")
    writer.flush()
    assert admin.compact("compacted") == 0
    writer.send([OutgoingRecord("compacted", b"k", None, 0)])
    writer.flush()
    clock.advance(1)
    assert admin.compact("compacted") == 1, "the value, and not what deletes it"
    clock.advance(1)
    assert admin.compact("compacted") == 1


def test_retention_keeps_what_is_behind_an_open_transaction(admin, clock):
    admin.create(StreamSpec("expiring", 1, {"retention.ms": "1000"}))
    open_one, other = producer("id", timeout_ms=60_000), producer()
    for writer, timestamp in ((other, 0), (open_one, 0), (other, 0)):
        send(writer, b"old", stream="expiring", timestamp=timestamp)
        writer.flush()
    assert admin.compact("expiring") == 1
    open_one.commit()
    assert admin.compact("expiring") == 2


def test_an_open_transaction_is_not_compacted(admin):
    admin.create(StreamSpec("compacted", 1, {"cleanup.policy": "compact"}))
    writer = producer("id")
    send(writer, b"1", b"2", stream="compacted")
    writer.flush()
    assert admin.compact("compacted") == 0
    writer.commit()
    assert admin.compact("compacted") == 1


def test_retention_drops_what_is_older(admin, clock):
    admin.create(StreamSpec("expiring", 1, {"retention.ms": "1000"}))
    writer = producer()
    send(writer, b"old", stream="expiring", timestamp=clock.wall_ms() - 1001)
    send(writer, b"young", stream="expiring", timestamp=clock.wall_ms() - 1000)
    writer.flush()
    ssp = SystemStreamPartition("kafka", "expiring", 0)
    assert admin.compact("expiring") == 1
    assert admin.offsets([ssp])[ssp] == (1, 2)


def test_closing_a_producer_compacts_a_log_that_has_grown_a_lot(admin):
    admin.create(StreamSpec("compacted", 1, {"cleanup.policy": "compact"}))
    writer = producer()
    writer.send_changes("compacted", 0, [(b"k", b"v")] * 60_000)
    writer.flush()
    writer.close()
    assert admin.compact("compacted") == 0
