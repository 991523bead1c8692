"""The reports of a container over HTTP: what a heartbeat carries, and what happens to it on the way."""

import json
from math import inf, nan

import numpy as np
import pytest
from jobs.job_models import job_model

from samzapy.clock import Measured
from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.client import HttpLease
from samzapy.coordinator.wire import Answer, Heartbeat, JobSpec, Registration, WireError, read
from samzapy.errors import TaskMigrated
from samzapy.job.lease import ContainerReport, Directive, Facts, LogLine, PartitionLag, Stall, TaskProgress, UserFailure
from samzapy.metrics.registry import NUMBERS, Registry
from samzapy.strict_json import encode
from samzapy.testing import ManualClock

GRANTED = Registration.of(JobSpec(job_model(), {}), version="1", epoch=7, lease_s=15.0)
FAILURE = UserFailure("KeyError", "'user'", "Partition 0", "process of m.in[0]@3")


def line(number):
    return LogLine(number, 30, "here", f"line {number}")


def report(phase="running", **fields):
    return ContainerReport("0", 7, phase, **fields)


class Wire:
    """The client of a lease: keeps what was sent, and answers as it is told."""

    def __init__(self):
        self.beats = []
        self.answer: Answer | Exception = Answer(Directive.CONTINUE, None)

    def call(self, kind, method, path, body=None):
        self.beats.append(read(Heartbeat, encode(body)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return read(kind, encode(self.answer))


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def hand():
    return ManualClock()


@pytest.fixture
def lease(wire, hand):
    return HttpLease(wire, "0", GRANTED, hand)


def test_a_heartbeat_carries_the_whole_report(lease, wire, hand):
    sent = report(
        processed=9,
        commits=2,
        positions={"m.in[0]": 5},
        ends={"m.in[0]": 8},
        restored={"Partition 0/s": (2, 0.25, "changelog")},
        restoring={"Partition 0/t": (1, 9)},
        clocks={"Partition 0": TaskProgress(50, "m.in[3]", True, (0, 20), True)},
        metrics={"container": {"starts": 7.0}},
        facts=Facts(
            Measured({"m.in[0]": PartitionLag(3, 10, 7, 1_500)}, hand.monotonic()), Stall("slow", 3.0), (FAILURE,)
        ),
    )
    hand.advance(2.5)
    assert lease.report(sent) is Directive.CONTINUE
    received = wire.beats[0].received("0", 100.0)
    assert received.facts.partitions == Measured({"m.in[0]": PartitionLag(3, 10, 7, 1_500)}, 97.5)
    for name in ("phase", "metrics", "processed", "commits", "positions", "ends", "restored", "restoring", "clocks"):
        assert getattr(received, name) == getattr(sent, name)
    assert (received.facts.stalled, received.facts.handled) == (Stall("slow", 3.0), (FAILURE,))


def test_at_most_twenty_finite_numbers_are_sent():
    registry = Registry()
    for group, names in NUMBERS.items():
        for name in (*names, "other"):
            registry.gauge(group, name).set(1.0)
    sent = registry.numbers()
    assert sum(map(len, sent.values())) == 20
    assert {f"{group}.{name}" for group, names in sent.items() for name in names} >= COUNTS.keys()
    registry = Registry()
    registry.watch("container", {"resident-bytes": nan, "starts": inf, "cpu-s": np.float64(1.5)}.copy)
    registry.watch("Partition 0", lambda: pytest.fail("a report asks every task for its metrics"))
    numbers = registry.numbers()
    assert numbers == {"container": {"cpu-s": 1.5}}
    assert type(numbers["container"]["cpu-s"]) is float


def test_the_facts_of_a_report_that_is_sent_again_are_sent_once(lease, wire):
    facts = Facts(stalled=Stall("slow", 3.0), lines=(line(1),))
    for phase in ("running", "stopping"):
        lease.report(report(phase, facts=facts))
    assert [beat.report.facts for beat in wire.beats] == [facts, Facts(stalled=facts.stalled)]


def test_a_lease_takes_clock_and_pace_from_the_answer_and_gives_up_a_migrated_container(lease, wire):
    wire.answer = Answer(Directive.DRAIN, 30, 4.0)
    assert lease.report(report()) is Directive.DRAIN
    assert lease.checkpoint_clock == 30
    assert 3.0 <= lease.pace_s <= 5.0
    wire.answer = TaskMigrated("another driver")
    assert lease.report(report()) is Directive.ABANDON
    assert [beat.sequence for beat in wire.beats] == [1, 2]


def test_containers_that_start_together_report_at_times_that_move_apart_and_repeat():
    def times(container_id):
        wire, now, ends = Wire(), 0.0, []
        lease = HttpLease(wire, container_id, GRANTED, ManualClock())
        wire.answer = Answer(Directive.CONTINUE, None, 4.0)
        for _ in range(20):
            lease.report(report())
            now += lease.pace_s
            ends.append(now)
        return ends

    ends = sorted(times(str(number))[-1] for number in range(50))
    assert ends[-1] - ends[0] > 4.0
    assert len(set(ends)) == 50
    assert sum(ends) / 50 == pytest.approx(80.0, rel=0.05)
    assert times("3") == times("3")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clocks", {"a": {"clock": "x"}}),
        ("clocks", {"a": {"checkpoints": ["x"]}}),
        ("positions", {"a": 1.5}),
        ("metrics", {"g": {"n": None}}),
        ("facts", {"partitions": {"value": {"a": {"position": 1}}, "at": 0}}),
        ("facts", {"lines": 7}),
    ],
)
def test_a_field_of_another_shape_is_refused_by_its_name(field, value):
    sent = {"container_id": "0", "epoch": 7, "phase": "running", field: value}
    with pytest.raises(WireError, match=rf"^report\.{field}"):
        read(Heartbeat, json.dumps({"report": sent}).encode())
