"""The measuring itself: whatever goes wrong is counted, and no promise is taken for kept that was not."""

from collections import Counter

import pytest
from crash_job import fold, measured
from outcomes import ANY, GUARANTEES, MOST, PLAIN, Outcomes, Row

IDS = range(40)


def right():
    return Counter(IDS), fold(IDS)


def lose_an_output(outputs, state):
    del outputs[7]


def lose_an_update(outputs, state):
    next(ids for ids in state.values() if 7 in ids).remove(7)


def repeat_an_output(outputs, state):
    outputs[7] += 1


def output_what_was_never_sent(outputs, state):
    outputs[1_000] += 1


def apply_an_update_twice(outputs, state):
    next(ids for ids in state.values() if 7 in ids).append(7)


def apply_updates_in_another_order(outputs, state):
    next(ids for ids in state.values() if 7 in ids).reverse()


def apply_an_update_to_another_key(outputs, state):
    one, other = sorted(state)[:2]
    state[other].append(state[one].pop())


def keep_a_key_that_is_gone(outputs, state):
    state["stale"] = [1]


BUGS = [
    (lose_an_output, {"lost"}),
    (lose_an_update, {"lost", "mismatches"}),
    (repeat_an_output, {"duplicated"}),
    (output_what_was_never_sent, {"duplicated"}),
    (apply_an_update_twice, {"mismatches"}),
    (apply_updates_in_another_order, {"mismatches"}),
    (apply_an_update_to_another_key, {"mismatches"}),
    (keep_a_key_that_is_gone, {"mismatches"}),
]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_right_result_is_all_zeros(guarantee):
    assert set(measured(*right(), IDS, guarantee).values()) == {0}


@pytest.mark.parametrize(("bug", "seen_as"), BUGS, ids=lambda value: getattr(value, "__name__", None))
def test_every_seeded_bug_is_counted(bug, seen_as):
    outputs, state = right()
    bug(outputs, state)
    numbers = measured(outputs, state, IDS, "exactly-once")
    assert {what for what, number in numbers.items() if number} == seen_as


def test_what_came_before_is_part_of_the_state_and_not_of_the_round():
    before = fold(IDS)
    ids = range(40, 60)
    assert set(measured(Counter(ids), fold(ids, before), ids, "exactly-once", before).values()) == {0}
    assert measured(Counter(ids), fold(ids), ids, "exactly-once", before)["mismatches"] > 0


def row(guarantee, lost=0, duplicated=0, mismatches=0, system="memory", **largest):
    return Row("crash", guarantee, system, 1, 10, 1, lost, duplicated, mismatches, **largest)


BROKEN = {
    "at-most-once": [{"duplicated": 1}],
    "at-least-once": [{"lost": 1}, {"mismatches": 1}],
    PLAIN: [{"lost": 1}],
    "effectively-once": [{"lost": 1}, {"mismatches": 1}],
    "exactly-once": [{"lost": 1}, {"duplicated": 1}, {"mismatches": 1}],
    ANY: [{"lost": 1}, {"duplicated": 1}, {"mismatches": 1}],
}


@pytest.mark.parametrize("guarantee", BROKEN)
def test_a_guarantee_is_broken_by_what_it_promises_and_by_nothing_else(guarantee):
    every = [{"lost": 1}, {"duplicated": 1}, {"mismatches": 1}]
    assert [numbers for numbers in every if row(guarantee, **numbers).broken_promises()] == BROKEN[guarantee]


@pytest.mark.parametrize(("what", "most"), MOST.items())
def test_the_cost_of_a_sick_cluster_is_bounded_in_every_guarantee(what, most):
    for guarantee in BROKEN:
        assert not row(guarantee, **{what: most}).broken_promises()
        assert f"{what} 100, promised {most:g}" in row(guarantee, **{what: 100.0}).broken_promises()


def test_rows_are_summed_per_scenario_with_the_longest_recovery():
    outcomes = Outcomes([row("exactly-once", recovery_s=1.0), row("exactly-once", recovery_s=3.0, system="local")])
    outcomes.rows.append(row("exactly-once", system="local"))
    assert [(each.system, each.runs) for each in outcomes.per_system()] == [("local", 2), ("memory", 1)]
    assert "| crash | exactly-once | memory, local | 3 | 30 | 3 | 0 | 0 | 0 | 3.0 |  |  |\n" in outcomes.markdown()
