"""Values that their serde changes are refused at their put, by name, before a commit can have them."""

import enum
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, Json, PrivateAttr, SecretStr, field_serializer

from samzapy.api.engine import EngineSettings
from samzapy.api.serde import Serde
from samzapy.config.stores import StoreConfig
from samzapy.errors import SerdeError, Unreachable
from samzapy.serializers import DoubleSerde, JsonSerde, MsgpackSerde, StringSerde
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.kv.uncommitted import InMemoryStorageEngineFactory
from samzapy.storage.readback import EVERY, FIRST, OPAQUE, difference

CONFIG = StoreConfig("s", "inmemory", "string", "json", object_cache_size=100, write_batch_size=10)
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
FORMATS = [JsonSerde, MsgpackSerde]
STORES = {
    "cached": {},
    "uncached": {"object_cache_size": 0, "write_batch_size": 1},
    "budgeted": {"object_cache_size": None},
    "copying": {"object_cache_mode": "copy"},
    "expiring": {"ttl_ms": 60_000},
}


def stack_of(kind, serde=JsonSerde, keys=None, **changes):
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    values = kind if isinstance(kind, Serde) else serde().of_type(kind)
    return build_stack(replace(CONFIG, **changes), engine, keys or StringSerde(), values)


class Login(BaseModel):
    user: str
    pin: SecretStr


class Encoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")
    raw: bytes


class Parsed(BaseModel):
    held: Json[Any]


class Excluding(BaseModel):
    kept: int
    left: int = Field(exclude=True)


class ExcludingDefault(BaseModel):
    left: int = Field(5, exclude=True)


class Private(BaseModel):
    _note: str = PrivateAttr("")
    number: int = 0

    def noting(self, note):
        self._note = note
        return self


class EitherId(BaseModel):
    id: UUID | str


class Optional(BaseModel):
    counts: dict[int | None, int]


class Key(enum.Enum):
    NUMBER = 1
    TEXT = "1"


class OfKeys(BaseModel):
    counts: dict[Key, int]


class Either(BaseModel):
    held: set[int] | list[int]


class Rounding(BaseModel):
    price: float

    @field_serializer("price")
    def rounded(self, price):
        return round(price, 1)


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: int = 0


class Kennel(BaseModel):
    guest: Animal


@dataclass
class Base:
    name: str


@dataclass
class Derived(Base):
    more: int = 0


@dataclass
class Holding:
    held: Base


@dataclass
class Counting:
    counts: dict[str, int]


class PairsModel(BaseModel):
    counts: dict[tuple[int, int], int]


class Total(msgspec.Struct):
    total: int


@attrs.define
class Caching:
    owner: str
    _known: dict = attrs.field(init=False, factory=dict)

    def knowing(self):
        self._known["a"] = 1
        return self


CHANGED = {
    "secret": (Login(user="ann", pin="1234"), r"\$\.pin: SecretStr \*{8} was written, SecretStr \*{8} is read"),
    "bytes": (Encoded(raw=b"a\xff>"), r"\$\.raw: bytes b'a\\xff>' was written, bytes b'.*' is read"),
    "json": (Parsed(held='{"a": 1}'), r"is not read back \(.*held"),
    "excluded": (Excluding(kept=1, left=2), r"is not read back \(\$\.left: Field required"),
    "excluded with a default": (ExcludingDefault(left=6), r"\$\.left: int 6 was written, int 5 is read"),
    "private": (Private().noting("x"), r"\$\.__pydantic_private__\['_note'\]: str 'x' was written, str '' is read"),
    "no key": (Optional(counts={None: 1}), r"(is not read back|\$\.counts)"),
    "two keys": (OfKeys(counts={Key.NUMBER: 1, Key.TEXT: 2}), r"(is not read back|\$\.counts: key|\$\.counts: 2 keys)"),
    "set or list": (Either(held={1, 2}), r"\$\.held: a set was written, a list is read"),
    "rounded": (Rounding(price=1.25), r"\$\.price: float 1\.25 was written, float 1\.2 is read"),
    "model of a subclass": (Kennel(guest=Dog(name="rex", tricks=1)), r"\$\.guest: a Dog was written, a Animal is read"),
    "subclass": (Holding(Derived("x", 1)), r"\$\.held: a Derived was written, a Base is read"),
    "dict of a subclass": (Counting(defaultdict(int, a=1)), r"\$\.counts: a defaultdict was written, a dict is read"),
    "true": (Total(True), r"(is not read back|\$\.total: bool True was written, int 1 is read)"),
    "float": (Total(1.0), r"(is not read back|\$\.total: float 1\.0 was written, int 1 is read)"),
    "attribute that is not written": (Caching("ann").knowing(), r"\$\._known: key 'a' was written and is not read"),
    "tuples as keys of a model": (PairsModel(counts={(1, 2): 3}), r"is not read back"),
}  # fmt: skip


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize("name", CHANGED)
def test_readback_of_a_value_that_its_serde_changes_is_refused_by_name(name, serde):
    value, reason = CHANGED[name]
    with pytest.raises(SerdeError, match=rf"^store 's': value of key 'k': .*{reason}") as refused:
        stack_of(type(value), serde).store.put("k", value)
    assert "1234" not in str(refused.value)
    assert refused.value.refused


@pytest.mark.parametrize(
    ("serde", "id", "reason"),
    [
        (JsonSerde, str(UUID(int=7)), r"\$\.id: str '0{8}.*' was written, UUID .* is read"),
        (MsgpackSerde, UUID(int=7), r"\$\.id: UUID .* was written, str '0{8}.*' is read"),
    ],
)
def test_readback_of_a_value_that_fits_another_type_of_a_union(serde, id, reason):  # noqa: A002
    with pytest.raises(SerdeError, match=reason):
        stack_of(EitherId, serde).store.put("k", EitherId(id=id))


@pytest.mark.parametrize("store", STORES)
def test_readback_refuses_at_the_put_in_every_kind_of_store(store):
    stack = stack_of(Login, **STORES[store])
    for put in (
        lambda: stack.store.put("k", Login(user="a", pin="x")),
        lambda: stack.store.put_all({"k": Login(user="a", pin="x")}),
    ):
        with pytest.raises(SerdeError, match=r"Login does not come back as it was written: \$.*pin|\$\[1\]\.pin"):
            put()
    stack.store.flush()
    assert not stack.uncommitted.changes


def test_readback_of_merged_values_is_at_the_merge():
    stack = stack_of(ExcludingDefault)
    stack.store.put("k", ExcludingDefault())
    with pytest.raises(SerdeError, match=r"\$\.left: int 6 was written"):
        stack.store.merge_all({"k": ExcludingDefault()}, lambda old, new: ExcludingDefault(left=6))
    assert stack.store.get("k") == ExcludingDefault()


@pytest.mark.parametrize("store", ["cached", "budgeted", "expiring"])
def test_readback_of_a_class_ends_after_its_first_values(store):
    stack = stack_of(ExcludingDefault, **STORES[store])
    for number in range(FIRST):
        stack.store.put(f"k{number}", ExcludingDefault())
    stack.store.put("k", ExcludingDefault(left=6))
    assert stack.store.get("k") == ExcludingDefault(left=6)


@pytest.mark.parametrize("store", STORES)
def test_readback_of_one_in_a_thousand_later_values_is_before_the_commit(store):
    stack = stack_of(ExcludingDefault, **STORES[store])

    def put_many():
        for number in range(FIRST + EVERY + 10):
            stack.store.put(f"k{number % 50}", ExcludingDefault(left=5 if number < FIRST else 6))
            if number % 50 == 49:
                stack.store.flush()

    with pytest.raises(SerdeError, match=r"value of key 'k\d+': .*left: int 6 was written, int 5 is read"):
        put_many()


@dataclass(frozen=True)
class Place:
    city: str
    weight: float = 0.0


def test_readback_of_a_key_that_would_not_find_its_entry_is_refused():
    stack = stack_of(JsonSerde(), keys=JsonSerde().of_type(Place))
    stack.store.put(Place("rome"), 1)
    with pytest.raises(SerdeError, match=r"^store 's': key Place\(.*\$\.weight: int 1 was written, float 1\.0 is read"):
        stack.store.put(Place("rome", 1), 2)


def test_readback_takes_an_int_for_a_float_as_type_checkers_do():
    stack = stack_of(Place)
    stack.store.put("k", Place("rome", 1))
    stack.store.flush()
    assert stack.store.get("k") == Place("rome", 1)


class Rounding(DoubleSerde):
    object_type, rounds = float, True

    def to_bytes(self, value):
        return super().to_bytes(round(value, 9))


@pytest.mark.parametrize("store", STORES)
def test_readback_takes_what_a_schema_rounds_in_every_kind_of_store(store):
    stack_of(Rounding(), **STORES[store]).store.put("k", 1 / 3)


class WithoutAnswer(Serde):
    object_type = dict
    answers = True

    def to_bytes(self, value):
        return b"{}"

    def from_bytes(self, data):
        raise Unreachable("registry: does not answer")


def test_readback_by_a_service_that_is_not_reached_is_no_refusal():
    with pytest.raises(Unreachable, match=r"^registry: does not answer$"):
        stack_of(WithoutAnswer()).store.put("k", {})


class Refusing:
    def __eq__(self, other):
        raise RuntimeError("not now")

    __hash__ = None


class Asking:
    def __eq__(self, other):
        return [True]

    __hash__ = None


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Plain:
    def __init__(self, **state):
        self.__dict__.update(state)


class Pair(NamedTuple):
    one: int
    other: object


@pytest.mark.parametrize(
    ("written", "read", "found"),
    [
        (1, True, "$: int 1 was written, bool True is read"),
        (1, 1.0, "$: int 1 was written, float 1.0 is read"),
        ([1, [2]], [1, [3]], "$[1][0]: int 2 was written, int 3 is read"),
        ([1], [1, 2], "$: 1 elements were written, 2 are read"),
        ((1,), [1], "$: a tuple was written, a list is read"),
        ({"a": {1}}, {"a": frozenset({1})}, "$['a']: a set was written, a frozenset is read"),
        ({1}, {True}, "$[...]: int 1 was written, bool True is read"),
        ({1}, {2}, "$: other elements are read than were written"),
        ({"a": 1}, {"b": 1}, "$: key 'a' was written and is not read"),
        ({"a": 1}, {"a": 1, "b": 2}, "$: 1 keys were written, 2 are read"),
        ({1: "a"}, {True: "a"}, "$: key: int 1 was written, bool True is read"),
        (Key.NUMBER, 1, "$: Key <Key.NUMBER: 1> was written, int 1 is read"),
        (Pair(1, 2), Pair(1, 3), "$.other: int 2 was written, int 3 is read"),
        ({"api_token": "x"}, {"api_token": "y"}, "$['api_token']: str ******** was written, str ******** is read"),
        (AT.replace(tzinfo=None), AT, "$: datetime"),
        (Slotted(1), Slotted(2), "$['a']: int 1 was written, int 2 is read"),
        (Plain(a=1), Plain(a=2), "$['a']: int 1 was written, int 2 is read"),
        (Refusing(), Refusing(), "$: two objects of Refusing cannot be compared (RuntimeError: not now)"),
        (Asking(), Asking(), "$: `==` of Asking gives list, not a bool"),
        (Decimal("NaN"), Decimal(1), "$: Decimal"),
    ],
)  # fmt: skip
def test_readback_names_the_first_difference(written, read, found):
    assert difference(written, read).startswith(found)


def test_readback_leaves_objects_without_state_to_their_bytes():
    assert difference(object(), object()) == OPAQUE
