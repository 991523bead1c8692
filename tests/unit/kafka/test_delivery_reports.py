from itertools import permutations

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from samzapy.errors import (
    NotAuthorised,
    ProducerError,
    RecordRefused,
    RecordTooLarge,
    TransactionAborted,
    UnknownStream,
)
from samzapy.system.kafka.client import Connection
from samzapy.system.kafka.producer import KafkaProducer
from samzapy.system.kafka.queue import ReportedQueue
from samzapy.testing import ManualClock


class Delivered:
    """What a report reads of librdkafka's message, which cannot be made by hand."""

    def __init__(self, offset, partition=0):
        self._offset, self._partition = offset, partition

    def offset(self):
        return self._offset

    def partition(self):
        return self._partition


class Client:
    """A client of librdkafka whose records have all failed."""

    def flush(self, timeout):
        return 0

    def begin_transaction(self):
        raise KafkaException(KafkaError(KafkaError._STATE))


def queue_of(client, clock=None):
    return ReportedQueue(client, Connection("kafka", "b:9092", clock=clock or ManualClock()), lambda _: None)


FAILED = Message(topic="t", partition=0, value=b"v")


def test_settling_gives_the_last_offset_once():
    reports = queue_of(Client())
    reports.report("t", 0)(None, Delivered(4))
    reports.report("t", 0)(None, Delivered(5))
    assert reports.settle() == {("t", 0): 5}
    assert reports.settle() == {}


def test_a_failure_is_found_behind_and_before_successes():
    reports = queue_of(Client())
    report = reports.report("t", 0)
    report(None, Delivered(4))
    report(KafkaError(KafkaError._TIMED_OUT), FAILED)
    report(None, Delivered(5))
    assert [item.error.code() for item in reports.failures()] == [KafkaError._TIMED_OUT]


def test_records_whose_partition_is_chosen_elsewhere_have_no_last_offset():
    reports = queue_of(Client())
    report = reports.report("t", None)
    for offset, partition in ((1, 0), (7, 1), (2, 0)):
        report(None, Delivered(offset, partition))
    assert list(reports.failures()) == []
    assert reports.settle() == {}


def producer_with(failures, transactional_id, limit=1_000):
    client, errors = Client(), Connection("kafka", "b:9092", clock=ManualClock())
    queue = ReportedQueue(client, errors, lambda _: None)
    for partition, code in enumerate(failures):
        failed = Message(topic="out", partition=partition, value=b"x" * 5_000)
        queue.report("out", partition)(KafkaError(code), failed)
    made = KafkaProducer(errors, transactional_id, limit_of={"out": limit}.get)
    made._made = client, queue
    made._calls.initialised = made._calls.in_transaction = transactional_id is not None
    return made


CAUSES = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (NotAuthorised, "needs the ACL WRITE on this topic"),
    KafkaError.MSG_SIZE_TOO_LARGE: (RecordTooLarge, r"record of 5,000 B > max\.message\.bytes 1,000 of the"),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (UnknownStream, "topic 'out' does not exist"),
    KafkaError.INVALID_TIMESTAMP: (RecordRefused, "for its timestamp"),
}
CONSEQUENCES = (KafkaError._PURGE_QUEUE, KafkaError._MSG_TIMED_OUT)


@pytest.mark.parametrize("transactional_id", [None, "id"])
@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_of_a_failed_flush_is_named_in_any_order(cause, transactional_id):
    kind, text = CAUSES[cause]
    for failures in permutations((cause, *CONSEQUENCES)):
        with pytest.raises(kind, match=text):
            producer_with(failures, transactional_id).flush()


@pytest.mark.parametrize(("transactional_id", "kind"), [(None, ProducerError), ("id", TransactionAborted)])
def test_a_purged_record_is_named_after_any_other(transactional_id, kind):
    for failures in permutations(CONSEQUENCES):
        with pytest.raises(kind, match="Message timed out") as caught:
            producer_with(failures, transactional_id).flush()
        assert caught.value.outage


def test_a_batch_above_the_limit_of_its_topic_names_the_limit():
    with pytest.raises(RecordTooLarge, match=r"batch\.size must be below its max\.message\.bytes 9,000$"):
        producer_with([KafkaError.MSG_SIZE_TOO_LARGE], None, 9_000).flush()
