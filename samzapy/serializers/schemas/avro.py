"""Avro with a registry, by fastavro."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from samzapy.errors import EnvironmentFailure, SerdeError
from samzapy.serializers.plain import plain_form
from samzapy.serializers.schemas.answers import KnownSchema
from samzapy.serializers.schemas.avro_values import check_of
from samzapy.serializers.schemas.framed import FRAME, SchemaSerde, frame, id_in


class _Writer(NamedTuple):
    head: bytes
    schema: Any
    check: Callable[[Any], None] | None


class AvroSerde(SchemaSerde):
    """Values of an Avro schema: dicts, or objects of a class through the same dicts.

    1. A message is read by the schema that wrote it and, if the job has a schema, resolved to that one: fields that the
       job's schema lacks are dropped, fields that the message lacks have their defaults.
    2. A value that does not fit is refused: a field that the schema lacks, 1.9 as a long, 2**40 as an int, a text or an
       iterator as an array, 1e300 as a float, a datetime without a time zone as a timestamp. Values are rounded to the
       precision of a float and to the unit of a timestamp. With `validate=false` an unknown field is lost, and a value
       that does not fit is changed.
    3. Logical types are Python's: datetime, date, time, Decimal, UUID.
    """

    name = "avro"
    kind = "AVRO"
    #: Values that are read back may differ from the written ones by the rounding of point 2.
    rounds = True

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
                schema = self._prepare(known)
                writer = _Writer(frame(known.id), schema, check_of(schema) if strict else None)
            if writer.check is not None:
                writer.check(value)
            stream = BytesIO()
            stream.write(writer.head)
            schemaless_writer(stream, writer.schema, value, strict_allow_default=strict)
            return stream.getvalue()

        return to_bytes

    def _reading(self) -> Callable[[bytes], Any]:
        # (schema of the writer, schema to resolve to) by the first bytes of a message.
        known: dict[bytes, tuple[Any, Any]] = {}

        def from_bytes(data: bytes) -> Any:
            pair = known.get(data[:FRAME])
            if pair is None:
                pair = known[data[:FRAME]] = self._pair(id_in(self.name, data))
            stream = BytesIO(data)
            stream.seek(FRAME)
            try:
                value = schemaless_reader(stream, *pair)
            except EnvironmentFailure:
                raise
            except Exception as cause:
                reason = " ".join(str(cause).split()) or type(cause).__name__
                raise SerdeError(f"avro serde: schema {id_in(self.name, data)} does not read it: {reason}") from cause
            if stream.read(1):
                raise SerdeError(f"avro serde: schema {id_in(self.name, data)} leaves bytes after its message")
            return value

        return from_bytes

    def _pair(self, schema_id: int) -> tuple[Any, Any]:
        writer = self._prepare(self._registry.schema_of(schema_id))
        own = self.own()
        reader = None if own is None else self._prepare(own)
        return writer, None if reader == writer else reader

    def _prepare(self, known: KnownSchema) -> Any:
        try:
            named: dict[str, Any] = {}
            for _, text in known.references:
                parse_schema(msgspec.json.decode(text), named_schemas=named)
            return parse_schema(msgspec.json.decode(known.text), named_schemas=named)
        except Exception as cause:
            which = "the job's schema" if known.id < 0 else f"schema {known.id}"
            raise SerdeError(f"avro serde: {which} is no schema of Avro ({' '.join(str(cause).split())})") from cause

    def _record(self) -> str | None:
        own = self.own()
        found = None if own is None else self._prepare(own)
        return found.get("name") if isinstance(found, dict) else None
