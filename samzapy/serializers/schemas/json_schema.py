"""JSON with a schema of the registry: orjson writes and reads it, jsonschema checks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import orjson
from jsonschema import SchemaError, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from referencing import Registry as Documents
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from samzapy.errors import SerdeError
from samzapy.serializers.documents import from_json
from samzapy.serializers.refusals import NULL, check_numbers
from samzapy.serializers.schemas.framed import FRAME, KnownSchema, SchemaSerde, frame, id_in
from samzapy.serializers.typed import typed_serde

#: Raises ValidationError.
Check = Callable[[Any], None]


def _document(value: Any, body: bytes) -> Any:
    # orjson writes NaN and the infinities as null, so the value is not the document.
    return from_json(body) if NULL in body else value


class JsonSchemaSerde(SchemaSerde):
    """JSON with a registered schema: values of JSON, or objects of a class.

    Each message is checked against the schema that it is written with, and when it is read against the job's schema, or
    the writer's if the job has none. `validate=false` leaves the checks out and asks the registry for writing only. A
    schema's references are to other schemas of the registry; nothing is loaded from elsewhere.
    """

    name = "json-schema"
    kind = "JSON"
    doubt = NULL

    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        encode: Callable[[Any], bytes] = orjson.dumps
        decode: Callable[[bytes], Any] = from_json
        if self.object_type is None:
            return self._writing(encode, _document), self._reading(decode)
        typed = typed_serde("json", self.object_type)
        self.classes = typed.classes
        # An object is checked as the document it becomes.
        write = self._writing(typed.to_bytes, lambda _, body: from_json(body))
        read = self._reading(typed.from_bytes)

        def from_bytes(data: bytes) -> Any:
            try:
                return read(data)
            except ValueError as cause:
                raise SerdeError(typed.misfit(cause)) from cause

        return write, from_bytes

    def _writing(self, encode: Callable[[Any], bytes], document: Callable[[Any, bytes], Any]) -> Callable[[Any], bytes]:
        head = b""
        check: Check | None = None

        def to_bytes(value: Any) -> bytes:
            nonlocal head, check
            if not head:
                known = self._written()
                check = self._prepare(known, writing=True) if self._settings.validate else None
                head = frame(known.id)
            body = encode(value)
            if check is not None:
                check(document(value, body))
            return head + body

        return to_bytes

    def _reading(self, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        known: dict[bytes, Check | None] = {}
        plain = decode is from_json

        def from_bytes(data: bytes) -> Any:
            head, body = data[:FRAME], data[FRAME:]
            if head not in known:
                known[head] = self._check_of(id_in(self.name, data))
            check = known[head]
            value = decode(body)
            if check is not None:
                check(value if plain else from_json(body))
            return value

        return from_bytes

    def _check_of(self, schema_id: int) -> Check | None:
        if not self._settings.validate:
            return None
        return self._prepare(self._own() or self._registry.schema_of(schema_id), writing=False)

    def _prepare(self, known: KnownSchema, *, writing: bool) -> Check:
        try:
            schema = msgspec.json.decode(known.text)
            result = [(name, msgspec.json.decode(text)) for name, text in known.references]
            documents: Documents[Any] = Documents().with_resources(
                [(name, Resource.from_contents(item, DRAFT202012)) for name, item in result]
            )
            kind = validator_for(schema)
            kind.check_schema(schema)
            validator = kind(schema, registry=documents)
        except (SchemaError, ValueError, TypeError) as cause:
            reason = cause.message if isinstance(cause, SchemaError) else cause
            raise SerdeError(f"json-schema serde: {known} is no JSON Schema ({reason})") from cause

        lost = _lost_reference(Resource.from_contents(schema, DRAFT202012), documents)
        if lost is not None:
            advice = "register the schema with its references, and leave it out of the job file"
            raise SerdeError(f"json-schema serde: {known}: $ref {lost!r} leads nowhere; {advice}")

        def check(value: Any) -> None:
            if not validator.is_valid(value):
                raise SerdeError(f"json-schema serde: {known}: {_reason(best_match(validator.iter_errors(value)))}")

        return check

    def _record(self) -> str | None:
        schema = msgspec.json.decode(self._settings.schema or "{}")
        return schema.get("title") if isinstance(schema, dict) else None

    def check(self, value: Any) -> None:
        check_numbers(value)


def _lost_reference(schema: Any, documents: Documents[Any]) -> str | None:
    """A reference in a schema, or in what it refers to, that leads nowhere; None if there is none."""
    waiting, seen = [(schema, documents.resolver_with_root(schema))], set()
    while waiting:
        part, resolver = waiting.pop()
        if not isinstance(part.contents, dict) or id(part.contents) in seen:
            continue
        seen.add(id(part.contents))
        for reference in filter(None, map(part.contents.get, ("$ref", "$dynamicRef", "$recursiveRef"))):
            # jsonschema knows its own schemas by itself.
            if isinstance(reference, str) and "://json-schema.org/" not in reference:
                try:
                    result = resolver.lookup(reference)
                except Unresolvable:
                    return reference
                waiting.append((Resource.from_contents(result.contents, DRAFT202012), result.resolver))
        waiting += [(item, resolver.in_subresource(item)) for item in part.subresources()]
    return None


def _reason(found: ValidationError | None) -> str:
    return "does not fit" if found is None else f"{found.json_path}: {' '.join(found.message.split())[:300]}"
