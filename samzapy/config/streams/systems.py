"""`systems.*`: the messaging systems a job talks to."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.config.reading.keys import TEXT, Key, choice, collect, integer, is_name, optional
from samzapy.config.reading.reader import Reader
from samzapy.config.reading.secrets import Masked

OFFSET_DEFAULT_KIND = choice("oldest", "upcoming", "newest")

FACTORY = Key(
    "systems.{system}.samza.factory",
    SYSTEMS.kind,
    None,
    "The kind of system: kafka, local, memory, database, a SystemFactory class, or Samza's Java class name.",
    "required",
)
CONSUMER = Key("systems.{system}.consumer.*", TEXT, None, "Settings of the consumer (librdkafka's names).")
PRODUCER = Key("systems.{system}.producer.*", TEXT, None, "Settings of the producer (librdkafka's names).")
DEFAULT_KEY_SERDE = Key(
    "systems.{system}.default.stream.samza.key.serde",
    TEXT,
    None,
    "The serde of keys on this system's streams; none: bytes.",
    otherwise=("systems.{system}.samza.key.serde",),
)
DEFAULT_MSG_SERDE = Key(
    "systems.{system}.default.stream.samza.msg.serde",
    TEXT,
    None,
    "The serde of messages on this system's streams; none: bytes.",
    otherwise=("systems.{system}.samza.msg.serde",),
)
DEFAULT_OFFSET = Key(
    "systems.{system}.default.stream.samza.offset.default",
    OFFSET_DEFAULT_KIND,
    "upcoming",
    "The position where this system's inputs start without a checkpoint.",
    otherwise=("systems.{system}.samza.offset.default",),
)
DEFAULT_REPLICATION_FACTOR = Key(
    "systems.{system}.default.stream.replication.factor",
    optional(integer(1, 32_767)),
    None,
    "Copies of the streams of this system that the job creates, or `samzapy topic create --job`.",
    "the system's",
)
DEFAULT_STREAM = Key(
    "systems.{system}.default.stream.*",
    TEXT,
    None,
    "Defaults for this system's streams: `samza.*`, and topic settings for the streams that the job creates, or `samzapy "
    "topic create --job`. A changelog and a checkpoint topic have their own cleanup.policy, and a changelog its own "
    "retention.",
)
PATH = Key("systems.{system}.path", TEXT, None, "local: the SQLite file of the streams.", ".samzapy/local.db")
BUSY_TIMEOUT_MS = Key(
    "systems.{system}.busy.timeout.ms",
    TEXT,
    None,
    "local: milliseconds that a writer waits for another writer.",
    "30000",
)
SYNCHRONOUS = Key(
    "systems.{system}.synchronous",
    TEXT,
    None,
    "local: normal survives killed processes, full also survives a power cut.",
    "normal",
)
CLUSTER = Key(
    "systems.{system}.cluster", TEXT, None, "memory: the name of the cluster within this process.", "the system's name"
)
FETCH_THRESHOLD = Key(
    "systems.{system}.samza.fetch.threshold",
    TEXT,
    None,
    "Number of records that a container reads ahead from this system.",
    "the client's",
)
FETCH_BYTES = Key(
    "systems.{system}.samza.fetch.threshold.bytes",
    TEXT,
    None,
    "Bytes that a container reads ahead. Overrides the number of records.",
    "the client's",
)
KEYS = collect(globals())

_PREFIX = "systems."


def parse_systems(reader: Reader) -> dict[str, SystemSettings]:
    """Every system that has a key, each with a factory."""
    names = {key[len(_PREFIX) :].partition(".")[0] for key in reader.values if key.startswith(_PREFIX)}
    return {name: _system(reader, name) for name in sorted(names) if _usable(reader, name)}


def _usable(reader: Reader, name: str) -> bool:
    if is_name(name):
        return True
    reader.problem(f"systems.{name}", "expected a name of up to 100 of the characters A-Za-z0-9_-", name)
    return False


def _system(reader: Reader, name: str) -> SystemSettings:
    factory = reader.require(FACTORY, "kafka, local, memory or database", system=name)
    reader.get(DEFAULT_OFFSET, system=name)
    reader.get(DEFAULT_REPLICATION_FACTOR, system=name)
    everything = reader.below(f"{_PREFIX}{name}.")
    own = ("samza.factory",)
    parts = ("consumer.", "producer.", "default.stream.", "streams.")
    rest = {k: v for k, v in everything.items() if k not in own and not k.startswith(parts)}
    return SystemSettings(
        name=name,
        factory=factory,
        consumer=reader.below(f"{_PREFIX}{name}.consumer."),
        producer=reader.below(f"{_PREFIX}{name}.producer."),
        properties=Masked(rest, everything.secret),
        default_stream=reader.below(f"{_PREFIX}{name}.default.stream."),
    )


def new_stream(
    settings: SystemSettings,
    stream: str,
    partitions: int,
    own: Mapping[str, str] | None = None,
    replication_factor: int | None = None,
) -> StreamSpec:
    """A stream to create. Its topic settings are its `own` ones, else those of the job file for the stream, else those for
    all streams of the system. The same holds for the number of copies."""
    known = settings.streams.get(stream)
    given = {**settings.default_stream, **(known.properties if known else {})}
    copies = given.get("replication.factor")
    factor = replication_factor or (int(copies) if copies else None)
    return StreamSpec(stream, partitions, {**topic_settings(given), **(own or {})}, factor)


def topic_settings(keys: Mapping[str, str]) -> dict[str, str]:
    """The settings that a topic takes, of all keys for a stream."""
    return {key: value for key, value in keys.items() if not key.startswith("samza.") and key != "replication.factor"}
