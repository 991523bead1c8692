"""Avro's defaults are typed, and each message's own; a union of records of one shape keeps its branch."""

import json
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from io import BytesIO
from itertools import count
from uuid import UUID

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from jobs import schema_job

from samzapy.errors import SerdeError
from samzapy.serializers import serde_registry
from samzapy.serializers.schemas.avro_schemas import Branches, typed_defaults

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


def test_avro_defaults_are_mended_for_confluents_deserializer_too():
    """Its reader schema is fastavro's parsed one: the same change of it holds."""
    client = SchemaRegistryClient.new_client({"url": new_url()})
    context = SerializationContext("orders", MessageField.VALUE)
    data = AvroSerializer(client, json.dumps(OLD))({"id": 1}, context)
    reader = AvroDeserializer(client, json.dumps(with_field(of("array", items="string"), [])))
    reader(data, context)["more"].append("x")
    assert reader(data, context)["more"] == ["x"], (
        "Confluent's own has one list for all messages: no mend is needed any more"
    )
    old, new = parse_schema(OLD), typed_defaults(parse_schema(with_field(of("array", items="string"), [])))
    schemaless_reader(BytesIO(data[5:]), old, new)["more"].append("x")
    assert schemaless_reader(BytesIO(data[5:]), old, new)["more"] == []


CREDIT = record("Credit", account=of("string"), cents=of("long"))
DEBIT = record("Debit", account=of("string"), cents=of("long"))
OTHER = record("Other", number=of("int"))


def moving(*branches):
    return record(
        "Move", what={"type": list(branches), "default": None} if branches[0] == "null" else of(list(branches))
    )


MOVE = {"account": "a", "cents": 5}


WITHIN = {
    "field": (lambda union: union, lambda value: value),
    "array": (lambda union: ["null", of("array", items=union)], lambda value: [value]),
    "map": (lambda union: ["null", of("map", values=union)], lambda value: {"k": value}),
}


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("branch", ["Credit", "Debit"])
def test_avro_union_of_one_shape_keeps_its_branch_when_sent_on(branch, within):
    schema_of, value_of = WITHIN[within]
    made = serde(new_url(), moving(*schema_of(["null", CREDIT, DEBIT, OTHER])))
    data = made.to_bytes({"what": value_of((branch, MOVE))})
    read = made.from_bytes(data)
    assert read == {"what": value_of({**MOVE, "-type": branch})}
    assert made.to_bytes(read) == data


@pytest.mark.parametrize(
    "union",
    [
        [CREDIT, DEBIT],
        [CREDIT, record("Wide", account=of("string"), cents=of("long"), note=of("string", default="")), OTHER],
    ],
)
def test_avro_value_that_fits_two_branches_and_names_none_is_refused(union):
    made = serde(new_url(), moving("null", *union))
    with pytest.raises(
        SerdeError,
        match=r"^avro serde: \$\.what: expected the dict with its branch as '-type', one of Credit, (Debit|Wide), got",
    ):
        made.to_bytes({"what": dict(MOVE)})
    with pytest.raises(SerdeError, match=r"\$\.what: expected a branch of null, Credit"):
        made.to_bytes({"what": {**MOVE, "-type": "Cradle"}})


def test_avro_record_of_a_branch_is_sent_on_alone():
    url = new_url()
    read = serde(url, moving("null", CREDIT, DEBIT)).from_bytes(
        serde(url, moving("null", CREDIT, DEBIT)).to_bytes({"what": {**MOVE, "-type": "Debit"}})
    )
    pair = record("Pair", one=of(CREDIT), all=of(["Credit", DEBIT]))
    made = serde(new_url(), pair)
    with pytest.raises(SerdeError, match=r"\$\.one: expected Credit, got dict"):
        made.to_bytes({"one": read["what"], "all": read["what"]})
    credit = {**read["what"], "-type": "Credit"}
    again = made.from_bytes(made.to_bytes({"one": credit, "all": read["what"]}))
    assert again == {"one": MOVE, "all": read["what"]}


def test_avro_union_of_other_shapes_stays_without_a_branch():
    made = serde(new_url(), moving("null", CREDIT, OTHER))
    assert made.from_bytes(made.to_bytes({"what": MOVE})) == {"what": MOVE}
    assert Branches(parse_schema(moving("null", CREDIT, OTHER))).named is None


def test_avro_record_and_map_of_one_shape_keep_their_branch():
    made = serde(new_url(), moving("null", of("map", values="string"), record("Named", name=of("string"))))
    for value in ({"-type": "Named", "name": "x"}, {"other": "x"}):
        data = made.to_bytes({"what": value})
        assert made.from_bytes(data) == {"what": value}
        assert made.to_bytes(made.from_bytes(data)) == data


def test_avro_enums_of_one_symbol_are_written_by_their_name_alone():
    union = [of("enum", name="A", symbols=["x", "y"]), of("enum", name="B", symbols=["x", "z"])]
    made = serde(new_url(), moving("null", *union))
    assert made.from_bytes(made.to_bytes({"what": "z"})) == {"what": "z"}
    assert made.to_bytes({"what": ("B", "x")}) != made.to_bytes({"what": ("A", "x")})
    with pytest.raises(SerdeError, match=r"\$\.what: expected a pair \(branch, value\), one of A, B, got str 'x'"):
        made.to_bytes({"what": "x"})


def test_avro_branch_is_found_by_its_name_in_the_jobs_own_schema():
    url = new_url()
    data = serde(url, moving("null", CREDIT, DEBIT)).to_bytes({"what": ("Debit", MOVE)})
    read = serde(url, moving("null", DEBIT, CREDIT, OTHER)).from_bytes(data)
    assert read == {"what": {**MOVE, "-type": "Debit"}}


class Credit(msgspec.Struct, tag_field="-type", tag="Credit"):
    account: str
    cents: int


class Debit(msgspec.Struct, tag_field="-type", tag="Debit"):
    account: str
    cents: int


class Move(msgspec.Struct):
    what: Credit | Debit | None = None


class Untagged(msgspec.Struct):
    account: str
    cents: int


class MoveOfUntagged(msgspec.Struct):
    what: Untagged | None = None


def test_avro_classes_tagged_by_their_branch_keep_it():
    made = serde(new_url(), moving("null", CREDIT, DEBIT)).of_type(Move)
    for value in (Move(Debit("a", 5)), Move(Credit("a", 5)), Move()):
        assert made.from_bytes(made.to_bytes(value)) == value
    with pytest.raises(SerdeError, match="expected the dict with its branch as '-type'"):
        serde(new_url(), moving("null", CREDIT, DEBIT)).of_type(MoveOfUntagged).to_bytes(
            MoveOfUntagged(Untagged("a", 5))
        )


def test_avro_of_fastavro_changes_a_branch_without_the_mend():
    schema = parse_schema(moving("null", CREDIT, DEBIT))
    stream = BytesIO()
    schemaless_writer(stream, schema, {"what": ("Debit", MOVE)})
    read = schemaless_reader(BytesIO(stream.getvalue()), schema, None)
    again = BytesIO()
    schemaless_writer(again, schema, read)
    assert again.getvalue() != stream.getvalue(), "fastavro keeps the branch itself: no mend is needed any more"
