"""How the admin asks for offsets while a leader is away."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.system.kafka import admin as admin_module
from samzapy.system.kafka.admin import KafkaAdmin
from samzapy.system.kafka.client import ClientErrors
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("kafka", "in", 0)


class DeadLeader:
    """librdkafka's admin client: sends each question to the leader that it knew when the topics were last looked up."""

    def __init__(self, clock, elected_at_s):
        self._clock, self._elected_at_s = clock, elected_at_s
        self.leader_lives = False
        self.looked_up = 0

    def list_topics(self, topic=None, timeout=None):
        self.looked_up += 1
        self.leader_lives = self._clock.monotonic() >= self._elected_at_s
        return SimpleNamespace(brokers={1: "one", 2: "two"}, topics={"in": SimpleNamespace(partitions={0: None})})

    def describe_topics(self, topics, request_timeout):
        described = Future()
        described.set_result(SimpleNamespace(partitions=[None]))
        return {"in": described}

    def list_offsets(self, asked, isolation_level, request_timeout):
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
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return answer


def admin_of(monkeypatch, elected_at_s):
    clock = ManualClock()
    client = DeadLeader(clock, elected_at_s)
    monkeypatch.setattr(admin_module, "make_client", lambda *_: client)
    return KafkaAdmin({}, ClientErrors("kafka", "here:9092"), clock), clock


def test_offsets_are_asked_of_the_new_leader_soon_after_it_is_elected(monkeypatch):
    admin, clock = admin_of(monkeypatch, elected_at_s=1)
    assert admin.offsets([SSP]) == {SSP: OffsetRange(7, 7)}
    assert clock.monotonic() < 6


def test_an_election_may_take_longer_than_one_question(monkeypatch):
    admin, _ = admin_of(monkeypatch, elected_at_s=20)
    assert admin.offsets([SSP]) == {SSP: OffsetRange(7, 7)}


def test_a_leader_that_stays_away_ends_the_question(monkeypatch):
    admin, clock = admin_of(monkeypatch, elected_at_s=1_000_000)
    with pytest.raises(Exception, match="here:9092"):
        admin.offsets([SSP])
    assert clock.monotonic() < 60
