"""MessageBatch: columns of one partition, envelopes and frames when they are asked for."""

import sys
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Annotated, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union
from uuid import UUID

import attrs
import msgspec
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from samzapy import IncomingMessageEnvelope, MessageBatch, SystemStreamPartition
from samzapy.arrow import columns as arrow
from samzapy.serializers import JsonSerde

SSP = SystemStreamPartition("kafka", "in", 3)
FRAME = pd.DataFrame({"k": ["a", "b"], "n": [1, 2], "at": [3, 4]})


def batch_of(*messages, keys=None, **columns):
    keys = [f"k{n}" for n in range(len(messages))] if keys is None else keys
    return MessageBatch(SSP, range(10, 10 + len(messages)), keys, list(messages), **columns)


@given(st.lists(st.tuples(st.text(), st.integers()), max_size=8), st.data())
def test_a_batch_is_the_sequence_of_its_envelopes(pairs, data):
    times, values = list(range(len(pairs))), [b"x" * n for n in range(len(pairs))]
    headers = [[("h", b"1")] if n % 2 else None for n in times]
    keys, messages = [key for key, _ in pairs], [message for _, message in pairs]
    batch = MessageBatch(SSP, range(7, 7 + len(pairs)), keys, messages, times, headers, values=values, arrival_ms=5)
    model = [
        IncomingMessageEnvelope(SSP, 7 + n, key, message, headers=headers[n], event_time=n, arrival_time=5, size=n)
        for n, (key, message) in enumerate(pairs)
    ]
    assert list(batch) == model
    start, stop = data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9))
    part = batch[start:stop]
    assert isinstance(part, MessageBatch)
    assert list(part) == model[start:stop]
    assert list(part.keys) == keys[start:stop]
    for n in range(-len(pairs), len(pairs)):
        assert batch[n] == model[n]
    with pytest.raises(IndexError):
        batch[len(pairs)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
def test_joined_batches_are_one_batch(sizes, data):
    total, parts, first = sum(sizes), [], 0
    for size in sizes:
        numbers = list(range(first, first + size))
        times = None if size == 3 else numbers
        parts.append(MessageBatch(SSP, range(first, first + size), numbers, numbers, times, values=[b"x"] * size))
        first += size
    whole = MessageBatch.joined(parts)
    start, stop = data.draw(st.integers(0, total)), data.draw(st.integers(0, total))
    part = whole[start:stop]
    times = [-1 if len(each) == 3 else offset for each in parts for offset in each.offsets]
    found = [whole[n] for n in range(total)]
    expected = [(offset, offset, times[offset], 1) for offset in range(total)]
    assert [(each.offset, each.message, each.event_time, each.size) for each in found] == expected
    assert [part[n] for n in range(len(part))] == found[start:stop]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=5))
def test_the_offsets_of_joined_batches_are_a_range_unless_they_have_holes(parts):
    batches, first = [], 0
    for size, hole in parts:
        offsets = range(first, first + size)
        batches.append(MessageBatch(SSP, list(offsets) if hole == 2 else offsets, ["k"] * size, ["m"] * size))
        first += size + hole
    offsets = MessageBatch.joined(batches).offsets
    assert list(offsets) == [offset for each in batches for offset in each.offsets]
    assert isinstance(offsets, range) or len(batches) == 1 or any(hole for _, hole in parts[:-1])


def test_a_batch_of_envelopes_gives_them_back():
    envelopes = list(batch_of("a", "b", timestamps=[1, 2], headers=[None, [("h", b"")]]))
    assert list(MessageBatch.of(envelopes)) == envelopes


def test_a_batch_says_where_it_is_from():
    assert batch_of("a", "b").position == "kafka.in[3]@10 to 11"
    assert batch_of("a").position == "kafka.in[3]@10"
    assert repr(batch_of("a", "b")) == "MessageBatch(kafka.in[3]@10 to 11, 2 messages)"


class Place(msgspec.Struct):
    lat: float


class Struct(msgspec.Struct):
    user: str
    n: int | None
    tags: list[str]
    place: Place | None = None


@dataclass
class Data:
    user: str
    n: int


@attrs.define
class Attrs:
    user: str
    n: int


class Tuple(NamedTuple):
    user: str
    n: int


class Dict(TypedDict):
    user: str
    n: int


def test_fields_of_messages_become_typed_columns():
    found = batch_of(
        Struct("ann", 1, ["x"], Place(1.5)), Struct("bob", None, []), None, timestamps=[5, -1, 7]
    ).to_arrow()
    assert found.schema.names == ["key", "user", "n", "tags", "place", "offset", "timestamp"]
    assert found.schema.field("n").type == pa.int64()
    assert found.schema.field("tags").type == pa.list_(pa.string())
    assert found["place"].to_pylist() == [{"lat": 1.5}, None, None]
    assert found["user"].to_pylist() == ["ann", "bob", None]
    assert found["offset"].to_pylist() == [10, 11, 12]
    assert found["timestamp"].cast("int64").to_pylist() == [5, None, 7]


@pytest.mark.parametrize("kind", [Data, Attrs, Tuple])
def test_every_kind_of_class_with_fields_has_columns(kind):
    found = batch_of(kind(user="ann", n=1)).to_arrow()
    assert (found["user"].to_pylist(), found["n"].to_pylist()) == (["ann"], [1])


def test_a_batch_of_nulls_has_typed_columns_if_the_class_is_named():
    found = batch_of(None, {"user": "ann"}).to_arrow(Dict)
    assert found.schema.field("n").type == pa.int64()
    assert found["user"].to_pylist() == [None, "ann"]


def test_parts_of_a_batch_and_joined_batches_know_the_class_of_nulls():
    batch = batch_of(None, Data("ann", 1), None)
    batch.message_type = Data
    for nulls in (batch[:1], batch[1:][1:], MessageBatch.joined([batch[:1], batch[2:]])):
        assert nulls.to_arrow().schema == batch.to_arrow().schema
    other = batch_of({"a": None})
    other.message_type = Dict
    assert other.to_arrow().schema.names == ["key", "a", "offset", "timestamp"]


V = TypeVar("V")
View = NewType("View", Data)


@pytest.mark.parametrize(
    "kind",
    [
        View,
        Annotated[Data, "seen"],
        View | None,
        TypeAliasType("Views", Annotated[View, "seen"]),
        TypeAliasType("Perhaps", V | None, type_params=(V,))[View],
    ],
)
def test_another_name_of_a_class_has_the_columns_of_the_class(kind):
    expected = batch_of(Data("ann", 1), None).to_arrow(Data)
    assert batch_of(Data("ann", 1), None).to_arrow(kind) == expected
    assert batch_of(None).to_arrow(kind).schema == expected.schema


def test_dicts_become_the_columns_that_any_of_them_has():
    found = batch_of({"a": 1}, {"b": "x"}, None).to_arrow()
    assert (found["a"].to_pylist(), found["b"].to_pylist()) == ([1, None, None], [None, "x", None])


def test_other_messages_are_one_column():
    assert batch_of("x", None).to_arrow()["message"].to_pylist() == ["x", None]


def test_a_field_keeps_its_name_when_an_own_column_has_it():
    found = batch_of({"key": 1, "offset": 2}).to_arrow()
    assert found.to_pylist() == [{"_key": "k0", "key": 1, "offset": 2, "_offset": 10, "timestamp": None}]
    found = batch_of({"key": 1, "_key": 2}).to_arrow()
    assert found.to_pylist() == [{"__key": "k0", "key": 1, "_key": 2, "offset": 10, "timestamp": None}]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = 1
    LARGE = 2


class Odd(Enum):
    TEXT = "x"
    NUMBER = 1


class Thing(msgspec.Struct):
    colour: Colour | None
    size: Size
    id: UUID
    span: timedelta
    state: Literal["new", "sold"] | None
    level: Literal[1, 2, None]  # noqa: PYI061  # both spellings
    colours: list[Colour]
    part: "Part"
    odd: Odd | None = None


class Part(msgspec.Struct):
    id: UUID
    colour: Colour
    by_colour: dict[Colour, UUID] = {}


ID, THIS = UUID(int=7), timedelta(days=1, microseconds=3)
THING = Thing(Colour.RED, Size.LARGE, ID, THIS, "new", 2, [Colour.BLUE], Part(ID, Colour.BLUE, {Colour.RED: ID}))


def test_enums_and_ids_have_the_columns_of_their_json_and_durations_their_own():
    found = batch_of(THING, None).to_arrow()
    types = {field.name: field.type for field in found.schema}
    text = pa.string()
    assert (types["colour"], types["id"], types["state"], types["colours"]) == (text, text, text, pa.list_(text))
    assert (types["size"], types["level"], types["span"]) == (pa.int64(), pa.int64(), pa.duration("us"))
    id_ = str(ID)
    expected = {"colour": "red", "size": 2, "id": id_, "span": THIS, "state": "new", "level": 2, "colours": ["blue"]}
    expected["part"] = {"id": id_, "colour": "blue", "by_colour": {"red": id_}}
    row = found.to_pylist()[0]
    assert {name: row[name] for name in expected} == expected
    assert batch_of(THING).to_pandas()["colour"].tolist() == ["red"]


def test_keys_may_be_enums():
    assert batch_of("x", "y", keys=[Colour.RED, None]).to_arrow()["key"].to_pylist() == ["red", None]


class Seen(msgspec.Struct, tag=True):
    user: str
    page: str


class Bought(msgspec.Struct, tag=True):
    user: str
    price: float


OLD_SPELLING = Optional[Union[Seen, Bought]]  # noqa: UP007, UP045


@pytest.mark.parametrize("kind", [None, Seen | Bought, OLD_SPELLING])
def test_messages_of_several_classes_have_the_columns_of_all_of_them(kind):
    found = batch_of(Seen("ann", "/"), None, Bought("bob", 2.0)).to_arrow(kind)
    assert found.schema.field("price").type == pa.float64()
    assert [(row["user"], row["page"], row["price"]) for row in found.to_pylist()] == [
        ("ann", "/", None),
        (None, None, None),
        ("bob", None, 2.0),
    ]


def test_a_class_that_the_messages_do_not_have_is_refused_with_the_column():
    with pytest.raises(TypeError, match="column 'page': a message is no Seen"):
        batch_of(Bought("bob", 2.0)).to_arrow(Seen)


def test_a_value_that_its_annotation_does_not_allow_is_refused_with_its_column():
    with pytest.raises(TypeError, match="column 'n'"):
        batch_of(Data("ann", "one")).to_arrow()


def test_frames_of_pandas_and_polars_have_the_same_columns():
    batch = batch_of({"a": 1}, {"a": 2})
    assert list(batch.to_pandas()["a"]) == [1, 2]
    assert batch.to_polars()["a"].to_list() == [1, 2]


@pytest.mark.parametrize(
    ("library", "call", "extra"),
    [("pyarrow", "to_arrow", "arrow"), ("pandas", "to_pandas", "pandas"), ("polars", "to_polars", "polars")],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, library, call, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'samzapy\[{extra}\]'"):
        getattr(batch_of("x"), call)()


def test_the_rows_of_a_table_become_messages():
    table = pa.table({"user": ["ann", "bob"], "n": [1, 2], "offset": [7, 8], "at": pa.array([1, 2], pa.timestamp("s"))})
    found = arrow.rows_of(table, key="user", message=None, timestamp="at", inputs="offset")
    assert found.keys == ["ann", "bob"]
    assert found.messages == [{"user": "ann", "n": 1}, {"user": "bob", "n": 2}]
    assert (found.timestamps, found.inputs) == ([1000, 2000], [7, 8])


@pytest.mark.parametrize("as_frame", [lambda t: t, lambda t: t.to_batches()[0], lambda t: t.to_pandas()])
def test_tables_and_frames_are_taken_alike(as_frame):
    found = arrow.rows_of(as_frame(pa.table({"a": [1]})), key=None, message="a", timestamp=None, inputs=None)
    assert found == (None, [1], None, None)


def test_a_column_that_a_table_does_not_have_is_refused():
    with pytest.raises(KeyError, match="column 'b': the table has a"):
        arrow.rows_of(pa.table({"a": [1]}), key="b", message=None, timestamp=None, inputs=None)
    with pytest.raises(TypeError, match="expected a pyarrow Table"):
        arrow.rows_of([1], key=None, message=None, timestamp=None, inputs=None)


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.groupby("k").sum(),
        FRAME.groupby(["k", "n"]).sum(),
        FRAME.set_index(["k", pd.Series([7, 8])]),
        FRAME.set_index("k", drop=False),
        FRAME.sort_values("n", ascending=False)[::-1],
    ],
)
def test_the_index_of_a_frame_of_pandas_is_sent_if_it_has_a_name(frame):
    found = arrow.rows_of(frame, key="k", message=None, timestamp=None, inputs=None)
    assert found.keys == ["a", "b"]
    assert found.messages == [{"k": "a", "at": 3, "n": 1}, {"k": "b", "at": 4, "n": 2}]


def test_times_of_a_frame_of_pandas_are_those_of_python():
    frame = pd.DataFrame({"at": pd.to_datetime(["2024-01-01T00:00:00.123456789", None]), "n": [1, 2]})
    found = arrow.rows_of(frame, key=None, message=None, timestamp=None, inputs=None)
    new_year = datetime(2024, 1, 1, 0, 0, 0, 123456)  # noqa: DTZ001
    assert found.messages == [{"at": new_year, "n": 1}, {"at": None, "n": 2}]
    assert type(found.messages[0]["at"]) is datetime
    assert JsonSerde().to_bytes(found.messages[0]) == b'{"at":"2024-01-01T00:00:00.123456","n":1}'


@pytest.mark.parametrize("values", [["x"], [1.5], [date(2024, 1, 1)]])
def test_times_that_are_none_are_refused_with_their_column(values):
    with pytest.raises(TypeError, match="column 'at': expected times or whole milliseconds, got"):
        arrow.rows_of(pa.table({"at": values}), key=None, message=None, timestamp="at", inputs=None)
