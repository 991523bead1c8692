"""Avro's defaults are typed, and each message's own; unions in which a value may be of two branches are refused."""

from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from itertools import count
from uuid import UUID

import pytest
from jobs import schema_job

from samzapy.errors import SerdeError
from samzapy.serializers import serde_registry

NUMBERS = count()


def record(called, /, **types):
    fields = [
        {"name": key, **(value if "default" in value else {"type": value["type"]})} for key, value in types.items()
    ]
    return {"type": "record", "name": called, "fields": fields}


def of(kind, **more):
    return {"type": kind, **more}


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


OLD = record("Order", id=of("int"))
LINE = record(
    "Line",
    sku=of("string", default="none"),
    price=of(logical("bytes", "decimal", precision=9, scale=2), default="\u00ff"),
)
DEFAULTS = {
    "array": (of("array", items="string"), [], []),
    "map": (of("map", values="int"), {}, {}),
    "filled array": (of("array", items=of("map", values="int")), [{"a": 1}], [{"a": 1}]),
    "record": (LINE, {}, {"sku": "none", "price": Decimal("-0.01")}),
    "record in part": (LINE, {"sku": "x"}, {"sku": "x", "price": Decimal("-0.01")}),
    "bytes": ("bytes", "\u00ff", b"\xff"),
    "fixed": (of("fixed", name="Two", size=2), "a\u00ff", b"a\xff"),
    "decimal": (logical("bytes", "decimal", precision=9, scale=2), "\u0003\u00e8", Decimal("10.00")),
    "date": (logical("int", "date"), 1000, date(1972, 9, 27)),
    "time": (logical("int", "time-millis"), 1000, time(0, 0, 1)),
    "timestamp": (logical("long", "timestamp-millis"), 1000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)),
    "uuid": (logical("string", "uuid"), str(UUID(int=7)), UUID(int=7)),
    "double": ("double", 1, 1.0),
    "nan": ("double", "Infinity", float("inf")),
    "null": (["null", "bytes"], None, None),
    "bytes in a union": (["bytes", "null"], "\u00ff", b"\xff"),
    "array of bytes": (of("array", items="bytes"), ["\u00ff"], [b"\xff"]),
    "enum": (of("enum", name="E", symbols=["A", "B"]), "B", "B"),
}  # fmt: skip


def with_field(kind, default):
    return record("Order", id=of("int"), more={"type": kind, "default": default})


def serde(url, schema, **more):
    keys = schema_job.registry_keys("avro", url, schema, auto_register="true", **more)
    return serde_registry(keys)["avro"].at("orders", "value")


def new_url():
    return f"mock://avro-{next(NUMBERS)}"


@pytest.mark.parametrize("name", DEFAULTS)
def test_avro_default_has_its_type_and_belongs_to_one_message(name):
    kind, default, typed = DEFAULTS[name]
    url = new_url()
    old = serde(url, OLD).to_bytes({"id": 1})
    reader = serde(url, with_field(kind, default))
    first = reader.from_bytes(old)
    assert first == {"id": 1, "more": typed}
    assert type(first["more"]) is type(typed)
    for container in (first["more"], *(first["more"] if isinstance(first["more"], list) else ())):
        if isinstance(container, (list, dict)):
            container.clear()
            assert reader.from_bytes(old) == {"id": 1, "more": typed}


@pytest.mark.parametrize("name", DEFAULTS)
def test_avro_default_is_written_for_a_field_that_is_left_out(name):
    kind, default, typed = DEFAULTS[name]
    made = serde(new_url(), with_field(kind, default))
    assert made.from_bytes(made.to_bytes({"id": 1})) == {"id": 1, "more": typed}


@dataclass
class Priced:
    id: int
    day: date
    price: Decimal
    raw: bytes
    items: list[str] = field(default_factory=list)


def test_avro_defaults_fit_a_class():
    url = new_url()
    schema = record(
        "Order",
        id=of("int"),
        day={"type": logical("int", "date"), "default": 1000},
        price={"type": logical("bytes", "decimal", precision=9, scale=2), "default": "\u0003\u00e8"},
        raw={"type": "bytes", "default": "\u00ff"},
        items={"type": of("array", items="string"), "default": []},
    )
    old = serde(url, OLD).to_bytes({"id": 1})
    read = serde(url, schema).of_type(Priced).from_bytes(old)
    assert read == Priced(1, date(1972, 9, 27), Decimal("10.00"), b"\xff")
    read.items.append("x")
    assert serde(url, schema).of_type(Priced).from_bytes(old).items == []


def test_avro_default_that_does_not_fit_is_refused_at_the_start():
    broken = with_field(record("Line", sku=of("string")), {})
    with pytest.raises(SerdeError, match=r"the job's schema has a default .*a Line lacks a field"):
        serde(new_url(), broken).ready(writing=False)


def test_avro_defaults_of_records_that_hold_themselves_end():
    tree = record(
        "Tree", below={"type": of("array", items="Tree"), "default": []}, name={"type": "bytes", "default": "\u00ff"}
    )
    made = serde(new_url(), record("Order", id=of("int"), tree={"type": tree, "default": {}}))
    assert made.from_bytes(made.to_bytes({"id": 1}))["tree"] == {"below": [], "name": b"\xff"}


CREDIT = record("Credit", account=of("string"), cents=of("long"))
DEBIT = record("Debit", account=of("string"), cents=of("long"))
WIDE = record("Wide", account=of("string"), cents=of("long"), note=of("string", default=""))
OTHER = record("Other", number=of("int"))
SMALL, LARGE = (of("enum", name=name, symbols=["x", name]) for name in ("Small", "Large"))
MOVE = {"account": "a", "cents": 5}


def moving(*branches):
    return record("Move", what={"type": ["null", *branches], "default": None})


@pytest.mark.parametrize(
    ("branches", "pair"),
    [
        ([CREDIT, DEBIT], "a Credit may also be a Debit"),
        ([OTHER, WIDE, CREDIT], "a Credit may also be a Wide"),
        ([of("map", values="string"), record("Named", name=of("string"))], "a Named may also be a map"),
        ([SMALL, LARGE], "a Small may also be a Large"),
        ([of("array", items=[CREDIT, DEBIT])], "a Credit may also be a Debit"),
    ],
)
def test_avro_union_whose_values_may_be_of_two_branches_is_refused(branches, pair):
    with pytest.raises(SerdeError, match=rf"the job's schema|schema \d+ has a union in which {pair}: .*validate=false"):
        serde(new_url(), moving(*branches)).ready(writing=True)


def test_avro_union_of_other_shapes_is_written_without_a_branch():
    made = serde(new_url(), moving(CREDIT, OTHER))
    made.ready(writing=True)
    assert made.from_bytes(made.to_bytes({"what": MOVE})) == {"what": MOVE}


@pytest.mark.parametrize("branch", ["Credit", "Debit"])
def test_avro_pair_keeps_its_branch_where_ambiguous_unions_are_accepted(branch):
    made = serde(new_url(), moving(CREDIT, DEBIT), validate="false")
    read = made.from_bytes(made.to_bytes({"what": (branch, MOVE)}))
    assert read == {"what": (branch, MOVE)}
    assert made.from_bytes(made.to_bytes(read)) == read


def test_avro_dict_with_an_unknown_field_is_refused():
    made = serde(new_url(), OLD)
    with pytest.raises(ValueError, match="more"):
        made.to_bytes({"id": 1, "more": 2})
