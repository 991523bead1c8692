"""The settings of the serdes that take their schemas from a registry: avro, json-schema and protobuf.

They are below `serializers.registry.NAME.`, as for every serde. The connection's keys have the names of Confluent's
client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from samzapy.config.reading.classes import SCHEMA_SERDES
from samzapy.config.reading.keys import BOOLEAN, TEXT, choice, key, keys_of, required
from samzapy.config.reading.reader import Reader, did_you_mean
from samzapy.errors import ConfigProblem

_BELOW = "serializers.registry."
_SERDE = _BELOW + "{serde}."
_USER, _TOKEN, _CERTIFICATE = "basic.auth.user.info", "bearer.auth.token", "ssl.certificate.location"
#: The keys of Confluent's client for the connection to the registry.
CLIENT_KEYS = (
    _USER,
    _TOKEN,
    "logical.cluster",
    "ssl.ca.location",
    _CERTIFICATE,
    "ssl.key.location",
    "ssl.key.password",
)


@dataclass(frozen=True, kw_only=True)
class SchemaSettings:
    """The settings of the serde `name`. `client`: of Confluent's registry client, with its names; may be secret.
    `schema` None: the registry's."""

    name: str
    url: str = required(_SERDE + "url", TEXT, "https://registry:8081", shown="required by these serdes")
    """The schema registry of avro, json-schema or protobuf; several addresses of one registry as a comma list."""
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: str | None = key(_SERDE + "schema", TEXT, None)
    """The schema for reading and writing (avro, json-schema). Without it the serde reads with the writer's schema."""
    schema_file: str | None = key(_SERDE + "schema.file", TEXT, None)
    """A file with that schema. Its text travels to the executors."""
    strategy: str = key(_SERDE + "subject.strategy", choice("topic", "record", "topic-record"), "topic")
    """The subject of a schema: TOPIC-key or TOPIC-value, the record's full name, or TOPIC-RECORD."""
    auto_register: bool = key(_SERDE + "auto.register", BOOLEAN, False)
    """Whether to register the schema if its subject lacks it."""
    use_latest: bool = key(_SERDE + "use.latest.version", BOOLEAN, False)
    """Whether to write with the latest schema of the subject."""
    validate: bool = key(_SERDE + "validate", BOOLEAN, True)
    """Whether json-schema checks each message against the schema, and avro and protobuf (for dicts) refuse messages
    that do not match it."""


_LEAVES = {declared.name.removeprefix(_SERDE) for declared in keys_of(SchemaSettings)} | {*CLIENT_KEYS, "class"}


def parse_schemas(reader: Reader, name: str, path: str) -> SchemaSettings:
    """The settings of the serde `name`, of the class `path`; notes all their problems."""
    below = reader.below(f"{_BELOW}{name}.")
    for leaf in below:
        if leaf not in _LEAVES:
            reader.problem(f"{_BELOW}{name}.{leaf}", f"unknown key{did_you_mean(leaf, _LEAVES)}")
    client = {leaf: below[leaf] for leaf in CLIENT_KEYS if below.get(leaf)}
    settings = reader.read(SchemaSettings, {"serde": name}, name=name, client=client)
    for url in filter(None, (item.strip() for item in settings.url.split(","))):
        if not url.startswith(("http://", "https://", "mock://")):
            reader.problem(f"{_BELOW}{name}.url", "expected an address like https://registry:8081", url)
    for leaf, message in _contradictions(settings, path):
        reader.problem(f"{_BELOW}{name}.{leaf}", message)
    return settings


def _contradictions(settings: SchemaSettings, path: str) -> Iterator[tuple[str, str]]:
    client = settings.client
    if settings.auto_register and settings.use_latest:
        yield (
            "use.latest.version",
            "not together with auto.register=true: either the job's schema counts or the registry's",
        )
    if _TOKEN in client and _USER in client:
        yield _TOKEN, f"not together with {_USER}: the registry accepts one of them"
    if _USER in client and ":" not in client[_USER]:
        yield _USER, "expected USER:PASSWORD"
    if {"ssl.key.location", "ssl.key.password"} & client.keys() and _CERTIFICATE not in client:
        yield _CERTIFICATE, "required by ssl.key.location and ssl.key.password"
    if SCHEMA_SERDES.get(path) == "protobuf" and settings.schema:
        yield "schema", "protobuf takes the schema of the generated class, name it by samza.msg.type"


class SchemaTexts(NamedTuple):
    """Resolved values and values as written, with the texts of schema files in place of their names; the problems."""

    values: dict[str, str]
    raw: dict[str, str]
    problems: list[ConfigProblem]


def with_schema_files(values: Mapping[str, str], raw: Mapping[str, str]) -> SchemaTexts:
    """Read the schema files of a job, so that it carries their texts to hosts without the files.

    A file that cannot be read is a problem, and so is a schema beside a file.
    """
    result = SchemaTexts(dict(values), dict(raw), [])
    end = ".schema.file"
    for name, path in values.items():
        if not name.startswith(_BELOW) or not name.endswith(end):
            continue
        text = name.removesuffix(".file")
        if text in values:
            result.problems.append(ConfigProblem(name, path, "not together with schema: leave out one of them"))
            continue
        try:
            result.values[text] = Path(path).expanduser().read_text("utf-8-sig")
        except (OSError, ValueError, RuntimeError) as cause:
            # Also a NUL in the name, and the home of an unknown user.
            reason = (
                "it is not UTF-8"
                if isinstance(cause, UnicodeDecodeError)
                else getattr(cause, "strerror", None) or cause
            )
            result.problems.append(ConfigProblem(name, path, f"cannot be read ({reason})"))
            continue
        result.raw[text] = result.values[text].replace("${", "$${")
        del result.values[name]
        result.raw.pop(name, None)
    return result
