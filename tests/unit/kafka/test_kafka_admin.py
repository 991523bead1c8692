"""How the admin asks for offsets while a leader is away, and for topics that its user may not see in full."""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamSpec
from samzapy.errors import EnvironmentFailure, RetriableError
from samzapy.system.clients import SystemClients
from samzapy.system.kafka.admin import KafkaAdmin
from samzapy.system.kafka.client import Connection
from samzapy.system.kafka.gate import Gate
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("kafka", "in", 0)


class DeadLeader:
    """librdkafka's admin client: sends each question to the leader that it knew when the topics were last looked up."""

    def __init__(self, clock, elected_at_s, otherwise):
        self._clock, self._elected_at_s, self._otherwise = clock, elected_at_s, otherwise
        self.leader_lives = False
        self.looked_up = self.asked = 0
        self.topic = SimpleNamespace(partitions=[None])

    def list_topics(self, topic=None, timeout=None):
        self.looked_up += 1
        self.leader_lives = self._clock.monotonic() >= self._elected_at_s
        return SimpleNamespace(brokers={1: "one", 2: "two"}, topics={"in": SimpleNamespace(partitions={0: None})})

    def describe_topics(self, topics, **_):
        described = Future()
        described.set_result(self.topic)
        return {"in": described}

    def list_offsets(self, asked, isolation_level, request_timeout):
        self.asked += 1
        if not self.leader_lives:
            self._clock.advance(request_timeout)
        return {at: self._answer() for at in asked}

    def poll(self, timeout):
        self._clock.advance(timeout)

    def _answer(self):
        answer = Future()
        if self.leader_lives:
            answer.set_result(SimpleNamespace(offset=7))
        else:
            self._otherwise(answer)
        return answer


def timed_out(answer):
    answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))


def not_the_leader(answer):
    answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))


def without_offset(answer):
    answer.set_result(SimpleNamespace(offset=OFFSET_INVALID))


def admin_of(monkeypatch, elected_at_s, otherwise=timed_out):
    clock = ManualClock()
    client = DeadLeader(clock, elected_at_s, otherwise)
    monkeypatch.setattr(Connection, "handle", lambda *_: client)
    gate = Gate("here:9092", clock, clock.advance)
    return KafkaAdmin(Connection("kafka", "here:9092", {}, gate, clock)), clock


@pytest.mark.parametrize("elected_at_s", [1, 20])
@pytest.mark.parametrize("otherwise", [timed_out, not_the_leader, without_offset])
def test_an_answer_without_an_offset_is_asked_for_again_soon(monkeypatch, otherwise, elected_at_s):
    admin, clock = admin_of(monkeypatch, elected_at_s, otherwise)
    assert admin.offsets([SSP]) == {SSP: OffsetRange(7, 7)}
    assert clock.monotonic() < elected_at_s + 5


@pytest.mark.parametrize("otherwise", [timed_out, not_the_leader, without_offset])
def test_a_partition_without_a_leader_is_named_by_an_error_that_may_pass(monkeypatch, otherwise):
    admin, clock = admin_of(monkeypatch, elected_at_s=1_000_000, otherwise=otherwise)
    with pytest.raises(RetriableError, match=r"kafka\.in\[0\] on here:9092"):
        admin.offsets([SSP])
    assert clock.monotonic() < 60


class Unsettled(Future):
    """An answer that librdkafka does not give in its own time: the process was stopped meanwhile."""

    def result(self, timeout=None):
        raise TooLate


def test_an_answer_that_does_not_come_at_all_is_an_error_that_may_pass(monkeypatch):
    admin, _ = admin_of(monkeypatch, elected_at_s=0)
    admin.offsets([SSP])
    client = admin._client
    client.describe_topics = lambda *_, **__: {"in": Unsettled()}
    with pytest.raises(RetriableError, match="here:9092: no answer within 30 s"):
        admin.describe("in")
    client.create_topics = lambda *_, **__: {"new": Unsettled()}
    with pytest.raises(RetriableError, match="here:9092: no answer within 30 s"):
        admin.create(StreamSpec("new", 1))


def test_an_offset_that_does_not_come_at_all_is_asked_for_again(monkeypatch):
    admin, _ = admin_of(monkeypatch, elected_at_s=0)
    admin.offsets([SSP])
    client, answer = admin._client, admin._client._answer
    left = [Unsettled()]
    client._answer = lambda: left.pop() if left else answer()
    assert admin.offsets([SSP])[SSP].upcoming == 7


def test_the_ends_of_partitions_are_one_request_without_their_beginnings(monkeypatch):
    admin, _ = admin_of(monkeypatch, elected_at_s=0)
    clients = SystemClients({"kafka": None}, lambda _: SimpleNamespace(admin=lambda *_: admin), "test")
    assert clients.ends([SSP]) == {SSP: 7}
    assert admin._client.asked == 1


def refused():
    answer = Future()
    answer.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    return answer


def test_a_topic_whose_settings_may_not_be_seen_is_described_without_them(monkeypatch):
    admin, _ = admin_of(monkeypatch, elected_at_s=0)
    partitions = [SimpleNamespace(replicas=[1, 2])]
    admin._client.topic = SimpleNamespace(partitions=partitions, topic_id="id", authorized_operations=None)
    admin._client.describe_configs = lambda resources, request_timeout: {each: refused() for each in resources}
    described = admin.describe("in")
    assert (described.partitions, described.stream_id, described.replicas, described.config) == (1, "id", 2, {})
    with pytest.raises(
        EnvironmentFailure,
        match=r"in: not authorised: topic .*: this client needs the ACL DESCRIBE_CONFIGS on this topic",
    ):
        described.setting("cleanup.policy")


def test_kafkas_own_topics_count_as_missing_for_users_who_may_not_see_them(monkeypatch):
    admin, _ = admin_of(monkeypatch, elected_at_s=0)
    admin._client.describe_topics = lambda topics, **_: {name: refused() for name in ("__transaction_state", "in")}
    with pytest.raises(EnvironmentFailure, match="in: not authorised"):
        admin.describe("in")
    admin._client.describe_topics = lambda topics, **_: {"__transaction_state": refused()}
    assert admin.describe("__transaction_state") is None
