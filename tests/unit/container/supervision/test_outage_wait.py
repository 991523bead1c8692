"""A container waits for a broker that is away: what the log says, and what ends the wait."""

import logging

import pytest

from samzapy.container.supervision.outage import Outage
from samzapy.errors import EnvironmentFailure, RetriableError, Unreachable
from samzapy.testing import ManualClock

AWAY = Unreachable("cannot reach b:9092 within 10 s")


class Broker:
    """Away for some seconds; a question takes ten."""

    def __init__(self, away_s):
        self.clock, self.away_s, self.waits, self.questions = ManualClock(), away_s, [], 0
        self.outage = Outage(self.ask, self.clock, self.wait)

    def ask(self):
        self.questions += 1
        if self.clock.monotonic() < self.away_s:
            self.clock.advance(10)
            raise AWAY

    def wait(self, seconds):
        self.waits.append(seconds)
        self.clock.advance(seconds)

    def outlast(self, failure=AWAY, *, anew=True, may_wait=lambda: True):
        return self.outage.outlast(failure, may_wait, anew=anew)


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "samzapy.container.supervision.outage")
    return caplog


def test_an_outage_is_a_line_at_its_begin_one_a_minute_and_one_at_its_end(lines):
    assert Broker(away_s=28 * 60).outlast()
    first, *between, last = lines.messages
    assert first == f"Waiting for the broker: {AWAY}"
    assert last.startswith("The broker answers after 168")
    assert 24 <= len(between) <= 28
    assert between[0] == f"Waiting for the broker for 63 s: {AWAY}"


def test_a_short_outage_is_two_lines(lines):
    assert Broker(away_s=5).outlast()
    assert len(lines.messages) == 2


def test_an_outage_that_goes_on_after_a_start_has_one_begin(lines):
    broker = Broker(away_s=0)
    for number in range(6):
        broker.outlast(anew=not number)
        broker.clock.advance(30)
    assert [line for line in lines.messages if line.startswith("Waiting for the broker: ")] == lines.messages[:1]
    assert broker.waits == [0.5, 1, 2, 4, 8, 8]


def test_a_new_outage_after_a_commit_begins_with_the_short_pause(lines):
    broker = Broker(away_s=0)
    for _ in range(3):
        broker.outlast()
    assert broker.waits == [0.5] * 3
    assert len(lines.messages) == 6


def test_a_stop_ends_the_wait_in_an_outage():
    broker = Broker(away_s=3600)
    assert not broker.outlast(may_wait=lambda: broker.questions < 3)
    assert broker.questions == 3


def test_an_answer_that_is_a_refusal_is_raised_in_an_outage():
    broker = Broker(away_s=0)

    def refuse():
        raise EnvironmentFailure("not authorised")

    broker.outage = Outage(refuse, broker.clock, broker.wait)
    with pytest.raises(EnvironmentFailure, match="not authorised"):
        broker.outlast(RetriableError("timed out"))


def test_an_outage_of_a_schema_registry_asks_the_registry_and_names_it(lines):
    broker = Broker(away_s=100)
    silence = Unreachable("k.in[0]@5: cannot be decoded now: schema registry http://r: does not answer")
    silence.ask, silence.service = broker.ask, "schema registry http://r"
    outage = Outage(lambda: None, broker.clock, broker.wait)
    assert outage.outlast(silence, lambda: True, anew=True)
    assert broker.questions > 5
    first, *between, last = lines.messages
    assert first == f"Waiting for schema registry http://r: {silence}"
    assert len(between) == 1
    assert last.startswith("Schema registry http://r answers after 10")
