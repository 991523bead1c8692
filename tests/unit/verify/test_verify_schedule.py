"""Seeds: the same events, faults and rounds for the same seed."""

from __future__ import annotations

from itertools import islice

import pytest

from samzapy.config.task import Guarantee
from samzapy.testing import ManualClock
from samzapy.verify.campaign import plans, soak
from samzapy.verify.scenario import _next_step
from samzapy.verify.target import MIXED, Kind, schedule, spread
from samzapy.verify.workload import KEYS, Chain, Event, events

ALL = [*(kind.value for kind in Kind), MIXED]


def test_the_same_seed_gives_the_same_events_and_another_one_does_not():
    assert list(events(500, "a")) == list(events(500, "a"))
    assert list(events(500, "a")) != list(events(500, "b"))


def test_events_are_numbered_and_accounts_follow_zipfs_law():
    made = list(events(20_000, "a"))
    assert [event.id for event in made] == list(range(20_000))
    assert [Event.decode(*event.encode()) for event in made[:100]] == made[:100]
    assert 0.04 < sum(event.delta is None for event in made) / 20_000 < 0.06
    times = sorted((sum(1 for event in made if event.key == key) for key in {e.key for e in made}), reverse=True)
    assert times[0] > 50 * times[-1]
    assert KEYS * 0.9 < len(times) <= KEYS


def test_a_chain_tells_every_order_number_and_repetition_apart():
    def chain(*numbers: int) -> str:
        made = Chain()
        for number in numbers:
            made = made.link(number)
        return made.hash

    assert len({chain(1, 2, 3), chain(1, 3, 2), chain(1, 2), chain(1, 2, 2, 3), chain(12, 3)}) == 5


@pytest.mark.parametrize("scenario", ALL)
def test_faults_are_in_order_each_in_its_own_stretch_after_the_first(scenario):
    faults = schedule(scenario, list(Kind), 7, 8_000, "seed")
    assert faults == schedule(scenario, list(Kind), 7, 8_000, "seed")
    assert all(1_000 * n < fault.after < fault.until <= 1_000 * (n + 1) for n, fault in enumerate(faults, 1))
    assert faults[-1].until == 8_000
    assert scenario == MIXED or {fault.kind.value for fault in faults} == {scenario}


def test_a_mixed_schedule_has_all_kinds_and_impatient_faults():
    faults = schedule(MIXED, list(Kind), 200, 100_000, "seed")
    assert {fault.kind for fault in faults} == set(Kind)
    assert {fault.patient for fault in faults} == {True, False}


@pytest.mark.parametrize(("kills", "expected"), [(2, [1, 1]), (9, [1] * 9), (24, [2] * 9 + [6])])
def test_kills_are_spread_evenly_with_the_remainder_for_mixed(kills, expected):
    found = spread(kills, ALL)
    assert list(found.values()) == expected
    assert list(found) == ALL[: len(expected)]


def test_all_events_are_shared_out_among_the_scenarios():
    made = plans(Guarantee.EXACTLY_ONCE, 1_003, 20, ALL, 7)
    assert sum(plan.events for plan in made) == 1_003
    assert sum(plan.faults for plan in made) == 20
    assert len({plan.own_seed for plan in made}) == len(made)


def test_a_soak_has_the_same_rounds_per_seed_and_ends_in_time():
    clock = ManualClock()
    rounds = soak(list(Guarantee), ALL, 3_600, 7, clock)
    first = list(islice(rounds, 80))
    assert first == list(islice(soak(list(Guarantee), ALL, 3_600, 7, ManualClock()), 80))
    assert {plan.guarantee for plan in first} == set(Guarantee)
    assert {plan.scenario for plan in first} == set(ALL)
    clock.advance(3_599)
    assert list(rounds) == []
    assert len(list(soak(list(Guarantee), ALL, 1, 7, ManualClock()))) == 1, "at least one"


def test_the_options_of_a_scenario_lead_to_the_same_plan_alone():
    for plan in plans(Guarantee.EXACTLY_ONCE, 10_000, 20, ["worker", "driver", MIXED], 7):
        assert plans(plan.guarantee, plan.events, plan.faults, [plan.scenario], plan.seed) == (plan,)


def test_an_upgrade_is_fed_in_small_steps_up_to_its_last_event():
    steps, written = 0, 4_000
    while written < 10_000:
        nearer = _next_step(written, 10_000)
        assert written < nearer <= written + 7
        steps, written = steps + 1, nearer
    assert steps > 1_500
