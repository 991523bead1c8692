"""Protobuf with a registry: generated classes, or dicts by the registry's descriptors.

After the frame comes the place of the message's class in its file: the index of the class, after the indexes of the
classes around it, as zigzag varints with their count in front; one byte 0 stands for the first class of the file.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from samzapy.errors import SerdeError
from samzapy.serializers.schemas.answers import KnownSchema, Reference
from samzapy.serializers.schemas.framed import FRAME, SchemaSerde, frame, id_in
from samzapy.serializers.schemas.protobuf_values import check_of
from samzapy.serializers.typed import shown

_WELL_KNOWN = "google/protobuf/"


class ProtobufSerde(SchemaSerde):
    """Messages of protobuf: objects of a generated class, or dicts.

    1. With a class, its file is the schema to write with; its imports are references, with their file names as
       subjects. A message of a class with another full name is refused.
    2. Dicts have the names of the `.proto` file, all fields but unset optional ones, enums as their names, 64-bit
       numbers as ints, bytes as bytes. They are written by the first class of the subject's latest schema
       (`use.latest.version=true`). A value that the class would change is refused, unless `validate=false`.
    """

    name = "protobuf"
    kind = "PROTOBUF"

    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        kind = self.object_type
        if kind is None:
            return self._writing_dicts(), self._reading(None)
        if not (isinstance(kind, type) and issubclass(kind, Message)):
            raise SerdeError(f"{shown(kind)} is no generated class of protobuf")
        self.classes = frozenset({kind})
        return self._writing(kind), self._reading(kind)

    def _writing(self, kind: type[Message]) -> Callable[[Any], bytes]:
        head = b""

        def to_bytes(value: Any) -> bytes:
            nonlocal head
            if type(value) is not kind:
                raise SerdeError(f"expected {shown(kind)}, got {type(value).__name__} {value!r:.100}")
            if not head:
                head = frame(self.written().id) + _place_bytes(_place_of(kind.DESCRIPTOR))
            data: bytes = head + value.SerializeToString()
            return data

        return to_bytes

    def _writing_dicts(self) -> Callable[[Any], bytes]:
        head, kind = b"", Message
        check: Callable[[Mapping[str, Any]], None] | None = None
        strict = self._settings.validate

        def to_bytes(value: Any) -> bytes:
            nonlocal head, kind, check
            if not head:
                known = self.written()
                written = _class_at(self._prepare(known), (0,))
                kind, check = message_factory.GetMessageClass(written), check_of(written) if strict else None
                head = frame(known.id) + b"\0"
            if type(value) is not dict:
                raise SerdeError(f"protobuf serde takes a dict without a class, got {type(value).__name__}")
            if check is not None:
                check(value)
            data: bytes = head + kind(**value).SerializeToString()
            return data

        return to_bytes

    def _reading(self, wanted: type[Message] | None) -> Callable[[bytes], Any]:
        # By the first bytes, the length of the head and the function that reads the rest.
        known: dict[bytes, tuple[int, Callable[[bytes], Any]]] = {}

        def from_bytes(data: bytes) -> Any:
            # The first class of a file, the most frequent one, takes one byte.
            found = known.get(data[: FRAME + 1])
            if found is None:
                place, length = _place_in(data)
                found = known.get(data[:length])
                if found is None:
                    found = known[data[:length]] = length, self._reader(id_in(self.name, data), place, wanted)
            try:
                return found[1](data[found[0] :])
            except DecodeError as cause:
                raise SerdeError(
                    f"protobuf serde: schema {id_in(self.name, data)} does not read it ({cause})"
                ) from cause

        return from_bytes

    def _reader(self, schema_id: int, place: Sequence[int], wanted: type[Message] | None) -> Callable[[bytes], Any]:
        written = _class_at(self._prepare(self._registry.schema_of(schema_id)), place)
        if wanted is not None:
            if wanted.DESCRIPTOR.full_name != written.full_name:
                raise SerdeError(
                    f"protobuf serde: expected {wanted.DESCRIPTOR.full_name}, got "
                    f"{written.full_name} (schema {schema_id})"
                )
            found: Callable[[bytes], Any] = wanted.FromString
            return found
        parse = message_factory.GetMessageClass(written).FromString
        return lambda data: _as_dict(parse(data))

    def written(self) -> KnownSchema:
        """See `SchemaSerde.written`."""
        if self._settings.use_latest or self.object_type is None:
            return super().written()
        file = self.object_type.DESCRIPTOR.file
        return self._registry.id_of(self._subject(), _text(file), self._references(file))

    def own(self) -> None:
        """Return None: the class is the job's schema."""

    def _references(self, file: FileDescriptor) -> tuple[Reference, ...]:
        found = []
        for each in file.dependencies:
            if not each.name.startswith(_WELL_KNOWN):
                inner = self._references(each)
                self._registry.id_of(each.name, _text(each), inner)
                version = self._registry.version_of(each.name, _text(each), inner)
                found.append(Reference(each.name, each.name, version))
        return tuple(found)

    def _prepare(self, known: KnownSchema) -> FileDescriptor:
        pool = descriptor_pool.DescriptorPool()
        own = _well_known()
        # Producers may register these files, too, in the form of another version, which the pool would refuse.
        others = [each for each in known.references if each[0] not in {file.name for file in own}]
        try:
            for file in own:
                pool.AddSerializedFile(file.serialized_pb)
            for name, text in others:
                _add(pool, name, text)
            return pool.FindFileByName(_add(pool, f"schema-{known.id}.proto", known.text))
        except Exception as cause:
            reason = " ".join(str(cause).split()) or type(cause).__name__
            raise SerdeError(f"protobuf serde: schema {known.id} is no file descriptor ({reason})") from cause

    def _record(self) -> str | None:
        return None if self.object_type is None else self.object_type.DESCRIPTOR.full_name


def _text(file: FileDescriptor) -> str:
    """A file as the registry takes it."""
    return base64.standard_b64encode(file.serialized_pb).decode("ascii")


def _add(pool: Any, name: str, text: str) -> str:
    """Add a file under the name that others import it by; a name of its own is kept."""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.standard_b64decode(text.encode("ascii")))
    file.name = name
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return name


def _well_known() -> list[FileDescriptor]:
    from google.protobuf import (  # noqa: PLC0415  # only for descriptors from a registry
        any_pb2,
        api_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )

    # An imported file comes before the files that import it.
    modules = (any_pb2, source_context_pb2, type_pb2, api_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2)
    return [each.DESCRIPTOR for each in (*modules, timestamp_pb2, wrappers_pb2)]


def _place_of(found: Descriptor) -> tuple[int, ...]:
    place: list[int] = []
    while found is not None:
        around = found.containing_type
        inside = list(found.file.message_types_by_name.values()) if around is None else list(around.nested_types)
        place.insert(0, [each.full_name for each in inside].index(found.full_name))
        found = around
    return tuple(place)


def _class_at(file: FileDescriptor, place: Sequence[int]) -> Descriptor:
    inside = list(file.message_types_by_name.values())
    found = None
    for index in place:
        if not 0 <= index < len(inside):
            raise SerdeError(f"protobuf serde: expected a class of the schema's file, got number {list(place)}")
        found = inside[index]
        inside = list(found.nested_types)
    return found


def _place_bytes(place: Sequence[int]) -> bytes:
    if tuple(place) == (0,):
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(place), *place))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _place_in(data: bytes) -> tuple[tuple[int, ...], int]:
    """The place at the start of a message, and the length of the head."""
    id_in("protobuf", data)
    count, at = _number(data, FRAME)
    if count == 0:
        return (0,), at
    if count < 0:
        raise SerdeError(f"protobuf serde: expected the place of a class after the schema id, got {count} numbers")
    place = []
    for _ in range(count):
        index, at = _number(data, at)
        place.append(index)
    return tuple(place), at


def _number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 35:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise SerdeError("protobuf serde: expected the place of a class after the schema id, got bytes that are none")


def _as_dict(message: Message) -> dict[str, Any]:
    found = {}
    for field in message.DESCRIPTOR.fields:
        if not field.has_presence or message.HasField(field.name):
            found[field.name] = _value(field, getattr(message, field.name))
    return found


def _value(field: FieldDescriptor, value: Any) -> Any:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        one = inner.fields_by_name["value"]
        return {key: _single(one, each) for key, each in value.items()}
    if field.is_repeated:
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _as_dict(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
