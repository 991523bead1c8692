"""What the protobuf serde refuses in dicts because the classes would change it, and what it leaves to them."""

from itertools import count

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from samzapy.errors import SerdeError
from samzapy.serializers.schemas.protobuf_values import check_of

NUMBERS = count()


def descriptor(*fields):
    """A class with these fields (name, type or class, repeated), which may hold itself by the class `M`."""
    package = f"p{next(NUMBERS)}"
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="RatesEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=Field.TYPE_FLOAT, label=Field.LABEL_OPTIONAL)
    for number, (name, kind, repeated) in enumerate(fields, 1):
        label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
        named = {"type_name": f".{package}.{kind}"} if isinstance(kind, str) else {}
        message.field.add(name=name, number=number, label=label, type=Field.TYPE_MESSAGE if named else kind, **named)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName(f"{package}.M")


CHECK = check_of(
    descriptor(
        ("f", Field.TYPE_FLOAT, False),
        ("d", Field.TYPE_DOUBLE, False),
        ("b", Field.TYPE_BOOL, False),
        ("i", Field.TYPE_INT32, False),
        ("many", Field.TYPE_FLOAT, True),
        ("rates", "M.RatesEntry", True),
        ("inner", "M", False),
        ("inners", "M", True),
    )
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"f": 1e300}, "$.f: expected float, got float 1e+300"),
        ({"f": -1e39}, "$.f: expected float, got float -1e+39"),
        ({"d": 2**53 + 1}, "$.d: expected double, got int 9007199254740993"),
        ({"b": 5}, "$.b: expected bool, got int 5"),
        ({"many": [1.0, 1e39]}, "$.many[1]: expected float, got float 1e+39"),
        ({"rates": {"x": 1e39}}, "$.rates['x']: expected float, got float 1e+39"),
        ({"inner": {"inner": {"b": 1}}}, "$.inner.inner.b: expected bool, got int 1"),
        ({"inners": [{}, {"f": 1e39}]}, "$.inners[1].f: expected float, got float 1e+39"),
    ],
)
def test_a_value_that_the_class_would_change_is_refused_with_its_path(value, message):
    with pytest.raises(SerdeError) as refused:
        CHECK(value)
    assert str(refused.value) == f"protobuf serde: {message}"


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"f": None, "b": None, "inner": None},
        {"f": float("inf"), "d": 1e300, "many": (1, 2.5)},
        {"f": np.float32(1.5), "b": np.bool_(1)},
        {"f": 10**400, "d": 10**400},
        {"d": 2**53, "b": False, "i": "no"},
        {"rates": {"x": 1.5}, "inners": [{"b": True}]},
        {"many": "left to the class", "inner": 5, "rates": 7},
    ],
)
def test_a_value_that_fits_or_that_the_class_refuses_itself_passes(value):
    CHECK(value)


def test_an_iterator_is_left_to_the_class():
    values = iter([1.0, 2.0])
    CHECK({"many": values})
    assert list(values) == [1.0, 2.0]


def test_a_class_without_such_fields_and_one_with_other_keys_have_no_check():
    assert check_of(descriptor(("i", Field.TYPE_INT64, False))) is None
    assert check_of(struct_pb2.Struct.DESCRIPTOR) is None


def test_maps_and_a_oneof_survive_and_two_of_a_oneof_are_refused():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    from samzapy.serializers.schemas.protobuf import _as_dict

    file = descriptor_pb2.FileDescriptorProto(name="choice.proto", syntax="proto3")
    made = file.message_type.add(name="Choice")
    made.oneof_decl.add(name="paid")
    made.oneof_decl.add(name="_note")
    made.field.add(name="card", number=1, type=9, label=1, oneof_index=0)
    made.field.add(name="cents", number=2, type=3, label=1, oneof_index=0)
    made.field.add(name="note", number=3, type=9, label=1, oneof_index=1, proto3_optional=True)
    entry = made.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=3, label=1)
    made.field.add(name="tags", number=4, type=11, label=3, type_name=".Choice.TagsEntry")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Choice"))
    check = check_of(kind.DESCRIPTOR)
    for value in ({"cents": 0, "tags": {}}, {"card": "", "note": "", "tags": {"a": 0}}, {"tags": {"a": -1}}):
        check(value)
        assert _as_dict(kind.FromString(kind(**value).SerializeToString())) == value
    with pytest.raises(SerdeError, match=r"^protobuf serde: \$: expected one of card, cents \(oneof paid\), got dict"):
        check({"card": "x", "cents": 5})
