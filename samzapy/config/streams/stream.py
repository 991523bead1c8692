"""`streams.*`, and the older `systems.S.streams.*`: how each stream is read and written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamSettings
from samzapy.config.reading.classes import MESSAGE_TYPE
from samzapy.config.reading.keys import BOOLEAN, TEXT, Key, collect, integer, is_name, optional
from samzapy.config.reading.reader import Reader, did_you_mean
from samzapy.config.reading.secrets import Masked
from samzapy.config.streams.serdes import check_serde, check_type
from samzapy.config.streams.systems import OFFSET_DEFAULT_KIND

#: The default priority of bootstrap streams: Samza's Int.MaxValue.
BOOTSTRAP_PRIORITY = 2**31 - 1


@dataclass(frozen=True)
class StreamConfig:
    """The settings of one stream.

    A serde of None passes bytes through; a type is the path of the class to decode to, None for plain values.
    `offset_default` is oldest, upcoming or newest: the start without a checkpoint, or with `reset_offset`.
    `properties` are topic keys for its creation. An `intermediate` stream may have control messages between its
    messages. `stream_id` is the ID of its keys `streams.ID.*`, None for a stream without.
    """

    system_stream: SystemStream
    key_serde: str | None = None
    msg_serde: str | None = None
    offset_default: str = "upcoming"
    reset_offset: bool = False
    priority: int = -1
    bootstrap: bool = False
    bounded: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    intermediate: bool = False
    key_type: str | None = None
    msg_type: str | None = None
    stream_id: str | None = field(default=None, compare=False)

    @property
    def from_oldest(self) -> str:
        """The options with which one run of the job begins at the oldest record. They override every key of the
        file."""
        names = {"system": self.system_stream.system, "physical": self.system_stream.stream}
        names |= {} if self.stream_id is None else {"stream": self.stream_id}
        reset, default = (key.places(**names)[0] for key in (RESET_OFFSET, OFFSET_DEFAULT))
        return f"--config {reset}=true --config {default}=oldest"


def _places(leaf: str, *, system_wide: bool = True) -> tuple[str, ...]:
    older = f"systems.{{system}}.streams.{{physical}}.samza.{leaf}"
    wider = (f"systems.{{system}}.default.stream.samza.{leaf}", f"systems.{{system}}.samza.{leaf}")
    return (older, *wider) if system_wide else (older,)


SYSTEM = Key("streams.{stream}.samza.system", TEXT, None, "The stream's system.", "job.default.system")
PHYSICAL_NAME = Key(
    "streams.{stream}.samza.physical.name", TEXT, None, "The stream's name on its system.", "the stream's id"
)
KEY_SERDE = Key(
    "streams.{stream}.samza.key.serde",
    TEXT,
    None,
    "The serde of keys.",
    "the system's, else bytes pass through",
    _places("key.serde"),
)
MSG_SERDE = Key(
    "streams.{stream}.samza.msg.serde",
    TEXT,
    None,
    "The serde of messages.",
    "the system's, else bytes pass through",
    _places("msg.serde"),
)
KEY_TYPE = Key(
    "streams.{stream}.samza.key.type",
    MESSAGE_TYPE,
    None,
    "The class of keys, with the serde json or msgpack, or a registered schema.",
    "for an input the class in the task's code, else plain values",
    _places("key.type", system_wide=False),
)
MSG_TYPE = Key(
    "streams.{stream}.samza.msg.type",
    MESSAGE_TYPE,
    None,
    "The class of messages, with the serde json or msgpack, or a registered schema: a msgspec Struct, dataclass, "
    "attrs class, TypedDict, NamedTuple or pydantic model, or an alias of a generic.",
    "for an input the class in the task's code, else plain values",
    _places("msg.type", system_wide=False),
)
OFFSET_DEFAULT = Key(
    "streams.{stream}.samza.offset.default",
    OFFSET_DEFAULT_KIND,
    "upcoming",
    "The position where an input starts without a checkpoint: oldest, upcoming (only new records) or newest "
    "(the last offset: of a record, or of the mark at the end of a transaction).",
    otherwise=_places("offset.default"),
)
RESET_OFFSET = Key(
    "streams.{stream}.samza.reset.offset",
    BOOLEAN,
    False,
    "Whether each start ignores the checkpoint and begins at offset.default.",
    otherwise=_places("reset.offset", system_wide=False),
)
PRIORITY = Key(
    "streams.{stream}.samza.priority",
    integer(-1, 2**31 - 1),
    -1,
    "Tasks process inputs of a higher priority first. -1: 0, or the highest for a bootstrap stream.",
    otherwise=_places("priority", system_wide=False),
)
BOOTSTRAP = Key(
    "streams.{stream}.samza.bootstrap",
    BOOLEAN,
    False,
    "Whether a container processes this input up to its head before any other input, at every start.",
    otherwise=_places("bootstrap", system_wide=False),
)
BOUNDED = Key(
    "streams.{stream}.samza.bounded",
    BOOLEAN,
    False,
    "Whether the input ends at its end as of the start.",
    otherwise=_places("bounded", system_wide=False),
)
INTERMEDIATE = Key(
    "streams.{stream}.samza.intermediate",
    BOOLEAN,
    False,
    "Whether the stream connects two stages of a pipeline. Watermarks, ends and drains may stand between its messages.",
    otherwise=_places("intermediate", system_wide=False),
)
REPLICATION_FACTOR = Key(
    "streams.{stream}.replication.factor",
    optional(integer(1, 32_767)),
    None,
    "Copies of the stream, if the job creates it, or `samzapy topic create --job`.",
    "the system's",
    (
        "systems.{system}.streams.{physical}.replication.factor",
        "systems.{system}.default.stream.replication.factor",
    ),
)
PROPERTIES = Key(
    "streams.{stream}.*",
    TEXT,
    None,
    "Kafka's topic settings (`cleanup.policy`, ...) of the stream, if the job creates it, or `samzapy topic create --job`.",
    "systems.S.default.stream.*",
)
KEYS = collect(globals())

#: The keys below `streams.ID.` that only identify the stream.
NAMING = frozenset({"samza.system", "samza.physical.name"})

_PARTITIONS = re.compile(r"(.+)#(?:(\d{1,6})|\[(\d{1,6})-(\d{1,6})\])", re.ASCII)
_OLDER = re.compile(r"systems\.([^.]+)\.streams\.(.+?)\.samza\..+")


def parse_stream_ids(reader: Reader, default_system: str | None, systems: Iterable[str]) -> dict[str, SystemStream]:
    """The streams with keys `streams.ID.*`, by id. If several ids name one stream, the last of them has the stream's
    keys. Notes a problem if two ids of a stream have different keys."""
    ids = {key.split(".")[1] for key in reader.values if key.startswith("streams.") and key.count(".") > 1}
    owned = {stream_id: _owned(reader, stream_id) for stream_id in ids}
    found: dict[str, SystemStream] = {}
    owner: dict[SystemStream, str] = {}
    for stream_id in sorted(ids, key=lambda each: (bool(owned[each]), each)):
        system = reader.get(SYSTEM, stream=stream_id) or default_system
        if system is None:
            reader.problem(SYSTEM.at(stream=stream_id), "required unless job.default.system is set")
            continue
        key = SYSTEM.at(stream=stream_id)
        check_system(reader, key, system, systems)
        stream = SystemStream(system, reader.get(PHYSICAL_NAME, stream=stream_id) or stream_id)
        other = owner.get(stream, stream_id)
        if owned[other] and owned[other] != owned[stream_id]:
            message = f"is the same stream as streams.{other} ({stream}) with different keys: put all keys under one id"
            reader.problem(f"streams.{stream_id}", message)
        found[stream_id], owner[stream] = stream, stream_id
    return found


def _owned(reader: Reader, stream_id: str) -> dict[str, str]:
    """The keys of an id that do more than identify the stream."""
    return {key: value for key, value in reader.below(f"streams.{stream_id}.").items() if key not in NAMING}


@dataclass(frozen=True)
class StreamNames:
    """Finds the streams that keys name: by `ids` (the keys `streams.ID.*`), as `system.stream`, or as a bare name on
    `default_system`. `systems`: the names of the configured systems."""

    ids: Mapping[str, SystemStream]
    default_system: str | None
    systems: Collection[str]

    def find(self, reader: Reader, key: str, name: str) -> SystemStream | None:
        """The stream that `key` calls `name`. Notes a problem for a system that is not configured, and for a name of
        neither form: then the result is None."""
        try:
            stream = self.ids[name] if name in self.ids else SystemStream.parse(name, self.default_system)
        except ValueError:
            reader.problem(key, "expected system.stream or the id of a stream", name)
            return None
        check_system(reader, key, stream.system, self.systems)
        return stream

    def find_input(self, reader: Reader, key: str, name: str) -> SystemStream | None:
        """Like `find`, for a name that may be a regular expression: without a system, its dots are not separators."""
        bare = name not in self.ids and name.partition(".")[0] not in self.systems
        if bare and self.default_system is not None and is_pattern(name):
            return SystemStream(self.default_system, name)
        return self.find(reader, key, name)


#: No stream has one of these characters in its name.
_SPECIAL = frozenset("\\*+?()[]{}|^$")


def is_pattern(name: str) -> bool:
    """Whether the name of a stream is a regular expression for names."""
    return not _SPECIAL.isdisjoint(name)


def is_start_given(flat: Mapping[str, str], stream: SystemStream, stream_id: str | None) -> bool:
    """Whether the keys of a job say where a stream starts without a checkpoint."""
    names = {"system": stream.system, "physical": stream.stream}
    if stream_id is not None:
        names["stream"] = stream_id
    return any(place in flat for place in OFFSET_DEFAULT.places(**names))


def parse_partitions(text: str) -> tuple[str, range] | None:
    """The stream's name and the partition numbers of `stream#3` or `stream#[0-2]`; None if it is not of that form."""
    match = _PARTITIONS.fullmatch(text)
    if match is None:
        return None
    return match[1], range(int(match[2] or match[3]), int(match[2] or match[4]) + 1)


def check_system(reader: Reader, key: str, system: str, systems: Iterable[str]) -> None:
    """Note a problem if `key` names a system that is not configured."""
    known = list(systems)
    if system not in known:
        listed = ", ".join(known) or "none"
        # A text that is not a name could contain line ends.
        named = system if is_name(system) else "NAME"
        reader.problem(
            key,
            f"system {system!r} has no systems.{named}.samza.factory; known: {listed}{did_you_mean(system, known)}",
        )


def parse_streams(
    reader: Reader, ids: Mapping[str, SystemStream], mentioned: Iterable[SystemStream], serdes: dict[str, str]
) -> dict[SystemStream, StreamConfig]:
    """Every stream with an id, with keys of the older form, or `mentioned` elsewhere."""
    older = {SystemStream(m[1], m[2]) for m in map(_OLDER.fullmatch, reader.values) if m}
    id_of = {stream: stream_id for stream_id, stream in ids.items()}
    streams = sorted({*ids.values(), *older, *mentioned})
    return {stream: _stream(reader, stream, id_of.get(stream), serdes) for stream in streams}


def stream_settings(
    reader: Reader, system: str, streams: Iterable[SystemStream], ids: Mapping[str, SystemStream]
) -> dict[str, StreamSettings]:
    """The settings that the system `system` gets for its streams, by their name on it."""
    prefixes = {stream: f"systems.{system}.streams.{stream.stream}." for stream in streams if stream.system == system}
    prefixes |= {stream: f"streams.{stream_id}." for stream_id, stream in ids.items() if stream.system == system}
    found = {}
    for stream, prefix in prefixes.items():
        below = reader.below(prefix)
        own = {key: value for key, value in below.items() if not key.startswith("samza.")}
        found[stream.stream] = StreamSettings(prefix, Masked(own, below.secret))
    return found


def _stream(reader: Reader, stream: SystemStream, stream_id: str | None, serdes: dict[str, str]) -> StreamConfig:
    names = {"system": stream.system, "physical": stream.stream}
    prefix = f"systems.{stream.system}.streams.{stream.stream}."
    if stream_id is not None:
        names["stream"] = stream_id
        prefix = f"streams.{stream_id}."
    for key, kind in ((KEY_SERDE, KEY_TYPE), (MSG_SERDE, MSG_TYPE)):
        where, name = reader.where(key, **names), reader.get(key, **names)
        check_serde(reader, serdes, where, name)
        check_type(reader, serdes, reader.where(kind, **names), reader.get(kind, **names), where, name)
    if reader.get(BOOTSTRAP, **names) and reader.get(OFFSET_DEFAULT, **names) == "upcoming":
        reader.warn(
            f"{reader.where(BOOTSTRAP, **names)}: {stream} starts at upcoming, so it has nothing to bootstrap from; "
            f"set {OFFSET_DEFAULT.places(**names)[0]}=oldest"
        )
    reader.get(REPLICATION_FACTOR, **names)
    below = reader.below(prefix)
    return StreamConfig(
        stream,
        key_serde=reader.get(KEY_SERDE, **names),
        msg_serde=reader.get(MSG_SERDE, **names),
        offset_default=reader.get(OFFSET_DEFAULT, **names),
        reset_offset=reader.get(RESET_OFFSET, **names),
        priority=reader.get(PRIORITY, **names),
        bootstrap=reader.get(BOOTSTRAP, **names),
        bounded=reader.get(BOUNDED, **names),
        intermediate=reader.get(INTERMEDIATE, **names),
        properties={key: value for key, value in below.items() if not key.startswith("samza.")},
        key_type=reader.get(KEY_TYPE, **names),
        msg_type=reader.get(MSG_TYPE, **names),
        stream_id=stream_id,
    )


def typed_streams(
    streams: Iterable[StreamConfig], ids: Mapping[str, SystemStream]
) -> Iterator[tuple[str, str | None, str]]:
    """Key, serde and class path of each class that the job file names for a stream."""
    id_of = {stream: stream_id for stream_id, stream in ids.items()}
    for config in streams:
        stream = config.system_stream
        for key, serde, path in (
            (KEY_TYPE, config.key_serde, config.key_type),
            (MSG_TYPE, config.msg_serde, config.msg_type),
        ):
            if path is not None:
                names = {"system": stream.system, "physical": stream.stream}
                named = {"stream": id_of[stream], **names} if stream in id_of else names
                yield key.places(**named)[0], serde, path
