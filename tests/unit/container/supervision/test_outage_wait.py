"""A container waits for a broker that is away: what the log says, and what ends the wait."""

import logging

import pytest

from samzapy.container.supervision.outage import CONTAINER, Outage, Outages
from samzapy.errors import EnvironmentFailure, RetriableError, Unreachable
from samzapy.testing import ManualClock

AWAY = Unreachable("cannot reach b:9092 within 10 s")


class Broker:
    """Away for some seconds; a question takes ten."""

    def __init__(self, away_s):
        self.clock, self.away_s, self.waits, self.questions = ManualClock(), away_s, [], 0
        self.outages = Outages(self.clock)
        self.outage = Outage(self.ask, self.wait, self.outages)

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

    def runs_again(self):
        self.outages.answered(CONTAINER)


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "samzapy.container.supervision.outage")
    return caplog


def test_an_outage_is_a_line_at_its_begin_one_a_minute_and_one_at_its_end(lines):
    broker = Broker(away_s=28 * 60)
    assert broker.outlast()
    broker.runs_again()
    first, *between, last = lines.messages
    assert first == f"Waiting for the broker: {AWAY}"
    assert last.startswith("The outage is over, after 168")
    assert 24 <= len(between) <= 28
    assert between[0] == f"No answer for 63 s: Waiting for the broker: {AWAY}"


@pytest.mark.parametrize("minutes", [0, 1, 7, 60])
def test_an_outage_of_n_minutes_is_n_lines_and_two_for_all_that_meet_it(lines, minutes):
    clock = ManualClock()
    outages = Outages(clock)
    for _ in range(minutes * 60 + 30):
        for party in ("container", "lag", "checks"):
            outages.failing(party, f"{party} has no answer")
        clock.advance(1)
    for party in ("lag", "container", "somebody", "checks"):
        assert outages
        outages.answered(party)
    outages.answered("lag")
    first, *between, last = lines.messages
    assert first == "container has no answer"
    assert len(between) == minutes
    assert last == f"The outage is over, after {minutes * 60 + 30} s"


def test_the_outages_of_many_containers_are_one_in_the_driver(lines):
    clock = ManualClock()
    containers, driver = [Outages(clock) for _ in range(20)], Outages(clock)

    for _ in range(3):
        lines.clear()
        for each in containers:
            each.failing(CONTAINER, "Waiting for the broker: b")
        sent = list(lines.messages)
        lines.clear()
        for number, line in enumerate(sent):
            driver.repeat(f"container {number}", line)
        assert len(lines.messages) == 1
        clock.advance(60)
    assert lines.messages == ["No answer for 120 s: container 0: Waiting for the broker: b"]
    lines.clear()
    for number in range(20):
        assert lines.messages == []
        driver.repeat(f"container {number}", "The outage is over, after 180 s")
    assert lines.messages == ["The outage is over, after 180 s"]


def test_a_party_that_is_gone_keeps_no_outage_alive(lines):
    clock = ManualClock()
    outages = Outages(clock)
    outages.failing("container 1", "b")
    clock.advance(100)
    outages.failing("container 2", "b")
    clock.advance(60)
    outages.answered("container 2")
    assert lines.messages[-1] == "The outage is over, after 160 s"
    assert not outages


def test_an_outage_that_goes_on_after_a_start_has_one_begin(lines):
    broker = Broker(away_s=0)
    for number in range(6):
        broker.outlast(anew=not number)
        broker.clock.advance(30)
    assert [line for line in lines.messages if line.startswith("Waiting for the broker: ")] == lines.messages[:1]
    assert not any(line.startswith("The outage is over") for line in lines.messages)
    assert broker.waits == [0.5, 1, 2, 4, 8, 8]


def test_a_new_outage_after_a_commit_begins_with_the_short_pause(lines):
    broker = Broker(away_s=0)
    for _ in range(3):
        broker.outlast()
        broker.runs_again()
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

    broker.outage = Outage(refuse, broker.wait, broker.outages)
    with pytest.raises(EnvironmentFailure, match="not authorised"):
        broker.outlast(RetriableError("timed out"))


def test_an_outage_of_a_schema_registry_asks_the_registry_and_names_it(lines):
    broker = Broker(away_s=100)
    silence = Unreachable("k.in[0]@5: cannot be decoded now: schema registry http://r: does not answer")
    silence.ask, silence.service = broker.ask, "schema registry http://r"
    outage = Outage(lambda: None, broker.wait, broker.outages)
    assert outage.outlast(silence, lambda: True, anew=True)
    broker.runs_again()
    assert broker.questions > 5
    first, *between, last = lines.messages
    assert first == f"Waiting for schema registry http://r: {silence}"
    assert len(between) == 1
    assert last.startswith("The outage is over, after 10")
