"""`systems.*`: the messaging systems a job talks to."""

from __future__ import annotations

from samzapy.api.system import SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.config.reading.keys import TEXT, Key, choice, collect, is_name
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
DEFAULT_STREAM = Key(
    "systems.{system}.default.stream.*", TEXT, None, "Defaults for this system's streams, including topic settings."
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
