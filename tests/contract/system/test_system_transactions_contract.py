"""What every system promises about transactions and fencing."""

import pytest
from system_under_test import polls

from samzapy.api.system import OutgoingRecord, change_columns
from samzapy.errors import ProducerError, ProducerFenced, RecordTooLarge


def send(producer, stream, *values, partition=0):
    producer.send([OutgoingRecord(stream, b"k", value, partition) for value in values])


def test_a_committed_transaction_is_visible_in_all_its_partitions(system):
    stream = system.create(partitions=3)
    producer = system.transactional()
    producer.begin()
    for partition in range(3):
        send(producer, stream, b"a", b"b", partition=partition)
    producer.commit()
    assert [system.values(stream, partition) for partition in range(3)] == [[b"a", b"b"]] * 3


def test_an_empty_transaction_commits(system):
    producer = system.transactional()
    producer.begin()
    producer.commit()
    producer.begin()
    producer.abort()


def test_an_aborted_transaction_is_never_seen_and_a_reader_passes_it(system):
    stream = system.create()
    ssp = system.ssp(stream)
    system.write(stream, b"before")
    producer = system.transactional()
    producer.begin()
    send(producer, stream, b"aborted")
    producer.flush()
    producer.abort()
    bound = system.upcoming(ssp)
    consumer = system.reader((ssp, 0))
    seen = [
        value
        for batches in polls(consumer, lambda: consumer.position(ssp) >= bound)
        for b in batches
        for value in b.values
    ]
    assert seen == [b"before"]
    system.write(stream, b"after")
    assert system.values(stream) == [b"before", b"after"]


def test_an_abort_removes_its_transactions_writes_and_none_between_them(system):
    stream = system.create(partitions=2)
    producer = system.transactional()
    producer.begin()
    for value in (b"1", b"2", b"3"):
        for partition in (0, 1):
            send(producer, stream, value, partition=partition)
        producer.flush()
        system.write(stream, b"other " + value)
    producer.abort()
    assert system.values(stream, 0) == [b"other 1", b"other 2", b"other 3"]
    assert system.values(stream, 1) == []


def test_a_producer_goes_on_after_an_abort(system):
    stream = system.create()
    producer = system.transactional()
    producer.begin()
    send(producer, stream, b"aborted")
    producer.abort()
    producer.begin()
    send(producer, stream, b"kept")
    producer.commit()
    assert system.values(stream) == [b"kept"]


def test_an_open_transaction_is_invisible_and_holds_back_what_follows_it(system):
    stream = system.create()
    ssp = system.ssp(stream)
    system.write(stream, b"before")
    producer = system.transactional()
    producer.begin()
    send(producer, stream, b"open")
    producer.flush()
    system.write(stream, b"after")
    consumer = system.reader((ssp, 0))
    seen = [
        value for batches in polls(consumer, lambda: consumer.position(ssp) >= 1) for b in batches for value in b.values
    ]
    assert seen == [b"before"]
    assert consumer.poll(0.1, 10) == []
    assert consumer.position(ssp) == 1
    producer.commit()
    assert [value for _, _, value in system.read(stream, consumer=consumer)] == [b"open", b"after"]


def test_a_reader_waits_for_the_oldest_of_several_open_transactions(system):
    stream = system.create()
    ssp = system.ssp(stream)
    first, second, third = (system.transactional() for _ in range(3))
    for producer, value in ((first, b"1"), (second, b"2"), (third, b"3")):
        producer.begin()
        send(producer, stream, value)
        producer.flush()
    second.commit()
    consumer = system.reader((ssp, 0))
    assert consumer.poll(0.1, 10) == []
    assert consumer.position(ssp) == 0
    third.abort()
    first.commit()
    assert [value for _, _, value in system.read(stream, consumer=consumer)] == [b"1", b"2"]


def test_upcoming_counts_an_open_transaction(system):
    stream = system.create()
    producer = system.transactional()
    producer.begin()
    send(producer, stream, b"a", b"b")
    producer.flush()
    assert system.upcoming(system.ssp(stream)) == 2
    assert system.upcoming(system.ssp(stream)) == 2
    producer.abort()
    assert system.upcoming(system.ssp(stream)) >= 2


def test_a_transaction_larger_than_the_buffers_is_still_all_or_nothing(system):
    stream = system.create()
    producer = system.transactional()
    for outcome in (producer.abort, producer.commit):
        producer.begin()
        for _ in range(5):
            producer.send_columns(change_columns(stream, 0, [(b"%d" % i, b"v") for i in range(6000)]))
        outcome()
    assert len(system.read(stream)) == 30_000


def test_a_successor_ends_what_its_predecessor_left_open(system):
    stream = system.create()
    predecessor = system.transactional("job-task-0")
    predecessor.begin()
    send(predecessor, stream, b"left open")
    predecessor.flush()
    successor = system.transactional("job-task-0")
    system.write(stream, b"other")
    assert system.values(stream) == [b"other"]
    successor.begin()
    send(successor, stream, b"mine")
    successor.commit()
    assert system.values(stream) == [b"other", b"mine"]


@pytest.mark.parametrize("flushed", [True, False])
def test_a_fenced_producer_cannot_commit(system, flushed):
    stream = system.create()
    zombie = system.transactional("job-task-1")
    zombie.begin()
    send(zombie, stream, b"zombie")
    if flushed:
        zombie.flush()
    system.transactional("job-task-1")
    with pytest.raises(ProducerFenced):
        zombie.commit()
    with pytest.raises(ProducerError):
        zombie.begin()
    assert system.values(stream) == []


def test_other_ids_are_not_fenced(system):
    stream = system.create()
    first, second = system.transactional("job-task-3"), system.transactional("job-task-4")
    for producer in (first, second):
        producer.begin()
        send(producer, stream, b"v")
    first.commit()
    second.commit()
    assert system.values(stream) == [b"v", b"v"]


def test_a_closed_producer_leaves_its_transaction_to_its_successor(system):
    stream = system.create()
    producer = system.transactional("job-task-5")
    producer.begin()
    send(producer, stream, b"open")
    producer.flush()
    producer.close()
    system.transactional("job-task-5")
    assert system.values(stream) == []


def test_an_oversize_record_can_be_aborted(system):
    stream = system.create()
    producer = system.transactional()
    producer.begin()
    send(producer, stream, b"small")
    with pytest.raises(RecordTooLarge):
        send_and_flush(producer, stream, b"v" * 1_100_000)
    producer.abort()
    assert system.values(stream) == []
    producer.begin()
    send(producer, stream, b"next")
    producer.commit()
    assert system.values(stream) == [b"next"]


def send_and_flush(producer, stream, value):
    send(producer, stream, value)
    producer.flush()


def test_calls_out_of_order_are_refused(system):
    stream = system.create()
    with pytest.raises(ProducerError):
        system.producer().init_transactions()
    with pytest.raises(ProducerError):
        system.producer("job-task-6").begin()
    with pytest.raises(ProducerError):
        system.transactional().commit()
    with pytest.raises(ProducerError):
        system.transactional().abort()
    with pytest.raises(ProducerError):
        send(system.transactional(), stream, b"outside")
