"""Avro with a registry, by fastavro."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from samzapy.errors import EnvironmentFailure, SerdeError
from samzapy.serializers.schemas.answers import KnownSchema
from samzapy.serializers.schemas.avro_schemas import Branches, typed_defaults, with_branches
from samzapy.serializers.schemas.avro_values import check_of
from samzapy.serializers.schemas.framed import FRAME, SchemaSerde, frame, id_in
from samzapy.serializers.schemas.misfits import Misfit
from samzapy.serializers.typed import plain_form


class _Writer(NamedTuple):
    head: bytes
    schema: Any
    check: Callable[[Any], None] | None
    #: As `Branches.named`.
    named: Callable[[Any], Any] | None


class _Reader(NamedTuple):
    writer: Any
    #: The schema to resolve to; None for the writer's.
    reader: Any
    #: As `Branches.names`.
    carried: frozenset[str]


class AvroSerde(SchemaSerde):
    """Values of an Avro schema: dicts, or objects of a class through the same dicts.

    1. A message is read by the schema that wrote it and, if the job has a schema, resolved to that one: fields that the
       job's schema lacks are dropped, fields that the message lacks have their defaults, each message its own.
    2. A value that does not fit is refused: a field that the schema lacks, 1.9 as a long, 2**40 as an int, a text or an
       iterator as an array, 1e300 as a float, a datetime without a time zone as a timestamp. Values are rounded to the
       precision of a float and to the unit of a timestamp. With `validate=false` an unknown field is lost, and a value
       that does not fit is changed.
    3. Logical types are Python's: datetime, date, time, Decimal, UUID.
    4. A record in a union whose other branches would take it, too, has its full name under `-type` in its dict. One to
       write must have it (or be a pair of name and dict); an enum or fixed that two branches take must be a pair.
    """

    name = "avro"
    kind = "AVRO"
    #: Values that are read back may differ from the written ones by the rounding of point 2.
    rounds = True

    def ready(self, *, writing: bool) -> None:
        """See `Serde.ready`."""
        super().ready(writing=writing)
        known = self.written() if writing else self.own()
        if known is not None:
            _with_defaults(known, self._prepare(known))

    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        if self.object_type is None:
            return self._writing(), self._reading()
        form = plain_form(self.object_type)
        write, read, to_plain, from_plain = self._writing(), self._reading(), form.to_plain, form.from_plain
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
        writer: _Writer | None = None

        def to_bytes(value: Any) -> bytes:
            nonlocal writer
            if writer is None:
                known = self.written()
                schema = _with_defaults(known, self._prepare(known), reading=False)
                check = check_of(schema) if strict else None
                writer = _Writer(frame(known.id), schema, check, Branches(schema).named)
            if writer.named is not None:
                value = _with_names(writer.named, value)
            if writer.check is not None:
                writer.check(value)
            stream = BytesIO()
            stream.write(writer.head)
            schemaless_writer(stream, writer.schema, value, strict_allow_default=strict)
            return stream.getvalue()

        return to_bytes

    def _reading(self) -> Callable[[bytes], Any]:
        # By the first bytes of a message.
        known: dict[bytes, _Reader] = {}

        def from_bytes(data: bytes) -> Any:
            found = known.get(data[:FRAME])
            if found is None:
                found = known[data[:FRAME]] = self._reader(id_in(self.name, data))
            writer, reader, carried = found
            stream = BytesIO(data)
            stream.seek(FRAME)
            try:
                value = schemaless_reader(stream, writer, reader, return_record_name=bool(carried))
            except EnvironmentFailure:
                raise
            except Exception as cause:
                reason = " ".join(str(cause).split()) or type(cause).__name__
                raise SerdeError(f"avro serde: schema {id_in(self.name, data)} does not read it: {reason}") from cause
            if stream.read(1):
                raise SerdeError(f"avro serde: schema {id_in(self.name, data)} leaves bytes after its message")
            return with_branches(value, carried) if carried else value

        return from_bytes

    def _reader(self, schema_id: int) -> _Reader:
        writer = self._prepare(self._registry.schema_of(schema_id))
        own = self.own()
        reader = None if own is None else self._prepare(own)
        if own is None or reader == writer:
            return _Reader(writer, None, Branches(writer).names)
        carried = Branches(reader).names | Branches(writer).names
        return _Reader(writer, _with_defaults(own, reader, carried), carried)

    def _prepare(self, known: KnownSchema) -> Any:
        try:
            named: dict[str, Any] = {}
            for _, text in known.references:
                parse_schema(msgspec.json.decode(text), named_schemas=named)
            return parse_schema(msgspec.json.decode(known.text), named_schemas=named)
        except Exception as cause:
            raise SerdeError(
                f"avro serde: {_which(known)} is no schema of Avro ({' '.join(str(cause).split())})"
            ) from cause

    def _record(self) -> str | None:
        own = self.own()
        found = None if own is None else self._prepare(own)
        return found.get("name") if isinstance(found, dict) else None


def _which(known: KnownSchema) -> str:
    return "the job's schema" if known.id < 0 else f"schema {known.id}"


def _with_defaults(
    known: KnownSchema, parsed: Any, carried: frozenset[str] = frozenset(), *, reading: bool = True
) -> Any:
    try:
        return typed_defaults(parsed, carried, reading=reading)
    except Exception as cause:
        raise SerdeError(f"avro serde: {_which(known)} has a default that does not fit its field ({cause})") from cause


def _with_names(named: Callable[[Any], Any], value: Any) -> Any:
    try:
        return named(value)
    except Misfit as found:
        raise SerdeError(f"avro serde: ${''.join(reversed(found.path))}: {found}") from None
