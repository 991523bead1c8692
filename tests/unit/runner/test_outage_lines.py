"""What a driver logs of the outages that its containers report."""

import logging

import pytest

from samzapy.container.supervision import outage
from samzapy.job.facts import Facts, LogLine
from samzapy.runner.driver import log_lines
from samzapy.testing import ManualClock


@pytest.fixture
def clock(monkeypatch):
    made = ManualClock()
    monkeypatch.setattr(outage, "OUTAGES", outage.Outages(made))
    return made


def send(container, text, logger=outage.__name__):
    lines = (LogLine(0, logging.WARNING, logger, text, "", ""),)
    log_lines(container, Facts(lines=lines))


def test_an_outage_of_all_containers_is_one_for_the_driver(clock, caplog):
    for number in range(200):
        send(str(number), "Waiting for the broker: no answer")
    send("7", "other", "job.tasks")
    clock.advance(61)
    for number in range(200):
        send(str(number), "No answer for 61 s: Waiting for the broker: no answer")
    for number in range(200):
        send(str(number), "The outage is over, after 61 s")
    assert caplog.messages == [
        "container 0: Waiting for the broker: no answer",
        "other",
        "No answer for 61 s: container 0: Waiting for the broker: no answer",
        "The outage is over, after 61 s",
    ]
