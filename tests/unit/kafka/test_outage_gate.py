"""The gate in front of a cluster: how the requests of a process are spaced during an outage."""

import pytest
from rigs.store_rig import TickingClock

from samzapy.errors import EnvironmentFailure, RetriableError, Unreachable
from samzapy.system.kafka.gate import LONGEST_S, Gate, gate_of

HOUR_S = 3600.0


def silence():
    failure = RetriableError("no answer")
    failure.outage = True
    return failure


class Cluster:
    """A cluster that is away for some seconds; `asked` has the times of the requests."""

    def __init__(self, away_s, chance=1.0):
        self.clock, self.away_s, self.asked = TickingClock(0.001), away_s, []
        self.gate = Gate("b:9092", self.clock, self.clock.advance, lambda: chance)

    def request(self):
        now = self.clock.monotonic()
        self.asked.append(now)
        if now < self.away_s:
            self.clock.advance(3.0)
            raise silence()
        return "answer"

    def ask(self, patience_s=0.0, **options):
        return self.gate.ask(self.request, patience_s, **options)

    def pauses(self):
        return [round(after - before - 3.0, 1) for before, after in zip(self.asked, self.asked[1:], strict=False)]


def test_the_pauses_of_an_outage_double_up_to_the_longest():
    cluster = Cluster(away_s=60)
    assert cluster.ask(patience_s=HOUR_S) == "answer"
    assert cluster.pauses()[:6] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_an_outage_of_an_hour_costs_a_request_in_seven_seconds_at_most():
    cluster = Cluster(away_s=HOUR_S, chance=0.0)
    cluster.ask(patience_s=2 * HOUR_S)
    assert len(cluster.asked) < HOUR_S / 6.9


def test_pauses_of_an_outage_are_random_by_half():
    early = Cluster(away_s=60, chance=0.0)
    early.ask(patience_s=HOUR_S)
    assert early.pauses()[:4] == [0.3, 0.5, 1.0, 2.0]


def test_another_asker_waits_for_the_pause_of_an_outage():
    cluster = Cluster(away_s=1)
    with pytest.raises(RetriableError):
        cluster.ask()
    other = []
    cluster.gate.ask(lambda: other.append(cluster.clock.monotonic()))
    assert other[0] - 3.0 >= 0.5


def test_an_answer_ends_the_pauses_of_an_outage():
    cluster = Cluster(away_s=20)
    cluster.ask(patience_s=HOUR_S)
    before = cluster.clock.monotonic()
    cluster.ask()
    assert cluster.clock.monotonic() - before < 0.1


def test_metadata_in_an_outage_does_not_begin_the_pauses_anew():
    cluster = Cluster(away_s=30)
    for _ in range(3):
        with pytest.raises(RetriableError):
            cluster.ask()
        cluster.gate.ask(lambda: "metadata", proves=False)
    assert cluster.pauses() == [0.5, 1.0]


def test_requests_that_fail_together_in_an_outage_count_once():
    cluster = Cluster(away_s=30)

    def nested():
        return cluster.ask()

    with pytest.raises(RetriableError):
        cluster.gate.ask(nested)
    with pytest.raises(RetriableError):
        cluster.ask()
    assert cluster.pauses() == [0.5]


def test_a_refusal_is_an_answer_and_no_outage():
    cluster = Cluster(away_s=0)

    def refused():
        raise EnvironmentFailure("not authorised")

    for _ in range(3):
        with pytest.raises(EnvironmentFailure):
            cluster.gate.ask(refused, HOUR_S)
    assert cluster.clock.monotonic() < 0.1


def test_a_request_without_patience_fails_with_its_own_error_in_an_outage():
    cluster = Cluster(away_s=HOUR_S)
    for _ in range(5):
        with pytest.raises(RetriableError, match="no answer"):
            cluster.ask()
    assert len(cluster.asked) == 5


def test_an_outage_that_others_prolong_is_not_waited_for_without_end():
    cluster = Cluster(away_s=HOUR_S)

    def sleep(seconds):
        cluster.clock.advance(seconds)
        cluster.gate._opens_at = cluster.clock.monotonic() + LONGEST_S

    with pytest.raises(RetriableError):
        cluster.ask()
    cluster.gate._sleep = sleep
    with pytest.raises(Unreachable, match="b:9092: 1 requests in a row had no answer"):
        cluster.ask()


def test_a_cluster_that_cannot_be_reached_is_not_tried_again_in_an_outage():
    cluster, calls = Cluster(away_s=0), []

    def unreachable():
        calls.append(1)
        raise Unreachable("cannot reach b:9092 within 10 s")

    with pytest.raises(Unreachable, match="within 10 s"):
        cluster.gate.ask(unreachable, HOUR_S)
    assert calls == [1]


def test_an_outage_closes_one_gate_for_a_cluster_and_process():
    assert gate_of("a:9092") is gate_of("a:9092")
    assert gate_of("a:9092") is not gate_of("b:9092")


def test_a_failure_that_may_pass_without_an_outage_is_not_repeated():
    cluster, calls = Cluster(away_s=0), []

    def fails():
        calls.append(1)
        raise RetriableError("not now")

    with pytest.raises(RetriableError):
        cluster.gate.ask(fails, HOUR_S)
    assert calls == [1]
