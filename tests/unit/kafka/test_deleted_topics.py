"""When a topic that the cluster's metadata leave out counts as deleted."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from samzapy.system.kafka.client import Connection, DeletedTopics
from samzapy.testing import ManualClock

ALONE = {1: "here:9092"}


class Cluster:
    """A client of librdkafka. `topics`: what its answers have; None: there is no answer."""

    def __init__(self):
        self.topics, self.brokers, self.asked = {"a", "b"}, ALONE, []

    def list_topics(self, topic, timeout):
        self.asked.append(topic)
        if self.topics is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        wanted = self.topics if topic is None else {topic}
        found = {name: SimpleNamespace(partitions={0: None} if name in self.topics else {}) for name in wanted}
        return SimpleNamespace(brokers=self.brokers, topics=found)


@pytest.fixture
def looking():
    """`look(seconds)`: what is found after so many seconds more."""
    clock, cluster = ManualClock(), Cluster()
    deleted = DeletedTopics(clock)

    def look(seconds, *, one_by_one=True):
        clock.advance(seconds)
        return deleted.find(cluster, {"a", "b"}, one_by_one=one_by_one), deleted.settled

    return look, cluster


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_topic_that_is_missing_for_three_seconds_is_deleted(looking, one_by_one):
    look, cluster = looking
    cluster.topics = {"b"}
    assert look(0, one_by_one=one_by_one) == (None, False)
    assert look(2.9, one_by_one=one_by_one) == (None, False)
    assert look(0.5, one_by_one=one_by_one) == ("a", False)
    assert set(cluster.asked) == ({"a", "b"} if one_by_one else {None})


def test_a_topic_that_comes_back_is_not_deleted_and_starts_anew(looking):
    look, cluster = looking
    cluster.topics = {"b"}
    assert look(0) == (None, False)
    cluster.topics = {"a", "b"}
    assert look(2.9) == (None, True)
    assert look(0.1) == (None, False), "nothing was asked"
    cluster.topics = {"b"}
    assert look(1) == (None, False)
    assert look(2.9) == (None, False)


@pytest.mark.parametrize("silent", [{"topics": None}, {"brokers": {}}], ids=["no answer", "no brokers"])
def test_an_outage_says_nothing_about_topics(looking, silent):
    look, cluster = looking
    cluster.topics = set()
    for name, value in silent.items():
        setattr(cluster, name, value)
    for _ in range(20):
        assert look(1) == (None, False)
    cluster.topics, cluster.brokers = {"a", "b"}, ALONE
    assert look(1) == (None, True)


def test_calls_in_a_row_ask_the_cluster_twice_a_second(looking):
    look, cluster = looking
    for _ in range(100):
        look(0.01)
    assert len(cluster.asked) <= 6


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, True),
        (KafkaError._UNKNOWN_TOPIC, True),
        (KafkaError._UNKNOWN_PARTITION, True),
        (KafkaError._TRANSPORT, False),
    ],
)
def test_errors_beside_the_calls_say_that_a_partition_is_missing(code, missing):
    errors = Connection("kafka", "here:9092")
    errors.note(KafkaError(code))
    assert errors.missing is missing
