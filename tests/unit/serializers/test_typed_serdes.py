"""JSON and MessagePack of one class: every kind of class, what does not fit, and what is refused to be encoded."""

from __future__ import annotations

from typing import Annotated, Generic, NewType, TypeVar

import attrs
import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs.typed_views import (
    AttrsView,
    Click,
    DataView,
    DictView,
    Event,
    Models,
    ModelView,
    PageView,
    Place,
    Plain,
    Scroll,
    StrictView,
    TupleView,
    UserMap,
)

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, SerdeError
from samzapy.serializers import JsonSerde, JsonSerdeFactory, MsgpackSerde, serde_registry, task_serdes
from samzapy.serializers.typed import plain_form

V = TypeVar("V")
KINDS = [
    (PageView, PageView("ann", "/a")),
    (DataView, DataView("ann", "/a")),
    (AttrsView, AttrsView("ann", "/a")),
    (DictView, {"user": "ann", "page": "/a"}),
    (TupleView, TupleView("ann", "/a")),
    (ModelView, ModelView(user="ann", page="/a")),
    (UserMap, {"ann": 1}),
    (Event, Scroll(3)),
    (Models, [ModelView(user="ann")]),
    (Place, Place("a.example", "/")),
]
FORMATS = [JsonSerde, MsgpackSerde]


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize(("kind", "value"), KINDS)
def test_an_object_of_any_kind_of_class_comes_back_as_it_was(serde, kind, value):
    typed = serde().of_type(kind)
    data = typed.to_bytes(value)
    assert type(data) is bytes
    assert typed.from_bytes(data) == value
    assert type(typed.from_bytes(data)) is type(value)
    assert typed.object_type is kind
    with pytest.raises((TypeError, ValueError)):
        typed.from_bytes(None)


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize(
    ("kind", "value"), [pair for pair in KINDS if isinstance(pair[1], (PageView, DataView, ModelView))]
)
def test_the_bytes_are_a_document_for_every_other_reader(serde, kind, value):
    assert serde().from_bytes(serde().of_type(kind).to_bytes(value)) == {"user": "ann", "page": "/a"}


@pytest.mark.parametrize("kind", [PageView, DataView, AttrsView, TupleView, UserMap, Place])
def test_the_functions_of_a_stream_are_those_of_a_c_library(kind):
    serde = JsonSerde().of_type(kind)
    assert type(serde.from_bytes).__name__ == "builtin_function_or_method"


@given(st.text(), st.text())
def test_json_of_a_class_and_plain_json_are_the_same_text(user, page):
    value = PageView(user, page)
    assert JsonSerde().of_type(PageView).to_bytes(value) == orjson.dumps({"user": user, "page": page})


MISFITS = [
    (PageView, b'{"user":1}', "$.user: Expected str, got int"),
    (PageView, b"{}", "$: Object missing required field user"),
    (PageView, b"[]", "$: Expected object, got array"),
    (PageView, b"null", "$: Expected object, got null"),
    (PageView, b'{"user"', "Input data was truncated"),
    (UserMap, b'{"ann":"x"}', "$[...]: Expected int, got str"),
    (StrictView, b'{"user":"ann","age":3}', "$: Object contains unknown field age"),
    (TupleView, b'[1,"/"]', "$[0]: Expected str, got int"),
    (ModelView, b'{"user":1,"page":2}', "$.user: Input should be a valid string, got int (and 1 more)"),
    (ModelView, b"{}", "$.user: Field required"),
    (Models, b'[{"user":null}]', "$[0].user: Input should be a valid string, got NoneType"),
]


@pytest.mark.parametrize(("kind", "data", "reason"), MISFITS)
def test_a_document_that_does_not_fit_is_refused_with_the_path(kind, data, reason):
    serde = JsonSerde().of_type(kind)
    with pytest.raises(ValueError) as refused:
        serde.from_bytes(data)
    assert serde.misfit(refused.value) == reason


def test_invalid_json_is_refused_by_a_model_too():
    serde = JsonSerde().of_type(ModelView)
    with pytest.raises(ValueError) as refused:
        serde.from_bytes(b'{"user"')
    assert serde.misfit(refused.value).startswith("Invalid JSON: ")


@pytest.mark.parametrize("kind", [PageView, DataView, AttrsView, ModelView])
def test_fields_that_the_class_does_not_have_are_ignored(kind):
    assert JsonSerde().of_type(kind).from_bytes(b'{"user":"ann","age":3}').user == "ann"


class Mobile(PageView):
    device: str = "phone"


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize(
    ("kind", "value", "named"),
    [
        (PageView, {"user": "ann"}, "expected PageView, got dict {'user': 'ann'}"),
        (PageView, Mobile("ann"), "expected PageView, got Mobile"),
        (PageView, None, "expected PageView, got NoneType None"),
        (ModelView, PageView("ann"), "expected ModelView, got PageView"),
        (UserMap, [("ann", 1)], "expected dict[str, int], got list"),
        (DictView, PageView("ann"), "expected DictView, got PageView"),
        (Event, PageView("ann"), "got PageView"),
        (Annotated[PageView, msgspec.Meta(title="view")], Mobile("ann"), "got Mobile"),
        (Annotated[ModelView, "view"], PageView("ann"), "got PageView"),
        (NewType("View", PageView), Mobile("ann"), "got Mobile"),
    ],
)
def test_an_object_of_another_class_is_refused_with_both_names(serde, kind, value, named):
    typed = serde().of_type(kind)
    with pytest.raises(SerdeError) as refused:
        typed.to_bytes(value)
    assert named in str(refused.value)


def test_either_class_of_a_union_is_encoded():
    serde = JsonSerde().of_type(Event)
    assert serde.from_bytes(serde.to_bytes(Click("ann"))) == Click("ann")


def test_a_field_that_cannot_be_encoded_is_refused_with_the_class():
    serde = JsonSerde().of_type(PageView)
    value = PageView(object())
    with pytest.raises(TypeError) as refused:
        serde.to_bytes(value)
    assert (
        serde.refusal(value, refused.value) == "json serde of PageView: Encoding objects of type object is unsupported"
    )


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize("kind", [Plain, list[Plain], PageView | DataView, "PageView"])
def test_a_class_that_cannot_be_decoded_to_is_refused(serde, kind):
    with pytest.raises(SerdeError, match=r"is decoded to|cannot be decoded to"):
        serde().of_type(kind)


@attrs.define
class Account:
    owner: str
    _balance: int = 0


@attrs.define
class Held(Generic[V]):
    item: V


@pytest.mark.parametrize("serde", FORMATS)
def test_an_attrs_class_with_a_private_attribute_is_read(serde):
    plain = {"owner": "ann", "_balance": 5}
    assert serde().of_type(Account).from_bytes(serde().to_bytes(plain)) == Account("ann", 5)
    assert plain_form(Account).from_plain(plain) == Account("ann", 5)


@attrs.define
class Remembering:
    owner: str
    _known: dict = attrs.field(init=False, factory=dict)


@pytest.mark.parametrize("serde", FORMATS)
def test_a_private_attribute_that_an_object_makes_itself_is_left_out(serde):
    typed = serde().of_type(Remembering)
    assert serde().from_bytes(typed.to_bytes(Remembering("ann"))) == {"owner": "ann"}


@pytest.mark.parametrize("kind", [PageView, ModelView])
def test_sorted_keys_are_kept_with_a_class(kind):
    serde = JsonSerdeFactory().serde("json", {"sort.keys": "true"})
    assert serde.of_type(kind).to_bytes(kind(user="ann")) == b'{"page":"/","user":"ann"}'


BASE = {
    "job.name": "typed",
    "task.class": "jobs.typed_views:Sending",
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "memory",
    "streams.in.samza.system": "kafka",
    "streams.in.samza.msg.serde": "json",
    "stores.visits.factory": "inmemory",
    "stores.visits.key.serde": "json",
    "stores.visits.msg.serde": "msgpack",
}


def problems(**keys):
    with pytest.raises(ConfigError) as refused:
        task_serdes(load_job({**BASE, **keys}))
    return {problem.key: str(problem) for problem in refused.value.problems}


def test_all_classes_that_cannot_be_loaded_are_reported_together():
    found = problems(
        **{"streams.in.samza.msg.type": "jobs.typed_views:PageVeiw", "stores.visits.msg.type": "jobs.typed_views:Plain"}
    )
    assert "has no PageVeiw; did you mean PageView?" in found["streams.in.samza.msg.type"]
    assert "Plain is none of the classes that msgpack is decoded to" in found["stores.visits.msg.type"]


class Tags(msgspec.Struct, frozen=True):
    words: frozenset[str]


class Labels(msgspec.Struct, frozen=True):
    tags: tuple[Tags, ...]


@pytest.mark.parametrize("kind", ["Tags", "Labels"])
def test_keys_of_a_store_hold_no_sets_which_are_other_bytes_in_each_process(kind):
    found = problems(**{"stores.visits.key.type": f"{__name__}:{kind}"})
    assert "a set has not: take a sorted tuple" in found["stores.visits.key.type"]
    task_serdes(load_job({**BASE, "stores.visits.msg.type": f"{__name__}:{kind}"}))


@pytest.mark.parametrize("hashable", ["Place", "TupleView"])
def test_hashable_classes_are_keys_of_a_store(hashable):
    task_serdes(load_job({**BASE, "stores.visits.key.type": f"jobs.typed_views:{hashable}"}))


def test_a_tool_reads_plain_values_without_the_users_classes():
    config = load_job({**BASE, "stores.visits.msg.type": "no.such.module:Visits"})
    serde = serde_registry(config)["msgpack<no.such.module:Visits>"]
    assert serde.from_bytes(msgspec.msgpack.encode({"count": 1})) == {"count": 1}
