"""The common part of the serdes with a registry: the frame, the subject, the schema to write with, and the place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from confluent_kafka.schema_registry import Schema

from samzapy.config.streams.serdes import SchemaSettings
from samzapy.errors import SerdeError
from samzapy.serializers.documents import DocumentSerde
from samzapy.serializers.schemas.registry import KnownSchema, Registry

#: The magic byte and the id.
FRAME = 5


class Place(NamedTuple):
    """A part (`key` or `value`) of a topic's messages."""

    topic: str
    part: str


def frame(schema_id: int) -> bytes:
    """The first bytes of a message that the schema with that id wrote."""
    return b"\0" + schema_id.to_bytes(4, "big")


def id_in(name: str, data: bytes) -> int:
    """The id in the first bytes of a message. Raises SerdeError for bytes without a frame."""
    if len(data) < FRAME:
        raise SerdeError(f"{name} serde: expected a magic byte 0 and a schema id, got {len(data)} bytes")
    if data[0] != 0:
        raise SerdeError(
            f"{name} serde: expected the magic byte 0, got {data[0]}: the message was not written "
            "by a serde with a registry"
        )
    return int.from_bytes(data[1:FRAME], "big")


class SchemaSerde(DocumentSerde):
    """A serde of values with a registered schema, at no place until `at` names one: such a one reads only.

    `name` is its short name, `kind` the registry's name of its schemas. The first message with an id, and the first one
    written, ask the registry; the others take a dictionary's answer. Confluent's own serializers take two to five times
    as long for a message, so only their client and their format are used.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    allocates_exactly = True

    def __init__(
        self,
        settings: SchemaSettings,
        place: Place | None = None,
        object_type: Any = None,
        registry: Registry | None = None,
    ) -> None:
        """`object_type` None: plain values. Raises SerdeError for a class that cannot be read."""
        self.object_type = object_type
        self._settings, self._place = settings, place
        self._registry = registry or Registry(settings, self.kind)
        self._made: tuple[Callable[[Any], bytes], Callable[[bytes], Any]] = self._functions()
        # An attribute with the function itself: a method would be another Python frame for each message.
        self.to_bytes, self.from_bytes = self._made  # type: ignore[assignment, method-assign]

    @abstractmethod
    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        """`to_bytes` and `from_bytes`; they ask the registry when they first need it."""

    @abstractmethod
    def _prepare(self, known: KnownSchema, *, writing: bool) -> object:
        """The prepared form of the schema. Raises SerdeError for an invalid schema."""

    @abstractmethod
    def _record(self) -> str | None:
        """The full name of the record that is written, None if the job's settings do not say."""

    def to_bytes(self, value: Any) -> bytes:
        """Raises SerdeError for a value that does not fit the schema, and as `Registry`."""
        return self._made[0](value)

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerdeError for bytes that their schema did not write, and as `Registry`."""
        return self._made[1](data)

    def at(self, stream: str, part: str) -> SchemaSerde:
        return type(self)(self._settings, Place(stream, part), self.object_type, self._registry)

    def of_type(self, kind: Any) -> SchemaSerde:
        return type(self)(self._settings, self._place, kind, self._registry)

    def ready(self, *, writing: bool) -> None:
        """For an input the registry is asked for the subject, which need not be there."""
        if writing:
            self._prepare(self._written(), writing=True)
            return
        if (own := self._own()) is not None:
            self._prepare(own, writing=False)
        if self._place is not None and self._settings.strategy == "topic":
            try:
                self._registry.latest(self._subject())
            except SerdeError:
                return  # nothing was written yet

    def _own(self) -> KnownSchema | None:
        """The job's schema; None if it has none."""
        text = self._settings.schema
        return None if text is None else KnownSchema(-1, text)

    def _written(self) -> KnownSchema:
        """The schema to write with. Raises SerdeError without a place or a schema."""
        if self._settings.use_latest:
            return self._registry.latest(self._subject())
        if self._settings.schema is None:
            key = f"serializers.registry.{self._settings.name}"
            raise SerdeError(f"has no schema to write with: set {key}.schema.file, or {key}.use.latest.version=true")
        return self._registry.id_of(self._subject(), Schema(self._settings.schema, self.kind, []))

    def _subject(self) -> str:
        """The subject of the messages written here."""
        strategy = self._settings.strategy
        if self._place is None and strategy != "record":
            raise SerdeError("writes to a stream only: its topic is part of the subject of the schema")
        if strategy == "topic":
            assert self._place is not None
            return f"{self._place.topic}-{self._place.part}"
        record = self._record()
        if record is None:
            raise SerdeError(f"subject.strategy={strategy} needs the name of a record: set the schema")
        return record if strategy == "record" or self._place is None else f"{self._place.topic}-{record}"

    def refusal(self, value: Any, cause: Exception) -> str:
        return f"{self.name} serde: {' '.join(str(cause).split()) or type(cause).__name__}"

    def __reduce__(self) -> tuple[Any, ...]:
        # The registry's connection stays here.
        return type(self), (self._settings, self._place, self.object_type)
