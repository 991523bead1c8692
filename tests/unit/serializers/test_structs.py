"""A class of a Struct that was taken apart and made again is as it was."""

from __future__ import annotations

from typing import Annotated, ClassVar, Generic, TypeVar

import msgspec
import pytest

from samzapy.serializers.structs import complete, completion_of, definition_of, is_struct, struct_again

T = TypeVar("T")


class Plain(msgspec.Struct):
    """A user's view."""

    user: str
    times: int = 1
    pages: list[str] = []  # msgspec makes a new one for each object


class Camel(msgspec.Struct, rename="camel", frozen=True, kw_only=True, tag="seen", tag_field="kind"):
    user_name: str
    first_page: str = "/"
    short_name: str = msgspec.field(default="s", name="s")


class Below(Camel, frozen=True, tag=True, omit_defaults=True):
    last_page: str


class Untagged(Camel, frozen=True, tag=False):
    more: int


class Node(msgspec.Struct):
    name: str
    left: Node | None = None
    rest: dict[str, Node] = {}  # msgspec makes a new one for each object


class Box(msgspec.Struct, Generic[T]):
    held: T
    count: Annotated[int, msgspec.Meta(ge=0)] = 0


class IntBox(Box[int]):
    unit: str = "m"


class Row(msgspec.Struct, array_like=True, order=True, forbid_unknown_fields=True):
    a: int
    b: str | None = None


class Checked(msgspec.Struct, dict=True, weakref=True):
    LIMIT: ClassVar[int] = 3
    amount: int

    def __post_init__(self):
        if self.amount > self.LIMIT:
            raise ValueError("too many")

    def __add__(self, other):
        return type(self)(self.amount + other.amount)

    @property
    def twice(self):
        return self.amount * 2

    @classmethod
    def none(cls):
        return cls(0)


KINDS = [Plain, Camel, Below, Untagged, Node, Box, IntBox, Row, Checked]


def again(kind):
    made = struct_again(definition_of(kind))
    complete(made, completion_of(kind))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_fields_options_and_names_are_kept(kind):
    made = again(kind)
    assert made is not kind
    assert is_struct(made)
    assert msgspec.structs.fields(made) == msgspec.structs.fields(kind)
    for name in (
        "__struct_fields__",
        "__struct_encode_fields__",
        "__match_args__",
        "__doc__",
        "__module__",
        "__qualname__",
    ):
        assert getattr(made, name) == getattr(kind, name), name
    config = made.__struct_config__
    assert {name: getattr(config, name) for name in dir(config) if not name.startswith("__")} == {
        name: getattr(kind.__struct_config__, name) for name in dir(config) if not name.startswith("__")
    }


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Plain, b'{"user":"u","times":1,"pages":["/a"]}'),
        (Camel, b'{"kind":"seen","userName":"u","firstPage":"/a","s":"s"}'),
        (Below, b'{"kind":"Below","lastPage":"/b","userName":"u"}'),
        (Untagged, b'{"more":7,"userName":"u","firstPage":"/a","s":"s"}'),
        (Node, b'{"name":"a","left":{"name":"b","left":null,"rest":{}},"rest":{}}'),
        (IntBox, b'{"held":3,"count":1,"unit":"km"}'),
        (Row, b'[1,"b"]'),
        (Checked, b'{"amount":2}'),
    ],
)
def test_it_reads_and_writes_the_same_text(kind, text):
    made = again(kind)
    assert msgspec.json.encode(msgspec.json.decode(text, type=kind)) == text
    assert msgspec.json.encode(msgspec.json.decode(text, type=made)) == text
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"held":"x","amount":"x","user":1,"a":[]}', type=made)


def test_its_defaults_are_made_for_each_object():
    made = again(Plain)
    first, second = made("a"), made("b")
    first.pages.append("/")
    assert (second.times, second.pages) == (1, [])


def test_its_functions_attributes_and_checks_are_there():
    made = again(Checked)
    assert (made(1) + made.none()).twice == 2
    assert (made.LIMIT, made(1) == made(1)) == (3, True)
    for wrong in (lambda: made(4), lambda: msgspec.json.decode(b'{"amount":4}', type=made)):
        with pytest.raises((ValueError, msgspec.ValidationError), match="too many"):
            wrong()


def test_a_generic_takes_its_parameter():
    made = again(Box)
    assert msgspec.json.decode(b'{"held":"x"}', type=made[str]).held == "x"
    with pytest.raises(msgspec.ValidationError, match="Expected `int`, got `str`"):
        msgspec.json.decode(b'{"held":"x"}', type=made[int])


def test_the_type_of_a_field_that_is_not_there_is_named():
    class Local(msgspec.Struct):
        other: Missing  # noqa: F821

    with pytest.raises(NameError, match="Missing"):
        definition_of(Local)
