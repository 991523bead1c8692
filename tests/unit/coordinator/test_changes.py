"""Details travel as changes, in bounded pieces, and come together again; a lease never depends on them."""

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy.clock import Measured
from samzapy.coordinator import changes as changes_module
from samzapy.coordinator.changes import PIECE_B, Changes, MetricValues, Reported
from samzapy.coordinator.client import HttpLease
from samzapy.coordinator.wire import Answer, Details, Pace, Taken, WireError, pack, read, unpack
from samzapy.errors import EnvironmentFailure, RetriableError
from samzapy.job.lease import ContainerReport, Directive, Facts, LogLine, PartitionLag, Stall, TaskProgress, UserFailure
from samzapy.strict_json import encode
from samzapy.testing import ManualClock

NAMES = st.text(max_size=4)
COUNTS = st.dictionaries(NAMES, st.integers(0, 3))
REPORTS = st.builds(
    ContainerReport,
    st.just("0"),
    st.just(7),
    st.just("running"),
    st.integers(0, 9),
    positions=COUNTS,
    ends=COUNTS,
    restored=st.dictionaries(NAMES, st.tuples(st.integers(0, 9), st.just(0.5), st.just("changelog"))),
    restoring=st.dictionaries(NAMES, st.tuples(st.integers(0, 9), st.integers(0, 9))),
    clocks=st.dictionaries(NAMES, st.builds(TaskProgress, st.none() | st.integers(0, 9))),
    metrics=st.dictionaries(NAMES, st.dictionaries(NAMES, st.floats(0, 9) | st.integers(0, 2**70), min_size=1)),
)


def deliver(changes: Changes, reported: Reported, report: ContainerReport) -> Reported:
    for piece in changes.pieces(report, 0.0, metrics=True):
        reported = reported.changed(unpack(pack(piece)))
        changes.acknowledge()
    return reported


@given(st.lists(st.tuples(REPORTS, st.sampled_from(["arrives", "lost", "unanswered"])), max_size=6), REPORTS)
@settings(max_examples=30)
def test_whatever_was_lost_on_the_way_the_coordinator_has_the_newest_report(sent, last):
    changes, reported = Changes(), Reported(7)
    metrics: dict[str, dict[str, float]] = {}
    before = changes_module.PIECE_B
    changes_module.PIECE_B = 100
    try:
        for report, fate in sent:
            # Metrics are never removed, and those of a registry grow.
            for group, values in report.metrics.items():
                metrics.setdefault(group, {}).update(values)
            for piece in changes.pieces(replace(report, metrics=metrics), 0.0, metrics=True):
                if fate != "lost":
                    reported = reported.changed(piece)
                if fate != "arrives":
                    changes.forget()
                    break
                changes.acknowledge()
        metrics = {**metrics, **{g: {**metrics.get(g, {}), **v} for g, v in last.metrics.items()}}
        last = replace(last, metrics=metrics)
        found = deliver(changes, reported, last).report("0", "running", last.processed, 0)
    finally:
        changes_module.PIECE_B = before
    assert replace(found, metrics={}) == replace(last, metrics={})
    as_doubles = {group: {name: float(value) for name, value in values.items()} for group, values in metrics.items()}
    assert found.metrics.groups() == as_doubles
    assert {group: dict(values) for group, values in found.metrics.items()} == as_doubles
    assert all(dict(found.metrics[group]) == values for group, values in as_doubles.items())


def test_nothing_travels_that_has_not_changed():
    changes = Changes()
    report = ContainerReport("0", 7, "running", positions={"a": 1, "b": 2}, metrics={"g": {"x": 1.0, "y": 2.0}})
    reported = deliver(changes, Reported(7), report)
    assert list(changes.pieces(report, 0.0, metrics=False)) == []
    assert list(changes.pieces(report, 0.0, metrics=True)) == [Details(7)]
    moved = replace(report, positions={"a": 1, "b": 3}, metrics={"g": {"x": 1.0, "y": 5.0}})
    (piece,) = changes.pieces(moved, 0.0, metrics=True)
    assert (piece.positions, piece.names, piece.numbers, piece.values) == ({"b": 3}, [], [1], [5.0])
    assert reported.changed(piece).metrics["g"] == {"x": 1.0, "y": 5.0}


def test_the_metrics_of_a_thousand_tasks_with_five_stores_go_in_pieces_of_bounded_size():
    names = [f"store.s{store}.{name}" for store in range(5) for name in ("gets", "puts", "deletes", "hits", "flushes")]
    metrics = {f"Partition {task}": dict.fromkeys(names, 1.5) for task in range(1_000)}
    report = ContainerReport("0", 7, "running", metrics=metrics, positions={f"kafka.in[{i}]": i for i in range(1_000)})
    changes, reported, sizes = Changes(), Reported(7), []
    for piece in changes.pieces(report, 0.0, metrics=True):
        sizes.append(len(encode(piece)))
        reported = reported.changed(piece)
        changes.acknowledge()
    assert max(sizes) < 2 * PIECE_B
    assert reported.metrics.groups() == metrics
    assert len(reported.positions) == 1_000


@pytest.mark.parametrize("value", [None, "text", float("nan"), float("inf"), [1], object(), 10**400])
def test_a_gauge_that_is_no_number_is_left_out_and_the_others_travel(value):
    report = ContainerReport("0", 7, "running", metrics={"g": {"bad": value, "good": 1.0}})
    assert deliver(Changes(), Reported(7), report).metrics.groups() == {"g": {"good": 1.0}}


@pytest.mark.parametrize("then", [{}, {"g": {"x": float("nan")}}, {"g": {"x": None, "y": 2.0}}])
def test_a_metric_without_a_value_is_stale_at_the_coordinator(then):
    changes, reported = Changes(), Reported(7)
    report = ContainerReport("0", 7, "running", metrics={"g": {"x": 1.0}})
    reported = deliver(changes, reported, report)
    reported = deliver(changes, reported, replace(report, metrics=then))
    assert "x" not in reported.metrics.groups().get("g", {})
    assert "x" not in reported.metrics["g"]
    assert [piece.numbers for piece in changes.pieces(replace(report, metrics=then), 0.0, metrics=True)] == [[]]
    assert deliver(changes, reported, report).metrics["g"]["x"] == 1.0


def test_a_stale_lag_keeps_its_age_however_late_it_is_delivered():
    changes, lags = Changes(), {"m.in[0]": PartitionLag(1, 5, 4)}
    changes.note(Facts(Measured(lags, 100.0)))
    report = ContainerReport("0", 7, "running")
    (lost,) = changes.pieces(report, 101.0, metrics=False)
    changes.forget()
    (piece,) = changes.pieces(report, 140.0, metrics=False)
    assert (lost.lags_age_s, piece.lags_age_s) == (1.0, 40.0)
    reported = Reported(7).changed(unpack(pack(piece)))
    assert reported.report("0", "running", 0, 0, piece, 1_000.0).facts.partitions == Measured(lags, 960.0)
    changes.acknowledge()
    assert list(changes.pieces(report, 141.0, metrics=False)) == []


def test_an_unchanged_lag_that_was_measured_again_is_not_stale():
    changes, reported = Changes(), Reported(7)
    report = ContainerReport("0", 7, "running")
    for at in (100.0, 105.0):
        changes.note(Facts(Measured({"m.in[0]": PartitionLag(1, 5, 4)}, at)))
        (piece,) = changes.pieces(report, at, metrics=False)
        changes.acknowledge()
        reported = reported.changed(piece)
    assert piece.lags == {}
    found = reported.report("0", "running", 0, 0, piece, 1_000.0).facts.partitions
    assert found == Measured({"m.in[0]": PartitionLag(1, 5, 4)}, 1_000.0)


def test_a_lag_from_the_future_is_refused():
    with pytest.raises(WireError, match=r"lags_age_s"):
        unpack(zlib.compress(b'{"epoch":7,"lags_age_s":-5.0}\n'))


def test_numbers_of_metrics_that_were_not_named_are_refused():
    changes = Changes()
    (piece,) = changes.pieces(ContainerReport("0", 7, "running", metrics={"g": {"x": 1.0}}), 0.0, metrics=True)
    piece.numbers = [1]
    with pytest.raises(WireError, match=r"^numbers: "):
        Reported(7).changed(piece)
    piece.numbers = [0, 0]
    with pytest.raises(WireError, match=r"^values: "):
        Reported(7).changed(piece)


@pytest.mark.parametrize("values", [[1.5, -0.0, 5e-324], [1e308, 1e308], [float(2**53), 7.0]])
def test_values_travel_as_they_are(values):
    piece = Details(7, numbers=[0, 4_294_967_295, 5][: len(values)], values=values)
    assert unpack(pack(piece)) == piece
    assert pack(piece) == pack(unpack(pack(piece)))


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (b"\x00" * 13, "values: expected 12 B for each number and its value, got 13 B in all"),
        (struct.pack("<Id", 1, float("-inf")), "values: expected finite numbers"),
        (struct.pack("<2I2d", 1, 2, float("inf"), float("-inf")), "values: expected finite numbers"),
    ],
)
def test_values_that_are_no_values_are_refused(columns, line):
    with pytest.raises(WireError, match=f"^{line}$"):
        unpack(zlib.compress(b'{"epoch":7}\n' + columns))


def test_counts_of_what_a_guarantee_does_not_cover_do_not_wait_for_the_other_metrics():
    report = ContainerReport("0", 7, "running", metrics={"errors": {"process.skipped": 1}, "g": {"x": 2}})
    (piece,) = Changes().pieces(report, 0.0, metrics=False)
    assert piece.names == [("errors", ["process.skipped"])]


def test_every_log_line_and_failure_travels_once_and_a_stall_until_it_is_over():
    changes, reported = Changes(), Reported(7)
    line = LogLine(1, 20, "l", "text")
    failure = UserFailure("KeyError", "'x'", "Partition 0", "process of m.in[0]@1")
    changes.note(Facts(lines=(line,), failure=failure))
    lags = {"m.in[0]": PartitionLag(1, 5, 4)}
    changes.note(Facts(Measured(lags, 0.0), stalled=Stall("broker unreachable", 45.0), lines=(line,)))
    report = ContainerReport("0", 7, "running")
    (lost,) = changes.pieces(report, 0.0, metrics=True)
    changes.forget()
    (piece,) = changes.pieces(report, 0.0, metrics=True)
    assert piece == lost
    changes.acknowledge()
    reported = reported.changed(piece)
    taken = reported.report("0", "running", 0, 0, piece).facts
    assert taken == Facts(Measured(lags, 0.0), Stall("broker unreachable", 45.0), failure, (line, line))
    assert reported.report("0", "running", 0, 0).facts == Facts(stalled=Stall("broker unreachable", 45.0))
    changes.note(Facts(lines_left_out=3))
    (piece,) = changes.pieces(report, 0.0, metrics=True)
    assert piece.facts == Facts(lines_left_out=3)
    assert reported.changed(piece).report("0", "running", 0, 0).facts.stalled is None


def test_a_container_s_metrics_take_little_memory_and_share_their_names():
    changes = [Changes(), Changes()]
    made = [
        deliver(each, Reported(7), ContainerReport("0", 7, "running", metrics={f"t{i}": {"a": 1, "b": 2}})).metrics
        for i, each in enumerate(changes)
    ]
    assert made[0].names[0][1] is made[1].names[0][1]
    assert MetricValues().get("g") is None


def test_the_pace_of_a_large_job_leaves_room_for_three_heartbeats_in_a_lease():
    assert Pace.of(1, 15.0) == Pace(1.0, 1.0)
    assert Pace.of(650, 15.0) == Pace(3.25, 10.0)
    assert Pace.of(100_000, 15.0).heartbeat_s == 5.0


class Wire:
    """The client of a lease: keeps what was sent, and answers as it is told."""

    def __init__(self):
        self.beats, self.pieces = [], []
        self.answer: Answer | Exception = Answer(Directive.CONTINUE, None)
        self.taken: Taken | Exception = Taken()

    def call(self, kind, method, path, body=None):
        if isinstance(self.answer, Exception):
            raise self.answer
        self.beats.append(body)
        return read(Answer, encode(self.answer))

    def details(self, path, body, answer_s):
        if isinstance(self.taken, Exception):
            raise self.taken
        self.pieces.append(unpack(body))
        return self.taken


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def hand():
    return ManualClock()


@pytest.fixture
def lease(wire, hand):
    return HttpLease(wire, "0", 7, 15.0, clock=hand, chance=lambda: 0.5)


def report(phase="running", **told):
    return ContainerReport("0", 7, phase, **told)


def test_a_heartbeat_is_as_small_with_a_thousand_tasks_as_with_one(lease, wire):
    many = {f"kafka.in[{i}]": i for i in range(10_000)}
    lease.report(report(positions={"kafka.in[0]": 1}))
    lease.report(report(positions=many, metrics={"g": many}))
    small, large = (len(encode(beat)) for beat in wire.beats)
    assert small == large < 100


def test_metrics_travel_every_ten_seconds_and_at_a_new_phase(lease, wire, hand):
    for second in range(12):
        hand.advance_to(float(second))
        lease.details(report(positions={"p": second}, metrics={"g": {"x": second}}))
    assert [second for second, piece in enumerate(wire.pieces) if piece.values] == [0, 10]
    assert [piece.positions["p"] for piece in wire.pieces] == list(range(12))
    lease.details(report("done", metrics={"g": {"x": 99}}))
    assert wire.pieces[-1].values == [99]


def test_details_keep_to_the_pace_of_the_coordinator(lease, wire, hand):
    wire.answer = Answer(Directive.CONTINUE, None, Pace(4.0, 10.0))
    lease.report(report())
    assert lease.pace_s == 4.0
    for second in range(21):
        hand.advance_to(float(second))
        lease.details(report(positions={"p": second}))
    assert [piece.positions["p"] for piece in wire.pieces] == [0, 10, 20]


def test_containers_that_start_together_send_their_details_at_different_times():
    due = []
    for chance in (0.0, 0.5, 1.0):
        wire, hand = Wire(), ManualClock()
        lease = HttpLease(wire, "0", 7, 15.0, clock=hand, chance=lambda chance=chance: chance)
        wire.answer = Answer(Directive.CONTINUE, None, Pace(4.0, 16.0))
        lease.report(report())
        for second in range(21):
            hand.advance_to(float(second))
            lease.details(report(positions={"p": second}, metrics={"g": {"x": second}}))
        assert [len(piece.values) for piece in wire.pieces] == [1, 1]
        due.append(wire.pieces[1].positions["p"])
    assert due == [12, 16, 20]


def test_the_heartbeats_of_containers_that_start_together_move_apart_and_can_be_repeated():
    def times(container_id):
        wire, now, found = Wire(), 0.0, []
        lease = HttpLease(wire, container_id, 7, 15.0, clock=ManualClock())
        wire.answer = Answer(Directive.CONTINUE, None, Pace(4.0, 16.0))
        for _ in range(20):
            lease.report(report())
            assert 3.0 <= lease.pace_s <= 5.0
            now += lease.pace_s
            found.append(now)
        return found

    ends = sorted(times(str(number))[-1] for number in range(50))
    assert ends[-1] - ends[0] > 4.0
    assert len(set(ends)) == 50
    assert sum(ends) / 50 == pytest.approx(80.0, rel=0.05)
    assert times("3") == times("3")


@pytest.mark.parametrize(
    "failure", [EnvironmentFailure("too large"), RetriableError("no answer"), ValueError("a bug"), OSError("gone")]
)
def test_details_that_fail_cost_nothing_but_are_sent_again(lease, wire, hand, failure, caplog):
    wire.taken = failure
    lease.details(report(positions={"p": 1}))
    hand.advance_to(1.0)
    lease.details(report(positions={"p": 1}))
    wire.taken = Taken()
    hand.advance_to(2.0)
    lease.details(report(positions={"p": 1}))
    assert [(piece.first, piece.positions) for piece in wire.pieces] == [(True, {"p": 1})]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_a_coordinator_that_has_lost_the_details_gets_all_of_them_again(lease, wire, hand):
    told = report(positions={"p": 1})
    lease.details(told)
    wire.answer = Answer(Directive.CONTINUE, None, again=True)
    lease.report(told)
    lease.details(told)
    wire.taken = Taken(again=True)
    hand.advance_to(1.0)
    lease.details(report(positions={"p": 2}))
    wire.taken = Taken()
    hand.advance_to(2.0)
    lease.details(report(positions={"p": 2}))
    assert [piece.first for piece in wire.pieces] == [True, True, False, True]


def test_details_that_take_too_long_leave_the_rest_for_after_the_next_heartbeat(lease, wire, hand, monkeypatch):
    monkeypatch.setattr(changes_module, "PIECE_B", 50)
    sent = wire.details

    def slowly(path, body, answer_s):
        hand.advance(2.0)
        return sent(path, body, answer_s)

    wire.details = slowly
    told = report(positions={f"p{i}": i for i in range(10)})
    while len(wire.pieces) < 10:
        before = len(wire.pieces)
        lease.details(told)
        assert before < len(wire.pieces) <= before + 2
    merged = Reported(7)
    for piece in wire.pieces:
        merged = merged.changed(piece)
    assert merged.positions == told.positions
