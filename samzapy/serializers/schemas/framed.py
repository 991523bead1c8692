"""The common part of the serdes with a schema registry.

1. `Registry` asks the registry, by Confluent's client, which keeps the answers in memory.
2. `SchemaSerde` has the frame, the subject, the schema to write with, and the place.
"""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, NamedTuple

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

from samzapy.api.serde import FunctionSerde
from samzapy.config.reading.properties import without_password
from samzapy.config.streams.serdes import SchemaSettings
from samzapy.errors import EnvironmentFailure, HandshakeFailed, SerdeError, Unreachable
from samzapy.serializers.documents import DocumentSerde


class KnownSchema(NamedTuple):
    """A registered schema: its id (-1: the job's schema), its text, and the (name, text) of every schema that it refers
    to, directly or not, each after its own references."""

    id: int
    text: str
    references: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "the job's schema" if self.id < 0 else f"schema {self.id}"


#: The clients of `mock://` addresses keep their schemas themselves, so the serdes of a process share them.
_MOCKS: dict[str, SchemaRegistryClient] = {}
#: Seconds that the registry may take to answer; the repetitions of a request without an answer, with their pauses.
ANSWER_S = 10.0
RETRIES, _RETRIES_WAIT_MS, _RETRIES_MOST_MS = 3, 200, 2_000
_UNAVAILABLE = frozenset({408, 429, 500, 502, 503, 504})
#: OpenSSL's reasons: a certificate that has signed itself, or one of an authority that is not known.
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})


class Registry:
    """The registry of one serde. Connects with the first question; `kind` is AVRO, JSON or PROTOBUF.

    Raises SerdeError for a schema that is not there or not compatible, Unreachable if there is no answer,
    EnvironmentFailure if the job has no right to ask. A certificate that is not trusted is a HandshakeFailed at first;
    once there was an answer it is a registry that does not answer, since its operators may have to mend it.
    """

    def __init__(self, settings: SchemaSettings, kind: str) -> None:
        self._settings, self._kind = settings, kind
        # The form in which the registry gives the text of a schema; None for its own.
        self._form = "serialized" if kind == "PROTOBUF" else None
        self._client: SchemaRegistryClient | None = None
        self._answered = False
        self._where = f"schema registry {without_password(settings.url)}"

    def schema_of(self, schema_id: int) -> KnownSchema:
        """The schema with that id."""
        result = self._ask(f"id {schema_id}", lambda client: client.get_schema(schema_id, fmt=self._form))
        if (result.schema_type or "AVRO") != self._kind:
            matches = f"schema {schema_id} is of type {result.schema_type}"
            raise SerdeError(f"{self._where}: {matches}, expected {self._kind}")
        return self._with_references(schema_id, result)

    def latest(self, subject: str) -> KnownSchema:
        """The latest schema that a subject had at the first call."""
        what = f"subject {subject}"
        result = self._ask(what, lambda client: client.get_latest_version(subject, fmt=self._form))
        return self._with_references(result.schema_id, result.schema)

    def id_of(self, subject: str, schema: Schema) -> KnownSchema:
        """The schema with the id it has in `subject`; it is registered there if the settings say so."""
        if self._settings.auto_register:
            schema_id = self._ask(f"subject {subject}", lambda client: client.register_schema(subject, schema))
            return self._with_references(schema_id, schema)
        try:
            known = self._registered(subject, schema)
        except SerdeError as cause:
            advice = "register it, or set auto.register=true or use.latest.version=true"
            raise SerdeError(f"{cause}: the subject has no schema like the job's; {advice}") from cause
        return self._with_references(known.schema_id, schema)

    def reference(self, name: str, schema: Schema) -> SchemaReference:
        """A schema that another one refers to by `name`, which is its subject, too."""
        self.id_of(name, schema)
        return SchemaReference(name, name, int(self._registered(name, schema).version))

    def _registered(self, subject: str, schema: Schema) -> Any:
        return self._ask(f"subject {subject}", lambda client: client.lookup_schema(subject, schema))

    def _with_references(self, schema_id: int, schema: Schema) -> KnownSchema:
        result: dict[str, str] = {}
        self._gather(schema, result)
        return KnownSchema(schema_id, schema.schema_str or "", tuple(result.items()))

    def _gather(self, schema: Schema, found: dict[str, str]) -> None:
        for item in schema.references or ():
            if item.name not in found:
                inner = self._version(item.subject, item.version)
                self._gather(inner, found)
                found[item.name] = inner.schema_str

    def _version(self, subject: str, version: int) -> Schema:
        what = f"subject {subject} version {version}"
        return self._ask(what, lambda client: client.get_version(subject, version, True, self._form)).schema

    def _ask(self, what: str, question: Callable[[SchemaRegistryClient], Any]) -> Any:
        """The client's answer, its errors as ours."""
        try:
            return self._answer(what, question)
        except Unreachable as silence:
            silence.ask, silence.service = partial(self._ask_again, what, question), self._where
            raise

    def _ask_again(self, what: str, question: Callable[[SchemaRegistryClient], Any]) -> None:
        # A refusal is an answer, too: it is about the message, which the next start reads again.
        with suppress(SerdeError):
            self._answer(what, question)

    def _answer(self, what: str, question: Callable[[SchemaRegistryClient], Any]) -> Any:
        client = self._connected()
        try:
            answer = question(client)
        except SchemaRegistryError as cause:
            self._answered = True
            text = " ".join(str(cause.error_message).split())
            if cause.http_status_code in _UNAVAILABLE:
                raise Unreachable(f"{self._where}: does not answer ({cause.http_status_code} {text})") from cause
            if cause.http_status_code in {401, 403}:
                raise EnvironmentFailure(f"{self._where}: refuses the job ({cause.http_status_code} {text})") from cause
            if cause.http_status_code == 409:
                raise SerdeError(f"{self._where}: {what}: the schema is not compatible ({text})") from cause
            raise SerdeError(f"{self._where}: {what}: {text} ({cause.http_status_code})") from cause
        except OAuthTokenError as cause:
            raise EnvironmentFailure(f"{self._where}: gives no token ({cause})") from cause
        except Exception as cause:
            # The client's HTTP library raises errors of its own, depending on the installed version.
            raise self._silence(cause) from cause
        self._answered = True
        return answer

    def _silence(self, cause: Exception) -> EnvironmentFailure:
        """The error for a question without an answer."""
        refused = _refused_certificate(cause)
        if refused is None:
            reason = " ".join(str(cause).split()) or type(cause).__name__
            return Unreachable(f"{self._where}: does not answer ({reason})")
        advice = ""
        if refused.verify_code in _UNKNOWN_AUTHORITY:
            key = f"serializers.registry.{self._settings.name}.ssl.ca.location"
            given = self._settings.client.get("ssl.ca.location", "none")
            advice = f": set {key} to a file with the certificate of the authority that has signed it, got {given}"
        text = f"{self._where}: its certificate is not trusted ({refused.verify_message}){advice}"
        return Unreachable(text) if self._answered else HandshakeFailed(text)

    def _connected(self) -> SchemaRegistryClient:
        if self._client is None:
            url = self._settings.url
            try:
                if url.startswith("mock://"):
                    self._client = _MOCKS.setdefault(url, SchemaRegistryClient.new_client({"url": url}))
                else:
                    self._client = SchemaRegistryClient(dict(_client_settings(self._settings)))
            except (OSError, ValueError, TypeError) as cause:
                client = self._settings.client
                files = [client.get(f"ssl.{name}.location") for name in ("ca", "certificate", "key")]
                given = ", ".join(filter(None, files)) or "no TLS files"
                raise EnvironmentFailure(f"{self._where}: cannot be used ({cause}), got {given}") from cause
        return self._client


def _refused_certificate(cause: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """The refusal of the registry's certificate that an error comes from, if it does."""
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _client_settings(settings: SchemaSettings) -> Iterator[tuple[str, Any]]:
    """The settings of Confluent's client."""
    yield "url", settings.url
    yield "timeout", ANSWER_S
    yield "max.retries", RETRIES
    yield "retries.wait.ms", _RETRIES_WAIT_MS
    yield "retries.max.wait.ms", _RETRIES_MOST_MS
    cluster = settings.client.get("logical.cluster", "")
    yield from ((name, value) for name, value in settings.client.items() if name != "logical.cluster")
    if "bearer.auth.token" in settings.client:
        yield "bearer.auth.credentials.source", "STATIC_TOKEN"
        yield "bearer.auth.logical.cluster", cluster


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


class SchemaSerde(FunctionSerde, DocumentSerde):
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
        super().__init__(*self._functions())

    @abstractmethod
    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        """`to_bytes` and `from_bytes`, which ask the registry when they first need it. They raise SerdeError for a
        value that does not fit the schema and for bytes that their schema did not write, and as `Registry`."""

    @abstractmethod
    def _prepare(self, known: KnownSchema, *, writing: bool) -> object:
        """The prepared form of the schema. Raises SerdeError for an invalid schema."""

    @abstractmethod
    def _record(self) -> str | None:
        """The full name of the record that is written, None if the job's settings do not say."""

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
