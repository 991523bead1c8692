"""Columns of batches and messages of tables: a value stays what it is, or is refused with its column."""

from dataclasses import InitVar, dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, ClassVar, List, NamedTuple, Optional, Sequence, Set, Union  # noqa: UP035  # the old names
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pytest

from samzapy import MessageBatch, SystemStreamPartition
from samzapy.arrow import columns as arrow

SSP = SystemStreamPartition("kafka", "in", 3)
EAST = timezone(timedelta(hours=2))
NAIVE, AWARE = datetime(2024, 1, 1, 10), datetime(2024, 1, 1, 10, tzinfo=EAST)  # noqa: DTZ001
#: No fraction of 64 bits holds it.
LARGE = 2**53 + 1


def batch_of(*messages, keys=None):
    return MessageBatch(SSP, range(len(messages)), keys or [None] * len(messages), list(messages))


def rows_of(table, **columns):
    return arrow.rows_of(table, **{"key": None, "message": None, "timestamp": None, "inputs": None} | columns)


@pytest.mark.parametrize("messages", [[1, 2.5], [2.5, 1], [None, 1, 2.5]])
@pytest.mark.parametrize("kind", [None, Union[int, float], Optional[Union[int, float]]])  # noqa: UP007, UP045
def test_fractions_behind_a_whole_number_stay(messages, kind):
    assert batch_of(*messages).to_arrow(kind)["message"].to_pylist() == messages


class Inner(NamedTuple):
    n: int


@dataclass
class Typed:
    n: Optional[int] = None  # noqa: UP045
    many: Sequence[int] = ()
    inner: Optional[Inner] = None  # noqa: UP045
    inners: Sequence[Inner] = ()
    day: Optional[date] = None  # noqa: UP045
    clock: Optional[time] = None  # noqa: UP045
    at: Optional[datetime] = None  # noqa: UP045
    whatever: Any = None


CHANGED_BY_PYARROW = {
    "n": [2.5],
    "many": [[1, 2.5]],
    "inner": [Inner(2.5)],
    "inners": [[Inner(1), Inner(2.5)]],
    "day": [NAIVE, AWARE, 19_000],
    "clock": [time(10, tzinfo=EAST), 36_000],
    "at": [1_700_000_000_000],
    "whatever": [time(10, tzinfo=EAST), [time(10, tzinfo=EAST)], {"t": time(10, tzinfo=EAST)}],
}


@pytest.mark.parametrize(
    ("field", "value"), [(name, each) for name, found in CHANGED_BY_PYARROW.items() for each in found]
)
def test_a_value_that_a_typed_column_would_change_is_refused(field, value):
    with pytest.raises(TypeError, match=f"column '{field}': expected .*, got "):
        batch_of(Typed(), Typed(**{field: value})).to_arrow()


HELD = [("n", LARGE), ("n", 2.0), ("many", [1, None, LARGE]), ("day", date(2024, 1, 1)), ("clock", time(10, 1, 2, 3))]
HELD += [("at", AWARE), ("whatever", [1, 2.5]), ("whatever", {"t": time(10)})]


@pytest.mark.parametrize(("field", "value"), HELD)
def test_a_value_that_its_column_holds_stays(field, value):
    assert batch_of(Typed(), Typed(**{field: value})).to_arrow()[field].to_pylist()[1] == value


def test_an_annotated_time_without_a_zone_counts_as_one_of_utc():
    found = batch_of(Typed(at=NAIVE), Typed(at=AWARE)).to_arrow()["at"].to_pylist()
    assert found == [NAIVE.replace(tzinfo=timezone.utc), AWARE]


@pytest.mark.parametrize("values", [[NAIVE, AWARE], [AWARE, NAIVE]])
@pytest.mark.parametrize("shape", [lambda at: {"at": at}, lambda at: {"at": [at]}, lambda at: {"at": {"x": at}}])
def test_times_with_and_without_a_zone_are_no_column_of_dicts(values, shape):
    with pytest.raises(TypeError, match="column 'at': expected times that all have a zone, or none, got both"):
        batch_of(*map(shape, values)).to_arrow()


@pytest.mark.parametrize("at", [NAIVE, AWARE])
def test_times_of_dicts_that_agree_about_the_zone_stay(at):
    found = batch_of({"at": at}, None, {}, {"at": None}, {"at": at}).to_arrow()["at"].to_pylist()
    assert found == [at, None, None, None, at]
    assert (found[0].tzinfo is None) == (at.tzinfo is None)


def test_a_time_of_day_of_dicts_and_keys_does_not_lose_its_zone():
    with pytest.raises(TypeError, match=r"column 't': expected a time without a zone, got 10:00:00\+02:00"):
        batch_of({"t": time(10)}, {"t": time(10, tzinfo=EAST)}).to_arrow()
    with pytest.raises(TypeError, match="column 'key': expected a time without a zone"):
        batch_of("x", keys=[time(10, tzinfo=EAST)]).to_arrow()


PAIRS = [(date(2024, 1, 1), NAIVE), (False, 1.5), (NAIVE, 5), ("a", b"a"), (1, "x"), (timedelta(1), UUID(int=5))]


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"message": value}])
@pytest.mark.parametrize("pair", PAIRS)
def test_values_of_different_kinds_are_no_common_column(pair, wrap):
    for messages in (pair, pair[::-1]):
        with pytest.raises(TypeError, match=r"column 'message': |messages cannot be columns: "):
            batch_of(*map(wrap, messages)).to_arrow()


@dataclass
class Bare:
    tags: List  # noqa: UP006
    more: Set  # noqa: UP006
    rest: Sequence


def test_lists_whose_annotation_names_no_items_are_left_to_the_values():
    found = batch_of(Bare([1], {"x"}, [1.5])).to_arrow()
    assert [found[name].to_pylist() for name in ("tags", "more", "rest")] == [[[1]], [["x"]], [[1.5]]]


@dataclass
class WithPseudoFields:
    x: int
    given: InitVar[int]
    limit: ClassVar[int] = 3


def test_variables_of_a_class_and_of_its_constructor_are_no_columns():
    assert batch_of(WithPseudoFields(1, 2)).to_arrow().schema.names == ["key", "x", "offset", "timestamp"]


def test_whole_numbers_beside_nulls_are_whole_numbers_for_pandas():
    frame = batch_of(Typed(n=LARGE), Typed()).to_pandas()
    assert frame["n"].dtype == pd.Int64Dtype()
    assert rows_of(frame, message="n").messages == [LARGE, None]
    assert batch_of(Typed(n=LARGE)).to_pandas()["n"].dtype == "int64"


@pytest.mark.parametrize("value", [[LARGE, None], [{"n": LARGE}, {"n": None}]])
def test_whole_numbers_beside_nulls_in_lists_stay_for_pandas(value):
    frame = batch_of({"a": value}).to_pandas()
    assert list(frame["a"][0]) == value
    assert rows_of(frame, message="a").messages == [value]


def test_a_table_with_two_columns_of_one_name_makes_no_messages():
    table = pa.table([[1], [2], [3]], names=["a", "a", "b"])
    with pytest.raises(ValueError, match="column 'a': expected one of this name, the table has 2"):
        rows_of(table)
    assert rows_of(table, message="b").messages == [3]


@pytest.mark.parametrize(
    "values", [pa.array([5], pa.duration("s")), pa.array([5], pa.time64("us")), pa.array([5], pa.time32("s"))]
)
def test_durations_and_times_of_day_are_no_timestamps(values):
    with pytest.raises(TypeError, match="column 'at': expected times or whole milliseconds, got "):
        rows_of(pa.table({"at": values}), timestamp="at")
