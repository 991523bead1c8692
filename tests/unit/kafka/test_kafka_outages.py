"""What counts as an outage of a Kafka cluster: a job waits for its end, however long that takes."""

import logging
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from rigs.store_rig import TickingClock

from samzapy.api.system import OutgoingColumns
from samzapy.errors import ProducerError, Unreachable
from samzapy.system.kafka.client import Connection
from samzapy.system.kafka.errors import general_error
from samzapy.system.kafka.queue import ReportedQueue
from samzapy.testing import ManualClock


class FullClient:
    def list_topics(self, topic, timeout):
        return SimpleNamespace(brokers={1: "b"}, topics={"out": SimpleNamespace(partitions={0: "p"})})

    def produce(self, *_):
        raise BufferError


def test_a_queue_that_stays_full_is_an_outage():
    clock = ManualClock()
    queue = ReportedQueue(FullClient(), Connection("kafka", "b:9092", clock=clock), clock.advance)
    with pytest.raises(ProducerError, match="the queue to b:9092 stayed full for 60 s") as caught:
        queue.send(OutgoingColumns("out", None, [b"v"], 0))
    assert caught.value.outage


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.KAFKA_STORAGE_ERROR])
def test_a_leader_that_is_replaced_is_an_outage(code):
    assert general_error(KafkaError(code), "kafka", "in[0]").outage


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Disconnected: connection reset by peer (after 0ms in", "it closes connections at once; is systems.kafka"),
        ("Local: Timed out: probably (after 10030ms in", "it takes connections and does not answer: is it frozen"),
    ],
)
def test_a_broker_without_a_first_answer_is_told_by_what_it_does(line, reason):
    connection = Connection("kafka", "b:9092")
    connection.log(logging.ERROR, "%s [%s] %s", "FAIL", "client", f"b:9092/bootstrap: {line} state APIVERSION_QUERY)")
    assert f"cannot reach b:9092 within 10 s ({reason}" in str(connection.unreachable(10.0))


def test_a_cluster_that_cannot_be_reached_is_asked_itself_until_it_answers():
    properties = {"bootstrap.servers": "127.0.0.1:1", "group.id": "of a consumer"}
    connection = Connection("other", "127.0.0.1:1", properties, clock=TickingClock(5.0))
    with pytest.raises(Unreachable, match=r"cannot reach 127\.0\.0\.1:1 within 10 s") as caught:
        connection.unreachable(10.0).ask()
    assert caught.value.ask is not None
