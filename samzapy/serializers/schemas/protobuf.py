"""Protobuf with a registry: messages of generated classes.

After the frame comes the place of the message's class in its file: the index of the class, after the indexes of the
classes around it, as zigzag varints with their count in front; one byte 0 stands for the first class of the file.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from samzapy.errors import SerdeError
from samzapy.serializers.schemas.framed import FRAME, KnownSchema, SchemaSerde, frame, id_in
from samzapy.serializers.typed import shown

_PROTOBUFS_OWN = "google/protobuf/"


class ProtobufSerde(SchemaSerde):
    """Objects of a generated class. Its file is the schema to write with; its imports are references, with their file
    names as subjects. A message of a class with another full name is refused.
    """

    name = "protobuf"
    kind = "PROTOBUF"

    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        kind = self.object_type
        if kind is not None:
            if not (isinstance(kind, type) and issubclass(kind, Message)):
                raise SerdeError(f"{shown(kind)} is no generated class of protobuf")
            self.classes = frozenset({kind})
        return self._writing(kind), self._reading(kind)

    def _writing(self, kind: type[Message] | None) -> Callable[[Any], bytes]:
        head = b""

        def to_bytes(value: Any) -> bytes:
            nonlocal head
            if kind is None or type(value) is not kind:
                raise SerdeError(f"expected {_expected(kind)}, got {type(value).__name__} {value!r:.100}")
            if not head:
                head = frame(self._written().id) + _place_bytes(_place_of(kind.DESCRIPTOR))
            data: bytes = head + value.SerializeToString()
            return data

        return to_bytes

    def _reading(self, kind: type[Message] | None) -> Callable[[bytes], Any]:
        # By the first bytes, the length of the head and the function that reads the rest.
        known: dict[bytes, tuple[int, Callable[[bytes], Any]]] = {}

        def from_bytes(data: bytes) -> Any:
            # The first class of a file, the most frequent one, takes one byte.
            result = known.get(data[: FRAME + 1])
            if result is None:
                place, length = _place_in(data)
                result = known.get(data[:length])
                if result is None:
                    result = known[data[:length]] = length, self._reader(id_in(self.name, data), place, kind)
            try:
                return result[1](data[result[0] :])
            except DecodeError as cause:
                raise SerdeError(
                    f"protobuf serde: schema {id_in(self.name, data)} does not read it ({cause})"
                ) from cause

        return from_bytes

    def _reader(self, schema_id: int, place: Sequence[int], kind: type[Message] | None) -> Callable[[bytes], Any]:
        written = _name_at(self._prepare(self._registry.schema_of(schema_id), writing=False), place)
        if kind is None or kind.DESCRIPTOR.full_name != written:
            expected = _expected(kind) if kind is None else kind.DESCRIPTOR.full_name
            raise SerdeError(f"protobuf serde: expected {expected}, got {written} (schema {schema_id})")
        result: Callable[[bytes], Any] = kind.FromString
        return result

    def _written(self) -> KnownSchema:
        if self._settings.use_latest:
            return super()._written()
        if self.object_type is None:
            raise SerdeError(f"protobuf serde: expected {_expected(None)}")
        return self._registry.id_of(self._subject(), self._schema(self.object_type.DESCRIPTOR.file))

    def _schema(self, file: FileDescriptor) -> Schema:
        """A file as the registry takes it."""
        text = base64.standard_b64encode(file.serialized_pb).decode("ascii")
        return Schema(text, self.kind, list(self._references(file)))

    def _own(self) -> None:
        """Return None: the class is the job's schema."""

    def _references(self, file: FileDescriptor) -> Iterator[SchemaReference]:
        for item in file.dependencies:
            if not item.name.startswith(_PROTOBUFS_OWN):
                yield self._registry.reference(item.name, self._schema(item))

    def _prepare(self, known: KnownSchema, *, writing: bool) -> descriptor_pb2.FileDescriptorProto:
        try:
            return descriptor_pb2.FileDescriptorProto.FromString(base64.standard_b64decode(known.text.encode("ascii")))
        except (DecodeError, ValueError) as cause:
            reason = " ".join(str(cause).split()) or type(cause).__name__
            raise SerdeError(f"protobuf serde: {known} is no file descriptor ({reason})") from cause

    def _record(self) -> str | None:
        return None if self.object_type is None else self.object_type.DESCRIPTOR.full_name


def _expected(kind: type[Message] | None) -> str:
    return "an object of a generated class, named by samza.msg.type" if kind is None else shown(kind)


def _place_of(found: Descriptor) -> tuple[int, ...]:
    place: list[int] = []
    while found is not None:
        around = found.containing_type
        inside = list(found.file.message_types_by_name.values()) if around is None else list(around.nested_types)
        place.insert(0, [item.full_name for item in inside].index(found.full_name))
        found = around
    return tuple(place)


def _name_at(file: descriptor_pb2.FileDescriptorProto, place: Sequence[int]) -> str:
    """The full name of the class at a place in a file."""
    inside, names = file.message_type, [file.package]
    for index in place:
        if not 0 <= index < len(inside):
            raise SerdeError(f"protobuf serde: expected a class of the schema's file, got number {list(place)}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(filter(None, names))


def _place_bytes(place: Sequence[int]) -> bytes:
    if tuple(place) == (0,):
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(place), *place))


def _varint(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


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
