"""What every system promises about records, offsets and positions."""

import pytest
from system_under_test import polls

from samzapy.api.system import OffsetRange, OutgoingColumns, OutgoingRecord, change_columns
from samzapy.errors import OffsetOutOfRange, ProducerError, RecordTooLarge, SamzapyError, UnknownStream
from samzapy.system.base import partition_of
from samzapy.system.clients import ConsumerGroups


def first_batch(consumer):
    found = []
    for batches in polls(consumer, lambda: bool(found)):
        found.extend(batches)
    return found[0]


def until_error(consumer, error):
    with pytest.raises(error) as raised:
        for _ in polls(consumer, lambda: False):
            pass
    return raised.value


# Offsets and order


def test_a_new_partition_is_empty_and_starts_at_zero(system):
    stream = system.create(partitions=2)
    ranges = system.admin.offsets([system.ssp(stream, 0), system.ssp(stream, 1)])
    assert [tuple(found) for found in ranges.values()] == [(0, 0), (0, 0)]


def test_records_come_back_in_the_order_sent_with_growing_offsets(system):
    stream = system.create()
    values = [b"%d" % i for i in range(2500)]
    system.write(stream, *values)
    records = system.read(stream)
    assert [value for _, _, value in records] == values
    assert [offset for offset, _, _ in records] == list(range(2500))


def test_ends_are_past_every_record_and_copied_positions_change_nothing(system):
    stream = system.create()
    system.write(stream, b"a", b"b", b"c")
    ssp = system.ssp(stream)
    assert system.admin.offsets([ssp]) == system.admin.offsets([ssp], committed=True) == {ssp: OffsetRange(0, 3)}
    if isinstance(system.admin, ConsumerGroups):
        system.admin.mirror("some-job-1", {ssp: 2})
    assert system.upcoming(ssp) == 3


def test_a_reader_starts_at_the_offset_it_registered(system):
    stream = system.create()
    system.write(stream, b"a", b"b", b"c")
    assert [value for _, _, value in system.read(stream, offset=2)] == [b"c"]


def test_a_batch_is_columns_of_equal_length(system):
    stream = system.create()
    system.write(stream, b"a", b"b", b"c")
    batch = first_batch(system.reader((system.ssp(stream), 0)))
    assert batch.ssp == system.ssp(stream)
    assert len(batch.offsets) == len(batch.keys) == len(batch.values) == len(batch.timestamps) > 0


def test_a_poll_returns_at_most_the_records_asked_for(system):
    stream = system.create(partitions=2)
    for partition in (0, 1):
        system.write(stream, *[b"v"] * 50, partition=partition)
    consumer = system.reader((system.ssp(stream, 0), 0), (system.ssp(stream, 1), 0))
    sizes, seen = [], 0
    while seen < 100:
        got = sum(len(batch.offsets) for batch in consumer.poll(10.0, 7))
        sizes.append(got)
        seen += got
    assert max(sizes) <= 7
    assert seen == 100


def test_a_busy_partition_does_not_starve_another(system):
    stream = system.create(partitions=2)
    system.write(stream, *[b"v"] * 500, partition=0)
    system.write(stream, b"other", partition=1)
    consumer = system.reader((system.ssp(stream, 0), 0), (system.ssp(stream, 1), 0))
    seen = []
    while len(seen) < 501:
        seen.extend(batch.ssp.partition for batch in consumer.poll(10.0, 10) for _ in batch.offsets)
    assert sorted(seen) == [0] * 500 + [1]


def test_a_poll_without_records_returns_nothing_at_the_time_out(system):
    stream = system.create()
    consumer = system.reader((system.ssp(stream), 0))
    assert consumer.poll(0.05, 10) == []
    assert consumer.poll(0.0, 10) == []


def test_a_waiting_reader_gets_what_is_written_later(system):
    stream = system.create()
    consumer = system.reader((system.ssp(stream), 0))
    assert consumer.poll(0.05, 10) == []
    system.write(stream, b"late")
    assert list(first_batch(consumer).values) == [b"late"]


# Partitions


def test_a_key_lands_where_java_producers_put_it(system):
    stream = system.create(partitions=7)
    keys = [b"", b"a", b"21", b"foobar", b"a-little-bit-long-string", *(b"key-%d" % i for i in range(50))]
    producer = system.producer()
    producer.send([OutgoingRecord(stream, key, b"v") for key in keys])
    producer.flush()
    for partition in range(7):
        found = {key for _, key, _ in system.read(stream, partition)}
        assert found == {key for key in keys if partition_of(key, 7) == partition}


def test_a_partition_key_decides_before_the_key(system):
    stream = system.create(partitions=5)
    producer = system.producer()
    producer.send([OutgoingRecord(stream, b"%d" % i, b"v", partition_key=b"same") for i in range(20)])
    producer.flush()
    assert len(system.read(stream, partition_of(b"same", 5))) == 20


def test_a_given_partition_decides_before_everything(system):
    stream = system.create(partitions=5)
    producer = system.producer()
    producer.send([OutgoingRecord(stream, b"%d" % i, b"v", 3, partition_key=b"same") for i in range(20)])
    producer.flush()
    assert len(system.read(stream, 3)) == 20


COLUMNS = {
    "keys and values": {},
    "tombstones, and keys of None": {
        "keys": [b"a", None, b"", b"d"],
        "values": [None, b"2", b"", None],
        "partitions": [None, 1, None, None],
    },
    "partitions and partition keys": {"partitions": [2, None, None, 0], "partition_keys": [b"x", b"y", None, None]},
    "headers and times": {
        "headers": [None, [("h", b"1"), ("h", None)], [], None],
        "timestamps": [None, 7000, 8000, 9000],
    },
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_arrive_as_their_records_do(system, case):
    parts = {"keys": [b"a", b"b", b"c", b"d"], "values": [b"1", b"2", b"3", b"4"]} | COLUMNS[case]
    found = []
    for by_columns in (True, False):
        columns = OutgoingColumns(system.create(partitions=3), **parts)
        producer = system.producer()
        if by_columns:
            producer.send_columns(columns)
        else:
            producer.send(list(columns.records()))
        producer.flush()
        timed = "timestamps" in parts
        found.append(
            [
                (partition, key, value, list(headers or ()), time if timed and key != b"a" else None)
                for partition in range(3)
                for key, value, headers, time in whole(system, columns.stream, partition)
            ]
        )
    assert found[0] == found[1]
    assert len(found[0]) == 4


def whole(system, stream, partition):
    """(key, value, headers, timestamp) of each record."""
    ssp = system.ssp(stream, partition)
    bound, reader = system.upcoming(ssp), system.reader((ssp, 0))
    for batches in polls(reader, lambda: reader.position(ssp) >= bound):
        for batch in batches:
            headers = batch.headers or [None] * len(batch.keys)
            yield from zip(batch.keys, batch.values, headers, batch.timestamps, strict=True)


def test_a_bad_column_poisons_the_producer_as_a_bad_record_does(system):
    stream = system.create()
    producer = system.producer()
    with pytest.raises(SamzapyError, match=r"partition"):
        producer.send_columns(OutgoingColumns(stream, None, [b"1", b"2"], [0, 5]))
    with pytest.raises(SamzapyError):
        producer.send([OutgoingRecord(stream, b"k", b"v")])


def test_records_without_a_key_are_all_kept(system):
    stream = system.create(partitions=3)
    producer = system.producer()
    producer.send([OutgoingRecord(stream, None, b"%d" % i) for i in range(30)])
    producer.flush()
    found = [value for partition in range(3) for value in system.values(stream, partition)]
    assert sorted(found) == sorted(b"%d" % i for i in range(30))


# What a record carries


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"v"), (b"k", None), (None, None), (b"", b""), (b"k", b"\0" * 70_000)]
)
def test_nulls_and_empty_bytes_are_kept_apart(system, key, value):
    stream = system.create()
    producer = system.producer()
    producer.send([OutgoingRecord(stream, key, value, 0)])
    producer.flush()
    assert system.read(stream) == [(0, key, value)]


def test_headers_come_back_in_order_with_their_repeats(system):
    stream = system.create()
    headers = [("a", b"1"), ("b", b""), ("a", b"2"), ("null", None), ("\N{GREEK SMALL LETTER MU}", bytes(range(256)))]
    producer = system.producer()
    producer.send([OutgoingRecord(stream, b"k", b"v", 0, headers=headers), OutgoingRecord(stream, b"k", b"w", 0)])
    producer.flush()
    found, consumer = {}, system.reader((system.ssp(stream), 0))
    for batches in polls(consumer, lambda: len(found) == 2):
        for batch in batches:
            found.update(zip(batch.values, batch.headers or [None] * len(batch.values), strict=True))
    assert list(found[b"v"]) == headers
    assert not found[b"w"]


def test_a_batch_without_headers_has_no_headers_column(system):
    stream = system.create()
    system.write(stream, b"a", b"b")
    assert first_batch(system.reader((system.ssp(stream), 0))).headers is None


def test_a_timestamp_is_kept_and_a_missing_one_is_the_time_of_sending(system):
    stream = system.create()
    producer = system.producer()
    producer.send([OutgoingRecord(stream, b"k", b"v", 0, timestamp=1_500_000_000_123)])
    producer.send([OutgoingRecord(stream, b"k", b"v", 0)])
    producer.flush()
    stamps, consumer = [], system.reader((system.ssp(stream), 0))
    for batches in polls(consumer, lambda: len(stamps) == 2):
        stamps.extend(stamp for batch in batches for stamp in batch.timestamps)
    assert stamps[0] == 1_500_000_000_123
    assert stamps[1] > 1_700_000_000_000


# Producers


def test_a_flush_makes_records_visible_and_gives_their_last_offset(system):
    stream = system.create(partitions=2)
    producer = system.producer()
    assert producer.flush() == {}
    producer.send([OutgoingRecord(stream, b"k", b"v", 0)] * 3)
    assert producer.flush() == {(stream, 0): 2}
    assert system.values(stream) == [b"v"] * 3


def test_changes_go_to_one_partition_with_tombstones(system):
    stream = system.create(partitions=2, cleanup_policy="compact")
    producer = system.producer()
    producer.send_columns(change_columns(stream, 1, [(b"a", b"1"), (b"b", None)]))
    producer.send_columns(change_columns(stream, 1, iter([])))
    producer.send_columns(change_columns(stream, 1, iter([(b"c", b"3")])))
    assert producer.flush() == {(stream, 1): 2}
    assert system.read(stream, 1) == [(0, b"a", b"1"), (1, b"b", None), (2, b"c", b"3")]


def test_two_producers_share_a_partition(system):
    stream = system.create()
    first, second = system.producer(), system.producer()
    for i in range(10):
        for producer, name in ((first, b"first"), (second, b"second")):
            producer.send([OutgoingRecord(stream, name, b"%d" % i, 0)])
            assert producer.flush() == {(stream, 0): 2 * i + (name == b"second")}
    by_key = [[value for _, key, value in system.read(stream) if key == name] for name in (b"first", b"second")]
    assert by_key == [[b"%d" % i for i in range(10)]] * 2


def test_sending_to_an_unknown_stream_fails_and_creates_nothing(system):
    producer = system.producer()
    with pytest.raises(UnknownStream, match="no-such-stream"):
        send_and_flush(producer, OutgoingRecord("no-such-stream", b"k", b"v"))
    assert system.admin.describe("no-such-stream") is None


def test_sending_to_an_unknown_partition_fails(system):
    producer, stream = system.producer(), system.create(partitions=2)
    with pytest.raises((UnknownStream, ProducerError)):
        send_and_flush(producer, OutgoingRecord(stream, b"k", b"v", 2))


def test_an_oversize_record_is_refused_by_size_and_poisons_the_producer(system):
    producer, stream = system.producer(), system.create()
    with pytest.raises(RecordTooLarge, match=rf"\.{stream}\[0\]: key b'k': record of 1,100,\d+ B"):
        send_and_flush(producer, OutgoingRecord(stream, b"k", b"v" * 1_100_000, 0))
    with pytest.raises(RecordTooLarge):
        producer.flush()
    assert system.values(stream) == []


def test_a_compacted_stream_refuses_a_null_key(system):
    producer, stream = system.producer(), system.create(cleanup_policy="compact")
    with pytest.raises(ProducerError):
        send_and_flush(producer, OutgoingRecord(stream, None, b"v", 0))


def send_and_flush(producer, record):
    producer.send([record])
    producer.flush()


# Positions


def test_an_empty_partition_is_at_its_end(system):
    stream = system.create()
    ssp = system.ssp(stream)
    consumer = system.reader((ssp, 0))
    consumer.poll(0.05, 10)
    assert consumer.position(ssp) >= system.upcoming(ssp)


def test_a_reader_is_at_the_end_after_the_last_record(system):
    stream = system.create()
    ssp = system.ssp(stream)
    system.write(stream, b"a", b"b")
    consumer = system.reader((ssp, 0))
    assert consumer.position(ssp) == 0
    assert len(system.read(stream, consumer=consumer)) == 2
    assert consumer.position(ssp) >= system.upcoming(ssp)


def test_a_paused_partition_returns_nothing_and_keeps_its_position(system):
    stream = system.create(partitions=2)
    paused, running = system.ssp(stream, 0), system.ssp(stream, 1)
    for partition in (0, 1):
        system.write(stream, b"a", b"b", partition=partition)
    consumer = system.reader((paused, 0), (running, 0))
    consumer.pause([paused])
    seen = [batch for batches in polls(consumer, lambda: consumer.position(running) >= 2) for batch in batches]
    assert {batch.ssp for batch in seen} == {running}
    assert consumer.poll(0.05, 10) == []
    assert consumer.position(paused) == 0
    consumer.pause([])
    assert len(system.read(stream, 0, consumer=consumer)) == 2


def test_reading_below_the_oldest_offset_fails_with_both_numbers(system):
    stream = system.create()
    ssp = system.ssp(stream)
    system.write(stream, *[b"v"] * 10)
    system.admin.delete_records(ssp, 6)
    error = until_error(system.reader((ssp, 2)), OffsetOutOfRange)
    assert (error.offset, error.oldest, error.upcoming) == (2, 6, 10)
    assert "deleted before they were read (retention?); the next start says how to go on" in str(error)
    assert len(system.read(stream)) == 4


def test_reading_beyond_the_end_fails(system):
    stream = system.create()
    system.write(stream, b"a")
    error = until_error(system.reader((system.ssp(stream), 7)), OffsetOutOfRange)
    assert (error.offset, error.upcoming) == (7, 1)


def test_an_unknown_stream_cannot_be_read(system):
    with pytest.raises(UnknownStream, match="no-such-stream"):
        system.reader((system.ssp("no-such-stream"), 0))


def test_an_unknown_partition_cannot_be_read(system):
    stream = system.create(partitions=2)
    with pytest.raises(UnknownStream, match=stream):
        system.reader((system.ssp(stream, 2), 0))


def test_closing_twice_is_allowed(system):
    stream = system.create()
    for client in (
        system.reader((system.ssp(stream), 0)),
        system.producer(),
        system.factory.admin(system.settings, "a"),
    ):
        client.close()
        client.close()
