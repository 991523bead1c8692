"""Avro with a registry, by fastavro.

What fastavro leaves to its callers:

1. A field that a message lacks gets the default as it is in the JSON of the schema: one list or dict for all messages,
   text in place of bytes, a number in place of a date. `_typed_defaults` gives each default its type; lists and dicts
   are built anew for each message.
2. A dict in a union becomes the branch with the most fields in common, the first of equal ones, so it may come back as
   another record. `_ambiguous` finds the unions in which a value may be of two branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from itertools import permutations
from typing import Any

import msgspec
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import LOGICAL_READERS

from samzapy.errors import EnvironmentFailure, SerdeError
from samzapy.serializers.schemas.framed import FRAME, KnownSchema, SchemaSerde, frame, id_in
from samzapy.serializers.typed import plain_form


class AvroSerde(SchemaSerde):
    """Values of an Avro schema: dicts, or objects of a class through the same dicts.

    1. A message is read by the schema that wrote it and, if the job has a schema, resolved to that one: fields that the
       job's schema lacks are dropped, fields that the message lacks have their defaults, each message its own.
    2. A dict with a field that the schema lacks is refused. Other values are written as fastavro takes them: 1.9 as a
       long is 1, and numbers and times are rounded to the precision of the type.
    3. Logical types are Python's: datetime, date, time, Decimal, UUID.
    4. A schema with a union in which a value may be of two branches is refused for writing, when the job starts. With
       `validate=false` it is accepted: a pair of the branch's full name and the value names the branch, and fastavro
       chooses one for any other value; unknown fields are lost. Records of such unions are read as pairs.
    """

    name = "avro"
    kind = "AVRO"
    #: Values that are read back may differ from the written ones by the rounding of point 2.
    rounds = True

    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        write, read = self._writing(), self._reading()
        if self.object_type is None:
            return write, read
        form = plain_form(self.object_type)
        to_plain, from_plain = form.to_plain, form.from_plain
        self.classes = form.classes

        def to_bytes(value: Any) -> bytes:
            return write(to_plain(value))

        def from_bytes(data: bytes) -> Any:
            plain = read(data)
            try:
                return from_plain(plain)
            except ValueError as cause:
                raise SerdeError(form.reason(cause)) from cause

        return to_bytes, from_bytes

    def _writing(self) -> Callable[[Any], bytes]:
        strict = self._settings.validate
        head, schema = b"", None

        def to_bytes(value: Any) -> bytes:
            nonlocal head, schema
            if not head:
                known = self._written()
                schema, head = self._prepare(known, writing=True), frame(known.id)
            stream = BytesIO()
            stream.write(head)
            schemaless_writer(stream, schema, value, strict_allow_default=strict)
            return stream.getvalue()

        return to_bytes

    def _reading(self) -> Callable[[bytes], Any]:
        # By the first bytes of a message: the writer's schema, the one to resolve to, whether to name records.
        known: dict[bytes, tuple[Any, Any, bool]] = {}

        def from_bytes(data: bytes) -> Any:
            result = known.get(data[:FRAME])
            if result is None:
                result = known[data[:FRAME]] = self._schemas(id_in(self.name, data))
            writer, reader, names = result
            stream = BytesIO(data)
            stream.seek(FRAME)
            try:
                value = schemaless_reader(
                    stream, writer, reader, return_record_name=names, return_record_name_override=names
                )
            except EnvironmentFailure:
                raise
            except Exception as cause:
                reason = " ".join(str(cause).split()) or type(cause).__name__
                raise SerdeError(f"avro serde: schema {id_in(self.name, data)} does not read it: {reason}") from cause
            if stream.read(1):
                raise SerdeError(f"avro serde: schema {id_in(self.name, data)} leaves bytes after its message")
            return value

        return from_bytes

    def _schemas(self, schema_id: int) -> tuple[Any, Any, bool]:
        writer = _parsed(self._registry.schema_of(schema_id))
        own = self._own()
        reader = None if own is None or _parsed(own) == writer else self._prepare(own, writing=False)
        return writer, reader, _ambiguous(writer) is not None

    def _prepare(self, known: KnownSchema, *, writing: bool) -> Any:
        schema = _parsed(known)
        pair = _ambiguous(schema) if writing and self._settings.validate else None
        if pair is not None:
            one, other = map(_name, pair)
            advice = (
                f"tell them apart by their fields, or set serializers.registry.{self._settings.name}.validate=false"
            )
            raise SerdeError(f"avro serde: {known} has a union in which a {one} may also be a {other}: {advice}")
        try:
            return _typed_defaults(schema, reading=not writing)
        except Exception as cause:
            raise SerdeError(f"avro serde: {known} has a default that does not fit its field ({cause})") from cause

    def _record(self) -> str | None:
        own = self._own()
        result = None if own is None else _parsed(own)
        return result.get("name") if isinstance(result, dict) else None


def _parsed(known: KnownSchema) -> Any:
    try:
        named: dict[str, Any] = {}
        for _, text in known.references:
            parse_schema(msgspec.json.decode(text), named_schemas=named)
        return parse_schema(msgspec.json.decode(known.text), named_schemas=named)
    except Exception as cause:
        raise SerdeError(f"avro serde: {known} is no schema of Avro ({' '.join(str(cause).split())})") from cause


_RECORDS = ("record", "error")
#: By kind of schema, the kind of its values in JSON.
_VALUES: Mapping[str, str] = {
    **dict.fromkeys(("int", "long", "float", "double"), "number"),
    **dict.fromkeys(("bytes", "fixed", "string", "enum"), "text"),
    **dict.fromkeys((*_RECORDS, "map"), "dict"),
    "array": "list",
    "boolean": "boolean",
    "null": "null",
}
_OF_JSON = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    dict: "dict",
    list: "list",
}


class _Fresh(dict[str, Any]):
    """A field of a parsed schema with a default that each reader may change."""

    def __getitem__(self, key: str) -> Any:
        result = dict.__getitem__(self, key)
        return _copy(result) if key == "default" else result


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(held) for key, held in value.items()}
    return list(map(_copy, value)) if type(value) is list else value


class _Schema:
    """A parsed schema with its named types."""

    def __init__(self, schema: Any) -> None:
        self._names: Mapping[str, Any] = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
        self.all = list(self._parts(schema))

    def named(self, schema: Any) -> Any:
        """The definition, of a name as well."""
        while isinstance(schema, Mapping) and isinstance(schema["type"], (dict, list)):
            schema = schema["type"]
        return self._names.get(schema, schema) if isinstance(schema, str) else schema

    def _parts(self, schema: Any) -> Iterator[Any]:
        """Every schema in it, a named one once."""
        waiting, seen = [schema], set()
        while waiting:
            part = self.named(waiting.pop())
            if isinstance(part, list):
                waiting += part
            elif isinstance(part, Mapping):
                name = part.get("name")
                if name in seen:
                    continue
                seen |= {name} - {None}
                waiting += [part[key] for key in ("items", "values") if key in part]
                waiting += [field["type"] for field in part.get("fields", ())]
            yield part


def _kind(part: Any) -> str:
    return str(part["type"] if isinstance(part, Mapping) else part)


def _name(part: Any) -> str:
    """The name of a branch of a union, as fastavro has it."""
    return str(part.get("name", part["type"]) if isinstance(part, Mapping) else part)


def _typed_defaults(schema: Any, *, reading: bool) -> Any:
    """The parsed `schema`, changed in place: its defaults have the types that a reader gives. Raises ValueError for a
    default that does not fit. `reading`: lists and dicts are built anew; the writer needs none, and takes no other
    dicts than Python's."""
    known = _Schema(schema)
    result = [
        (fields, place, _default(known, field["type"], field["default"]))
        for fields in (part["fields"] for part in known.all if _kind(part) in _RECORDS)
        for place, field in enumerate(fields)
        if "default" in field
    ]
    for fields, place, value in result:
        kind = _Fresh if reading and isinstance(value, (dict, list)) else dict
        fields[place] = kind({**fields[place], "default": value})
    return schema


def _default(known: _Schema, schema: Any, given: Any) -> Any:
    part = known.named(schema)
    if isinstance(part, list):
        branches = map(known.named, part)
        fits = (branch for branch in branches if _VALUES[_kind(branch)] == _OF_JSON.get(type(given)))
        return _default(known, next(fits, part[0]), given)
    kind = _kind(part)
    if kind in _RECORDS:
        built = {
            field["name"]: _default(known, field["type"], given.get(field["name"], field.get("default")))
            for field in part["fields"]
            if field["name"] in given or "default" in field
        }
        if len(built) < len(part["fields"]):
            raise ValueError(f"the default of a {part['name']} lacks a field that has none")
        return built
    if kind == "array":
        return [_default(known, part["items"], item) for item in given]
    if kind == "map":
        return {key: _default(known, part["values"], item) for key, item in given.items()}
    if kind in {"bytes", "fixed"}:
        given = given.encode("latin-1")
    elif kind in {"float", "double"}:
        given = float(given)
    logical = part.get("logicalType") if isinstance(part, Mapping) else None
    read = LOGICAL_READERS.get(f"{kind}-{logical}")
    return given if read is None else read(given, part, part)


def _ambiguous(schema: Any) -> tuple[Any, Any] | None:
    """Two branches of a union in the parsed schema, of which a value of the first may also be of the second; None if
    there are none."""
    known = _Schema(schema)
    unions = [list(map(known.named, part)) for part in known.all if isinstance(part, list)]
    return next((pair for union in unions for pair in permutations(union, 2) if _alike(known, *pair)), None)


def _alike(known: _Schema, one: Any, other: Any) -> bool:
    kinds = _kind(one), _kind(other)
    if kinds == ("enum", "enum"):
        return bool({*one["symbols"]} & {*other["symbols"]})
    if kinds == ("fixed", "fixed"):
        return bool(one["size"] == other["size"])
    if kinds[0] not in _RECORDS or _VALUES.get(kinds[1]) != "dict":
        return False
    if kinds[1] == "map":
        values = _kinds(known, other["values"])
        return all(_kinds(known, field["type"]) & values for field in one["fields"])
    fields, others = ({field["name"]: field for field in item["fields"]} for item in (one, other))
    return fields.keys() <= others.keys() and all(
        _kinds(known, fields[name]["type"]) & _kinds(known, field["type"]) if name in fields else "default" in field
        for name, field in others.items()
    )


def _kinds(known: _Schema, schema: Any) -> set[str]:
    """The kinds of the values of a schema, in Python."""
    part = known.named(schema)
    if isinstance(part, list):
        return set().union(*(_kinds(known, branch) for branch in part))
    plain = "bytes" if _kind(part) in {"bytes", "fixed"} else _VALUES[_kind(part)]
    logical = isinstance(part, Mapping) and part.get("logicalType")
    return {plain, "number", "other"} if logical else {plain}
