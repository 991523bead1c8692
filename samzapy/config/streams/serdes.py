"""`serializers.registry.*`, and the stable names of serdes in records that outlive the job file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from samzapy.api.serde import Serde
from samzapy.config.reading.classes import SCHEMA_SERDES, SERDES
from samzapy.config.reading.keys import BOOLEAN, TEXT, Reader, choice, did_you_mean, family, key, keys_of, required
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
    """Whether json-schema checks each message against the schema, and avro refuses unknown fields, and schemas with a
    union in which a value may be of two branches."""


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


@dataclass(frozen=True)
class SerdeKeys:
    """The keys of a serde."""

    path: str | None = key("serializers.registry.{serde}.class", SERDES.kind, None, shown="the built-ins need none")
    """The serde with this name: a Serde or SerdeFactory class, the name of a built-in serde, or Samza's Java class
    name."""
    settings: Mapping[str, str] = family("serializers.registry.{serde}.*")
    """Settings for the serde's factory, which gets them without the prefix. For avro, json-schema and protobuf also the
    connection of Confluent's registry client: basic.auth.user.info, bearer.auth.token, logical.cluster,
    ssl.ca.location, ssl.certificate.location, ssl.key.location, ssl.key.password."""


def parse_serdes(reader: Reader) -> dict[str, str]:
    """Class paths by serde name, the built-in ones included; nothing is imported."""
    serdes = dict(SERDES.short)
    for place in reader.values:
        name = place.removeprefix(_BELOW).removesuffix(".class")
        if name and place == f"{_BELOW}{name}.class":
            serdes[name] = reader.value(SerdeKeys, "path", serde=name) or serdes.get(name, "")
    for name, path in serdes.items():
        # A built-in one without settings is most likely not in use; if it is, its factory asks for them.
        if path in SCHEMA_SERDES and reader.below(f"{_BELOW}{name}."):
            parse_schemas(reader, name, path)
    return serdes


def check_serde(reader: Reader, serdes: dict[str, str], key: str, name: str | None) -> None:
    """Note a problem if `key` names a serde that is not registered."""
    if name and name not in serdes:
        reader.problem(key, unknown_serde(name, serdes))


#: The serdes that decode to a class, by their identities.
_DOCUMENTS = ("json", "msgpack", *SCHEMA_SERDES.values())


def takes_types(serde: str, classes: Mapping[str, str]) -> bool:
    """Whether the serde of that name decodes to a class, if it is given one."""
    return serde_identity(serde, classes) in _DOCUMENTS


def check_type(
    reader: Reader, serdes: dict[str, str], key: str, path: str | None, serde_key: str, name: str | None
) -> None:
    """Note a problem if `key` names a class, and the serde of `serde_key` does not decode to classes."""
    if path is None or takes_types(name or "", serdes):
        return
    given = "it has none" if name is None else f"it is {name}"
    reader.problem(key, f"needs {serde_key}={', '.join(_DOCUMENTS[:-1])} or {_DOCUMENTS[-1]}, {given}", path)


def typed_name(serde: str, path: str | None) -> str:
    """The name of `serde` for objects of the class `path` among a job's serdes; `serde` itself for None."""
    return serde if path is None else f"{serde}<{path}>"


def split_typed_name(name: str) -> tuple[str, str]:
    """The serde and the class path of a `typed_name`; the path is empty for any other name."""
    serde, _, path = name.partition("<")
    return (serde, path[:-1]) if path.endswith(">") else (name, "")


def unknown_serde(name: str, known: dict[str, str]) -> str:
    """The sentence about a serde that is not registered."""
    return f"serde {name!r} unknown; known: {', '.join(known)}{did_you_mean(name, known)}"


_OWN = "samzapy."
#: Short names by class name; the first one where a class has several.
_SHORT = {path.rpartition(":")[2]: short for short, path in reversed(list(SERDES.short.items()))}


def serde_identity(serde: Serde | str, classes: Mapping[str, str]) -> str:
    """The stable name of a serde: equal for every name and spelling of the same class.

    1. A built-in serde has its short name (`long`), another class of samzapy its class name, any other class its path
       as the job file has it.
    2. `serde` is an object, or a name in `classes`, the class paths by serde name.
    3. The settings of a serde are not part of it. They may be secret, or name a place that moves.
    """
    path = (
        classes.get(serde, serde) if isinstance(serde, str) else f"{type(serde).__module__}:{type(serde).__qualname__}"
    )
    if ":" not in path:
        path = ":".join(path.rsplit(".", 1))
    if not path.startswith(_OWN):
        return path
    name = path.rpartition(":")[2]
    return _SHORT.get(name) or _SHORT.get(f"{name}Factory") or name


def key_identity(serde: Serde | str, classes: Mapping[str, str], flat: Mapping[str, str]) -> str:
    """Like `serde_identity`, for the serde of a store's keys.

    Equal keys must have equal bytes, so JSON with sorted keys counts as another serde. `flat` are the job's keys in
    clear.
    """
    identity = serde_identity(serde, classes)
    sort_keys = f"{_BELOW}{serde}.sort.keys"
    if identity == "json" and isinstance(serde, str) and flat.get(sort_keys, "").lower() == "true":
        return "json (sort.keys)"
    return identity
