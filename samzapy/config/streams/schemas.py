"""The settings of the serdes that take their schemas from a registry: avro, json-schema and protobuf.

They are below `serializers.registry.NAME.`, as for every serde. The connection's keys have the names of Confluent's
client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from samzapy.config.reading.classes import SCHEMA_SERDES
from samzapy.config.reading.keys import BOOLEAN, LIST, TEXT, Key, choice, collect, integer
from samzapy.config.reading.reader import Reader, did_you_mean
from samzapy.errors import ConfigProblem

_BELOW = "serializers.registry."


def _name(leaf: str) -> str:
    return f"{_BELOW}{{serde}}.{leaf}"


URL = Key(
    _name("url"),
    TEXT,
    None,
    "The schema registry of avro, json-schema or protobuf; several addresses of one registry as a comma list.",
    "required by these serdes",
)
USER_INFO = Key(_name("basic.auth.user.info"), TEXT, None, "USER:PASSWORD for the registry.")
TOKEN = Key(_name("bearer.auth.token"), TEXT, None, "The token for the registry, instead of a user.")
CLUSTER = Key(_name("logical.cluster"), TEXT, "", "The registry's cluster for this token.")
CA = Key(_name("ssl.ca.location"), TEXT, None, "The file with the authorities for the registry's certificate.")
CERTIFICATE = Key(_name("ssl.certificate.location"), TEXT, None, "The file of the job's certificate for the registry.")
PRIVATE_KEY = Key(_name("ssl.key.location"), TEXT, None, "The file of the certificate's key.")
KEY_PASSWORD = Key(_name("ssl.key.password"), TEXT, None, "The password of that key.")
TIMEOUT_MS = Key(_name("timeout.ms"), integer(1), 10_000, "The time limit for an answer of the registry.")
RETRIES = Key(
    _name("retries"), integer(0, 100), 3, "The number of repetitions of a request when the registry does not answer."
)
SCHEMA = Key(
    _name("schema"),
    TEXT,
    None,
    "The schema for reading and writing (avro, json-schema). Without it the serde reads with the writer's schema.",
)
SCHEMA_FILE = Key(_name("schema.file"), TEXT, None, "A file with that schema. Its text travels to the executors.")
REFERENCES = Key(_name("references"), LIST, (), "The schemas that the schema refers to: NAME=SUBJECT:VERSION, ...")
STRATEGY = Key(
    _name("subject.strategy"),
    choice("topic", "record", "topic-record"),
    "topic",
    "The subject of a schema: TOPIC-key or TOPIC-value, the record's full name, or TOPIC-RECORD.",
)
AUTO_REGISTER = Key(_name("auto.register"), BOOLEAN, False, "Whether to register the schema if its subject lacks it.")
USE_LATEST = Key(_name("use.latest.version"), BOOLEAN, False, "Whether to write with the latest schema of the subject.")
VALIDATE = Key(
    _name("validate"),
    BOOLEAN,
    True,
    "Whether json-schema checks each message against the schema, and avro and protobuf (for dicts) refuse messages "
    "that do not match it.",
)
KEYS = collect(globals())

_LEAVES = {key.name.rpartition("{serde}.")[2] for key in KEYS}


class Reference(NamedTuple):
    """A schema that another one refers to by `name`: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class SchemaSettings:
    """The settings of one serde. `name` is its name, `format` AVRO, JSON or PROTOBUF; `schema` None: the registry's. `repr` hides
    the secrets.
    """

    name: str
    url: str
    user_info: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    cluster: str = ""
    ca: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    timeout_ms: int = 10_000
    retries: int = 3
    schema: str | None = None
    references: tuple[Reference, ...] = ()
    strategy: str = "topic"
    auto_register: bool = False
    use_latest: bool = False
    validate: bool = True


def parse_schemas(reader: Reader, name: str, path: str) -> SchemaSettings:
    """The settings of the serde `name`, of the class `path`; notes all their problems."""
    known = {*_LEAVES, "class"}
    for leaf in reader.below(f"{_BELOW}{name}."):
        if leaf not in known:
            reader.problem(f"{_BELOW}{name}.{leaf}", f"unknown key{did_you_mean(leaf, known)}")
    settings = SchemaSettings(
        name,
        reader.require(URL, "https://registry:8081", serde=name),
        reader.get(USER_INFO, serde=name),
        reader.get(TOKEN, serde=name),
        reader.get(CLUSTER, serde=name) or "",
        reader.get(CA, serde=name),
        reader.get(CERTIFICATE, serde=name),
        reader.get(PRIVATE_KEY, serde=name),
        reader.get(KEY_PASSWORD, serde=name),
        reader.get(TIMEOUT_MS, serde=name),
        reader.get(RETRIES, serde=name),
        reader.get(SCHEMA, serde=name),
        _references(reader, name),
        reader.get(STRATEGY, serde=name),
        reader.get(AUTO_REGISTER, serde=name),
        reader.get(USE_LATEST, serde=name),
        reader.get(VALIDATE, serde=name),
    )
    _check(reader, settings, path)
    return settings


def _references(reader: Reader, name: str) -> tuple[Reference, ...]:
    found = []
    for text in reader.get(REFERENCES, serde=name):
        called, _, rest = text.partition("=")
        subject, _, version = rest.rpartition(":")
        if called and subject and version.isdecimal() and len(version) < 10:
            found.append(Reference(called, subject, int(version)))
        else:
            reader.problem(REFERENCES.at(serde=name), "expected NAME=SUBJECT:VERSION", text)
    return tuple(found)


def _check(reader: Reader, found: SchemaSettings, path: str) -> None:
    """The settings that contradict one another."""
    name = found.name

    def problem(key: Key[str | None] | Key[bool] | Key[str] | Key[tuple[str, ...]], message: str) -> None:
        reader.problem(key.at(serde=name), message)

    for url in filter(None, (each.strip() for each in found.url.split(","))):
        if not url.startswith(("http://", "https://", "mock://")):
            reader.problem(URL.at(serde=name), "expected an address like https://registry:8081", url)
    if found.auto_register and found.use_latest:
        problem(USE_LATEST, "not together with auto.register=true: either the job's schema counts or the registry's")
    if found.token and found.user_info:
        problem(TOKEN, "not together with basic.auth.user.info: the registry takes one of them")
    if found.user_info and ":" not in found.user_info:
        problem(USER_INFO, "expected USER:PASSWORD")
    if (found.private_key or found.key_password) and not found.certificate:
        problem(CERTIFICATE, "required by ssl.key.location and ssl.key.password")
    if found.references and not found.schema:
        problem(REFERENCES, "without effect: there is no schema that refers to them")
    if SCHEMA_SERDES.get(path) == "protobuf" and found.schema:
        problem(SCHEMA, "protobuf takes the schema of the generated class, name it by samza.msg.type")


class SchemaTexts(NamedTuple):
    """Resolved values and values as written, with the texts of schema files in place of their names; the problems."""

    values: dict[str, str]
    raw: dict[str, str]
    problems: list[ConfigProblem]


def with_schema_files(values: Mapping[str, str], raw: Mapping[str, str]) -> SchemaTexts:
    """Read the schema files of a job, so that it carries their texts to hosts without the files.

    A file that cannot be read is a problem, and so is a schema beside a file.
    """
    found = SchemaTexts(dict(values), dict(raw), [])
    end = ".schema.file"
    for key, path in values.items():
        if not key.startswith(_BELOW) or not key.endswith(end):
            continue
        text = key.removesuffix(".file")
        if text in values:
            found.problems.append(ConfigProblem(key, path, "not together with schema: leave out one of them"))
            continue
        try:
            found.values[text] = Path(path).expanduser().read_text("utf-8-sig")
        except (OSError, ValueError, RuntimeError) as cause:
            # Also a NUL in the name, and the home of an unknown user.
            reason = (
                "it is not UTF-8"
                if isinstance(cause, UnicodeDecodeError)
                else getattr(cause, "strerror", None) or cause
            )
            found.problems.append(ConfigProblem(key, path, f"cannot be read ({reason})"))
            continue
        found.raw[text] = found.values[text].replace("${", "$${")
        del found.values[key]
        found.raw.pop(key, None)
    return found
