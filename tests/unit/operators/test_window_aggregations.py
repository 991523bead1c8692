"""The ready folds against Python's own functions, whole and in two merged halves."""

from fractions import Fraction
from functools import reduce
from itertools import product

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy.operators.windows import Collect, Count, Fold, Max, Mean, Min, Sum, Top
from samzapy.pipeline import Distinct

VALUES = st.lists(st.integers(-50, 50), min_size=1, max_size=12)
CASES = [
    (Count(), len),
    (Sum(), sum),
    (Min(), min),
    (Max(), max),
    (Mean(), lambda values: float(Fraction(sum(values), len(values)))),
    (Collect(), list),
    (Top(3), lambda values: sorted(values, reverse=True)[:3]),
    (Fold(lambda: 1, lambda one, other: one * other, lambda one, other: one * other, abs, "product"),
     lambda values: abs(reduce(lambda one, other: one * other, values))),
]  # fmt: skip


def stored(value):
    return orjson.loads(orjson.dumps(value))


def gathered(aggregation, values):
    return reduce(lambda found, value: stored(aggregation.add(found, value)), values, aggregation.init())


@pytest.mark.parametrize(("aggregation", "expected"), CASES, ids=lambda case: getattr(case, "name", ""))
@settings(max_examples=25)
@given(values=VALUES, cut=st.integers(1, 11))
def test_a_fold_is_the_function_of_all_values_in_one_go_or_merged(aggregation, expected, values, cut):
    assert aggregation.result(gathered(aggregation, values)) == expected(values)
    one, other = values[:cut], values[cut:]
    if one and other:
        merged = aggregation.merge(gathered(aggregation, one), gathered(aggregation, other))
        assert aggregation.result(merged) == expected(values)


def test_the_greatest_go_by_the_score_that_stands_first():
    top = Top(2)
    assert gathered(top, [(3, "c"), (9, "z"), (4, "a"), (1, "b")]) == [[9, "z"], [4, "a"]]
    with pytest.raises(ValueError, match="Top: an integer >= 1, got 0"):
        Top(0)


@pytest.mark.parametrize("aggregation", [case for case, _ in CASES], ids=lambda case: case.name)
def test_a_ready_fold_leaves_what_it_was_given_as_it_was(aggregation):
    before = gathered(aggregation, [3, 1, 2])
    kept = orjson.dumps(before)
    aggregation.add(before, 9)
    aggregation.merge(before, gathered(aggregation, [5]))
    assert orjson.dumps(before) == kept


@pytest.mark.parametrize("fold", [Min(), Max(), Top(2), Distinct().fold], ids=lambda each: each.name)
def test_tuples_merge_with_those_that_a_store_has_given_back(fold):
    one, other = (fold.add(fold.init(), (1, (n, "x"))) for n in (1, 2))
    pairs = product([one, stored(one)], [other, stored(other)])
    assert len({orjson.dumps(fold.merge(*pair)) for pair in pairs}) == 1


@pytest.mark.parametrize("aggregation", [Min(), Max(), Top(2)], ids=lambda each: each.name)
@pytest.mark.parametrize("values", [[None], [None, 5], [5, None]], ids=str)
def test_a_missing_value_is_neither_least_nor_greatest(aggregation, values):
    with pytest.raises(TypeError, match="None"):
        gathered(aggregation, values)
    with pytest.raises(TypeError, match="None"):
        aggregation.add_all(aggregation.init(), values)
