"""A value of any class is refused by name at its put, or a restart reads an equal one."""

import dataclasses
import enum
import math
import typing
from collections import OrderedDict
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samzapy.api.engine import EngineSettings
from samzapy.config.stores import StoreConfig
from samzapy.errors import SerdeError
from samzapy.serializers import JsonSerde, MsgpackSerde, StringSerde
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.kv.uncommitted import InMemoryStorageEngineFactory

CONFIG = StoreConfig("s", "inmemory", "string", "json", object_cache_size=100, write_batch_size=10)


class Color(enum.Enum):
    RED = "red"
    ONE = 1
    TEXT = "1"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Base:
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Derived(Base):
    more: int = 0


class Model(pydantic.BaseModel):
    size: int = 0
    left: int = pydantic.Field(0, exclude=True)


class Point(typing.NamedTuple):
    x: int
    y: float


INTS = st.integers(-(2**40), 2**40)
TEXTS = st.text(max_size=4) | st.just("1") | st.uuids().map(str)
KEYS = {
    str: TEXTS,
    int: INTS,
    UUID: st.uuids(),
    Color: st.sampled_from(Color),
    Level: st.sampled_from(Level),
    int | None: st.none() | st.just(1),
    date: st.dates(),
}
#: An annotation, values of it, and values that a type checker would not take.
LEAVES = {
    **KEYS,
    float: st.floats() | st.integers(-5, 5) | st.booleans(),
    bool: st.booleans(),
    bytes: st.binary(max_size=4),
    Decimal: st.decimals(),
    datetime: st.datetimes() | st.datetimes(timezones=st.timezones()),
    time: st.times(),
    timedelta: st.timedeltas(timedelta(days=-999), timedelta(days=999)),
    Base: st.builds(Base, TEXTS) | st.builds(Derived, TEXTS, INTS),
    Model: st.builds(Model, size=INTS, left=st.just(0) | INTS),
    Point: st.builds(Point, INTS, st.floats() | INTS),
    UUID | str: st.uuids() | TEXTS,
    int | float: INTS | st.floats() | st.booleans(),
    set[int] | list[int]: st.sets(INTS) | st.lists(INTS),
    pydantic.SecretStr: st.builds(pydantic.SecretStr, st.just("hidden") | st.just("")),
    typing.Any: st.booleans() | TEXTS | st.tuples(INTS),
}


def containers(parts):
    one = st.sampled_from([*LEAVES.items()])
    keys = st.sampled_from([*KEYS.items()])
    return st.one_of(
        parts.map(lambda part: (list[part[0]], st.lists(part[1], max_size=2))),
        parts.map(
            lambda part: (tuple[part[0], ...], st.lists(part[1], max_size=2).map(tuple) | st.lists(part[1], max_size=1))
        ),
        keys.map(lambda part: (set[part[0]], st.sets(part[1], max_size=2) | st.frozensets(part[1], max_size=1))),
        keys.map(
            lambda part: (dict[tuple[part[0], int], int], st.dictionaries(st.tuples(part[1], INTS), INTS, max_size=2))
        ),
        st.tuples(keys, parts).map(
            lambda pair: (dict[pair[0][0], pair[1][0]], st.dictionaries(pair[0][1], pair[1][1], max_size=2))
        ),
        one.map(lambda part: (dict[str, part[0]], st.dictionaries(TEXTS, part[1], max_size=2).map(OrderedDict))),
    )


ANNOTATED = st.recursive(st.sampled_from([*LEAVES.items()]), containers, max_leaves=2)


def dataclass_of(fields):
    return dataclasses.make_dataclass("Made", list(fields.items()))


def pydantic_of(fields):
    made = pydantic.create_model("Made", **{name: (kind, ...) for name, kind in fields.items()})
    # As it is after an assignment: the fields are not checked.
    return made, made.model_construct


CLASSES = {
    "dataclass": dataclass_of,
    "slots": lambda fields: dataclasses.make_dataclass("Made", list(fields.items()), slots=True),
    "without eq": lambda fields: dataclasses.make_dataclass("Made", list(fields.items()), eq=False),
    "struct": lambda fields: msgspec.defstruct("Made", list(fields.items())),
    "array": lambda fields: msgspec.defstruct("Made", list(fields.items()), array_like=True),
    "attrs": lambda fields: attrs.make_class("Made", {name: attrs.field(type=kind) for name, kind in fields.items()}),
    "pydantic": pydantic_of,
    "pydantic dataclass": lambda fields: pydantic.dataclasses.dataclass(dataclass_of(fields)),
    "NamedTuple": lambda fields: typing.NamedTuple("Made", list(fields.items())),
    "TypedDict": lambda fields: typing.TypedDict("Made", fields),
}  # fmt: skip


def same(one, other):  # noqa: PLR0911  # one for each kind
    """Whether a program cannot tell two values from one another, as far as it looks at types and values."""
    if type(one) is not type(other):
        return type(one) is int and type(other) is float and one == other
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Decimal):
        return str(one) == str(other) or one == other
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            any(same(key, twin) and same(held, found) for twin, found in other.items()) for key, held in one.items()
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(each, twin) for twin in other) for each in one)
    names = getattr(one, "__match_args__", None) or list(getattr(one, "__dict__", {}))
    if (
        dataclasses.is_dataclass(one)
        or isinstance(one, pydantic.BaseModel)
        or hasattr(one, "__struct_fields__")
        or attrs.has(type(one))
    ):
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return one == other


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("serde", [JsonSerde, MsgpackSerde])
@pytest.mark.parametrize("kind", CLASSES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_readback_refuses_a_value_by_name_or_a_restart_reads_an_equal_one(kind, serde, data):
    fields = dict(zip("ab", data.draw(st.lists(ANNOTATED, min_size=1, max_size=2)), strict=False))
    try:
        made = CLASSES[kind]({name: annotation for name, (annotation, _) in fields.items()})
        made, new = made if isinstance(made, tuple) else (made, made)
        values = serde().of_type(made)
    except (SerdeError, pydantic.PydanticSchemaGenerationError):
        return  # refused at the start
    try:
        value = new(**{name: data.draw(strategy) for name, (_, strategy) in fields.items()})
    except pydantic.ValidationError:
        return  # refused by the class
    stack = build_stack(CONFIG, InMemoryStorageEngineFactory().open(None, EngineSettings("s")), StringSerde(), values)
    try:
        stack.store.put("k", value)
    except SerdeError as refused:
        assert str(refused).startswith("store 's': value of key 'k': ")  # noqa: PT017
        assert "hidden" not in str(refused)  # noqa: PT017
        assert not stack.uncommitted.changes
        return
    stack.store.flush()
    (written,) = stack.uncommitted.changes.values()
    back = serde().of_type(made).from_bytes(written)
    assert same(value, back), (value, written, back)
