import logging

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.container.supervision.lag import EndsSeen, LagWatch, Progress
from samzapy.container.supervision.outage import Outages
from samzapy.errors import EnvironmentFailure, Unreachable
from samzapy.job.lease import PartitionLag
from samzapy.testing import ManualClock

A, B = SystemStreamPartition("kafka", "in", 0), SystemStreamPartition("kafka", "in", 1)


class Broker:
    """The clients of a broker with these ends, which may be away."""

    def __init__(self, **ends):
        self.ends_now = {A: ends.get("a", 0), B: ends.get("b", 0)}
        self.readable = {}
        self.away = False
        self.refuses_copies = None
        self.mirrored = []

    def ends(self, ssps, *, committed=False):
        if self.away:
            raise Unreachable("kafka does not answer")
        return {ssp: self.readable.get(ssp, self.ends_now[ssp]) if committed else self.ends_now[ssp] for ssp in ssps}

    def mirror(self, group, positions):
        if self.away:
            raise Unreachable("kafka does not answer")
        if self.refuses_copies:
            raise self.refuses_copies
        self.mirrored.append((group, dict(positions)))

    def close(self):
        self.away = True


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def broker():
    return Broker(a=10, b=5)


def watch(broker, clock, progress, **given):
    made = LagWatch([A, B], broker, clock, **given, outages=Outages(clock))
    made.follow(lambda: progress)
    return made


def test_each_partition_has_its_position_end_and_lag(broker, clock):
    lag = watch(broker, clock, Progress({A: 7, B: 5}))
    lag.poll()
    assert lag.take().value == {str(A): PartitionLag(7, 10, 3, 0), str(B): PartitionLag(5, 5, 0, 0)}
    assert lag.take() is None


def lines_of(caplog):
    lines = [(record.levelname, record.message) for record in caplog.records if record.levelno >= logging.INFO]
    caplog.clear()
    return lines


@pytest.mark.parametrize(
    ("cause", "reminders", "back"),
    [
        (Unreachable("no answer"), 2, "The outage is over, after 120 s"),
        (ZeroDivisionError("a bug"), 0, "The lag of the inputs is known again, after 136 s"),
    ],
)
def test_a_stale_lag_is_one_warning_and_one_line_when_it_is_back(broker, clock, caplog, cause, reminders, back):
    caplog.set_level(logging.INFO)
    lag, ends = watch(broker, clock, Progress({A: 7, B: 5})), broker.ends

    def failing(ssps, **_):
        raise cause

    for _ in range(2):
        broker.ends = failing
        for seconds in (15, 1, 60, 60):
            clock.advance(seconds)
            lag.poll()
            assert lag.take() is None
        (level, line), *between = lines_of(caplog)
        assert level == "WARNING"
        assert line.startswith("The lag of the inputs is unknown: not measured for 16 s (")
        assert len(between) == reminders
        assert broker.away, "its clients were not closed"
        broker.ends, broker.away = ends, False
        lag.poll()
        assert lag.take().at == clock.monotonic()
        assert lines_of(caplog) == [("WARNING", back)]


def test_a_look_that_hangs_makes_the_lag_stale_all_the_same(broker, clock, caplog):
    lag, ends = watch(broker, clock, Progress({A: 7, B: 5})), broker.ends

    def hanging(ssps, **more):
        clock.advance(30)
        assert lag.take() is None
        return ends(ssps, **more)

    broker.ends = hanging
    lag.poll()
    assert [level for level, _ in lines_of(caplog)] == ["WARNING"]
    taken = lag.take()
    assert clock.monotonic() - taken.at >= 30


def test_no_position_is_newer_than_the_end_next_to_it(broker, clock):
    progress, ends = {"now": Progress({A: 7, B: 5})}, broker.ends
    lag = LagWatch([A, B], broker, clock)
    lag.follow(lambda: progress["now"])

    def slow(ssps, **more):
        found = ends(ssps, **more)
        progress["now"] = Progress({A: 15, B: 9})
        return found

    broker.ends = slow
    lag.poll()
    assert lag.take().value[str(A)] == PartitionLag(7, 10, 3, 0)


def test_the_age_is_the_time_since_the_partition_ended_before_the_record():
    seen = EndsSeen()
    for now, end in ((0, 10), (5_000, 10), (10_000, 12), (15_000, 20)):
        seen.add(now, end)
    assert seen.age_ms(10, 20_000) == 15_000
    assert seen.age_ms(12, 20_000) == 10_000
    assert seen.age_ms(11, 20_000) == 15_000


@pytest.mark.parametrize("ahead_s", [-3_600, 3_600], ids=["back", "forward"])
@pytest.mark.parametrize("processed_s", [None, 20], ids=["nothing processed", "a record of 20 s ago processed"])
def test_the_age_in_a_still_partition_goes_on_when_the_time_of_day_is_set(broker, clock, ahead_s, processed_s):
    processed_ms = {} if processed_s is None else {A: clock.wall_ms() - processed_s * 1000}
    lag = watch(broker, clock, Progress({A: 7, B: 5}, {}, processed_ms))
    lag.poll()
    clock.set_wall(clock.wall_ms() + ahead_s * 1000)
    clock.advance(60)
    lag.poll()
    assert lag.take().value[str(A)].age_ms == (60 + (processed_s or 0)) * 1000


def test_records_behind_an_open_transaction_of_another_are_named(broker, clock):
    broker.readable = {A: 7}
    lag = watch(broker, clock, Progress({A: 7, B: 5}))
    lag.poll()
    assert lag.held_by_transactions == ("kafka.in[0]@7",)
    broker.readable = {}
    lag.poll()
    assert lag.held_by_transactions == ()


def test_positions_are_copied_when_they_have_changed(broker, clock):
    lag = watch(broker, clock, Progress({A: 7, B: 5}, {A: 6, B: 5}), group="counts-1")
    lag.poll()
    lag.poll()
    assert broker.mirrored == [("counts-1", {A: 6, B: 5})]
    lag.follow(lambda: Progress({A: 9, B: 5}, {A: 9, B: 5}))
    lag.poll()
    assert broker.mirrored[1:] == [("counts-1", {A: 9})]


def test_the_trouble_is_the_broker_unless_it_says_what_is_wrong(broker, clock):
    lag = watch(broker, clock, Progress({A: 7, B: 5}))
    broker.away = True
    lag.poll()
    assert lag.trouble == "broker unreachable"
    broker.ends = lambda ssps: (_ for _ in ()).throw(EnvironmentFailure("not authorised: topic"))
    lag.poll()
    assert lag.trouble == "the ends of the inputs are not known: not authorised: topic"
