"""What pydantic's models are written as, and that they come back: fields with aliases, strict models, values of many
types."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from itertools import count
from pathlib import Path

import msgspec
import pytest
from jobs import schema_job
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, HttpUrl, SecretStr
from pydantic.alias_generators import to_camel

from samzapy.serializers import JsonSerde, JsonSerdeFactory, MsgpackSerde, serde_registry
from samzapy.serializers.typed import plain_form

NUMBERS = count()


class Visits(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    page_views: int = 0
    last_user: str | None = None


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int = Field(0, validation_alias="n")


class Choosing(BaseModel):
    number: int = Field(0, validation_alias=AliasChoices("n", AliasPath("numbers", 0)))


class ByAlias(BaseModel):
    """Its names are aliases of other fields, which does not matter if it is written by aliases."""

    model_config = ConfigDict(serialize_by_alias=True)
    id: int = Field(0, alias="_id")
    other: int = Field(0, alias="id")


class Tree(BaseModel):
    below: list[Tree] = Field([], alias="Below")


@dataclasses.dataclass
class Holding:
    visits: Visits
    others: list[Forbidding]


VISITS = Visits(pageViews=7, lastUser="ann")
ALIASED = [
    (Visits, VISITS),
    (list[Visits], [VISITS]),
    (Forbidding, Forbidding(n=3)),
    (Choosing, Choosing(n=4)),
    (ByAlias, ByAlias(_id=1, id=2)),
    (Tree, Tree(Below=[Tree(), Tree(Below=[Tree()])])),
    (Holding, Holding(VISITS, [Forbidding(n=3)])),
]
FORMATS = [JsonSerde(), MsgpackSerde(), JsonSerdeFactory().serde("json", {"sort.keys": "true"})]


@pytest.mark.parametrize("serde", FORMATS)
@pytest.mark.parametrize(("kind", "value"), ALIASED)
def test_fields_with_aliases_come_back(serde, kind, value):
    typed = serde.of_type(kind)
    assert typed.from_bytes(typed.to_bytes(value)) == value


@pytest.mark.parametrize(("kind", "value"), ALIASED)
def test_fields_with_aliases_come_back_from_plain_values(kind, value):
    form = plain_form(kind)
    assert form.from_plain(form.to_plain(value)) == value


def test_a_field_is_written_by_its_name_and_read_by_its_alias_first():
    typed = JsonSerde().of_type(Visits)
    assert typed.to_bytes(VISITS) == b'{"page_views":7,"last_user":"ann"}'
    assert typed.from_bytes(b'{"pageViews":7,"page_views":8,"lastUser":"ann"}') == VISITS


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    id: uuid.UUID
    at: datetime
    pair: tuple[int, str] = (1, "a")
    words: set[str] = {"a"}
    count: int = 0


STRICT = Strict(id=uuid.UUID(int=7), at=datetime(2026, 2, 3, tzinfo=timezone.utc))


@pytest.mark.parametrize("serde", FORMATS)
def test_a_strict_model_comes_back(serde):
    typed = serde.of_type(Strict)
    assert typed.from_bytes(typed.to_bytes(STRICT)) == STRICT


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": "5"}, "$.count: Input should be a valid integer, got str"),
        ({"count": b"5"}, "$.id: Input should be an instance of UUID, got str (and 4 more)"),
        ({"count": float("nan")}, "$.id: Input should be an instance of UUID, got str (and 4 more)"),
        ({"words": {5: "a"}}, "$.id: Input should be an instance of UUID, got str (and 3 more)"),
    ],
)
def test_a_strict_model_stays_strict(change, reason):
    typed = MsgpackSerde().of_type(Strict)
    plain = msgspec.msgpack.decode(typed.to_bytes(STRICT))
    with pytest.raises(ValueError) as refused:
        typed.from_bytes(msgspec.msgpack.encode({**plain, **change}))
    assert typed.misfit(refused.value) == reason


class Color(enum.Enum):
    RED = "RED"


class Page(BaseModel):
    color: Color
    url: HttpUrl
    path: Path
    address: IPv4Address
    words: set[str]
    took: timedelta
    at: datetime


PAGE = Page(
    color=Color.RED,
    url="http://a.example/",
    path="/a",
    address="10.0.0.1",
    words=["a"],
    took=timedelta(seconds=3),
    at=datetime(2026, 2, 3, tzinfo=timezone.utc),
)
TEXTS = ("url", "path", "address", "took")
AVRO = {
    "type": "record",
    "name": "Page",
    "fields": [
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        *({"name": name, "type": "string"} for name in TEXTS),
        {"name": "words", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def test_a_model_with_values_of_many_types_comes_back_from_avro():
    keys = schema_job.registry_keys("avro", f"mock://models-{next(NUMBERS)}", AVRO, auto_register="true")
    typed = serde_registry(keys)["avro"].of_type(Page).at("pages", "value")
    assert typed.from_bytes(typed.to_bytes(PAGE)) == PAGE


class StrictPage(BaseModel):
    model_config = ConfigDict(strict=True)
    color: Color
    words: set[str]
    url: HttpUrl
    id: uuid.UUID
    at: datetime
    price: Decimal
    part: float | None
    title: str = "a"


STRICT_PAGE = StrictPage(
    color=Color.RED,
    words={"a"},
    url=HttpUrl("http://a.example/"),
    id=uuid.UUID(int=7),
    at=datetime(2026, 2, 3, tzinfo=timezone.utc),
    price=Decimal("1.50"),
    part=float("inf"),
)


def test_a_strict_model_comes_back_from_plain_values():
    form = plain_form(StrictPage)
    assert form.from_plain(form.to_plain(STRICT_PAGE)) == STRICT_PAGE


class Guarded(BaseModel):
    secret: SecretStr


def test_a_secret_is_no_plain_value():
    with pytest.raises(TypeError, match="Encoding objects of type SecretStr is unsupported"):
        plain_form(Guarded).to_plain(Guarded(secret="s"))
