"""Of several records that were not acknowledged, the one with the cause is named."""

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
from samzapy.system.kafka.client import ClientErrors
from samzapy.system.kafka.producer import KafkaProducer
from samzapy.system.kafka.queue import ReportedQueue
from samzapy.testing import ManualClock


class Client:
    """A client of librdkafka whose records have all failed."""

    def flush(self, timeout):
        return 0

    def begin_transaction(self):
        raise KafkaException(KafkaError(KafkaError._STATE))


def producer_with(failures, transactional_id, limit=1_000):
    client, errors, clock = Client(), ClientErrors("kafka", "b:9092"), ManualClock()
    queue = ReportedQueue(client, {}, errors, lambda _: None, clock)
    for partition, code in enumerate(failures):
        failed = Message(topic="out", partition=partition, value=b"x" * 5_000)
        queue._reports.callback("out", partition)(KafkaError(code), failed)
    made = KafkaProducer({}, errors, transactional_id, clock, limit_of={"out": limit}.get)
    made._made = client, queue
    made._calls.initialised = made._calls.in_transaction = transactional_id is not None
    return made


CAUSES = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (NotAuthorised, "needs the ACL WRITE on this topic"),
    KafkaError.MSG_SIZE_TOO_LARGE: (RecordTooLarge, r"record of 5,000 B > max\.message\.bytes 1,000$"),
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
