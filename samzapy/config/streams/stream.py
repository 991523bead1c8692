"""`streams.*`, and the older `systems.S.streams.*`: how each stream is read and written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamSettings
from samzapy.config.reading.classes import MESSAGE_TYPE
from samzapy.config.reading.keys import (
    BOOLEAN,
    TEXT,
    Kind,
    Reader,
    did_you_mean,
    family,
    integer,
    is_name,
    key,
    keys_by_field,
)
from samzapy.config.reading.properties import Masked
from samzapy.config.streams.serdes import check_serde, check_type
from samzapy.config.streams.systems import OFFSETS

T = TypeVar("T")

#: The default priority of bootstrap streams: Samza's Int.MaxValue.
BOOTSTRAP_PRIORITY = 2**31 - 1


def _samza_key(leaf: str, kind: Kind[T], default: T, *, shown: str | None = None, system_wide: bool = False) -> T:
    """The key `streams.ID.samza.LEAF`, else its older form. `system_wide`: else the system's."""
    otherwise = [f"systems.{{system}}.streams.{{physical}}.samza.{leaf}"]
    if system_wide:
        otherwise += [f"systems.{{system}}.default.stream.samza.{leaf}", f"systems.{{system}}.samza.{leaf}"]
    return key(f"streams.{{stream}}.samza.{leaf}", kind, default, shown=shown, otherwise=otherwise)


_BYTES = "the system's, else bytes pass through"
_INFERRED = "for an input the class in the task's code, else plain values"


@dataclass(frozen=True)
class StreamConfig:
    """The settings of one stream. A serde of None passes bytes through. `properties` are topic settings for its
    creation. `stream_id` is the ID of its keys `streams.ID.*`."""

    system_stream: SystemStream
    _: KW_ONLY
    key_serde: str | None = _samza_key("key.serde", TEXT, None, shown=_BYTES, system_wide=True)
    """The serde of keys."""
    msg_serde: str | None = _samza_key("msg.serde", TEXT, None, shown=_BYTES, system_wide=True)
    """The serde of messages."""
    key_type: str | None = _samza_key("key.type", MESSAGE_TYPE, None, shown=_INFERRED)
    """The class of keys, with the serde json or msgpack, or a registered schema."""
    msg_type: str | None = _samza_key("msg.type", MESSAGE_TYPE, None, shown=_INFERRED)
    """The class of messages, with the serde json or msgpack, or a registered schema: a msgspec Struct, dataclass, attrs
    class, TypedDict, NamedTuple or pydantic model, or an alias of a generic."""
    offset_default: str = _samza_key("offset.default", OFFSETS, "upcoming", system_wide=True)
    """The position where an input starts without a checkpoint: oldest, upcoming (only new records) or newest (the last
    offset: of a record, or of the mark at the end of a transaction)."""
    reset_offset: bool = _samza_key("reset.offset", BOOLEAN, False)
    """Whether each start ignores the checkpoint and begins at offset.default."""
    priority: int = _samza_key("priority", integer(-1, 2**31 - 1), -1)
    """Tasks process inputs of a higher priority first. -1: 0, or the highest for a bootstrap stream."""
    bootstrap: bool = _samza_key("bootstrap", BOOLEAN, False)
    """Whether a container processes this input up to its head before any other input, at every start."""
    bounded: bool = _samza_key("bounded", BOOLEAN, False)
    """Whether the input ends at its end as of the start."""
    intermediate: bool = _samza_key("intermediate", BOOLEAN, False)
    """Whether the stream connects two stages of a pipeline. Watermarks, ends and drains may stand between its
    messages."""
    repartition: bool = _samza_key("repartition", BOOLEAN, False)
    """Whether the stream connects two steps of this job: the job creates it with a partition for each task, its tasks
    alone write and end it, and records behind the commits are deleted. Needs samza.intermediate=true."""
    properties: Mapping[str, str] = family("streams.{stream}.*", shown="systems.S.default.stream.*")
    """Kafka's topic settings (`cleanup.policy`, ...) of the stream, if the job creates it, or `samzapy topic create
    --job`."""
    stream_id: str | None = field(default=None, compare=False)

    @property
    def prefix(self) -> str:
        """The prefix of its keys in the job file."""
        return _prefix(self.system_stream, self.stream_id)

    @property
    def from_oldest(self) -> str:
        """The options with which one run of the job begins at the oldest record. They override every key of the
        file."""
        return f"--config {self.prefix}samza.reset.offset=true --config {self.prefix}samza.offset.default=oldest"


@dataclass(frozen=True)
class StreamKeys:
    """The keys of a stream that are read apart from the others."""

    system: str | None = key("streams.{stream}.samza.system", TEXT, None, shown="job.default.system")
    """The stream's system."""
    physical_name: str | None = key("streams.{stream}.samza.physical.name", TEXT, None, shown="the stream's id")
    """The stream's name on its system."""
    replication_factor: int | None = key(
        "streams.{stream}.replication.factor",
        integer(1, 32_767),
        None,
        shown="the system's",
        otherwise=(
            "systems.{system}.streams.{physical}.replication.factor",
            "systems.{system}.default.stream.replication.factor",
        ),
    )
    """Copies of the stream, if the job creates it, or `samzapy topic create --job`."""


#: The keys below `streams.ID.` that only identify the stream.
NAMING = frozenset({"samza.system", "samza.physical.name"})

#: The number that stands for all partitions of a stream, until a start has asked how many there are.
EVERY = -1
_PARTITIONS = re.compile(r"(.+)#(?:(\d{1,6})|\[(\d{1,6})-(\d{1,6})\]|\*)", re.ASCII)
_OLDER = re.compile(r"systems\.([^.]+)\.streams\.(.+?)\.samza\..+")


def parse_stream_ids(reader: Reader, default_system: str | None, systems: Iterable[str]) -> dict[str, SystemStream]:
    """The streams with keys `streams.ID.*`, by id. If several ids name one stream, the last of them has the stream's
    keys. Notes a problem if two ids of a stream have different keys."""
    ids = {name.split(".")[1] for name in reader.values if name.startswith("streams.") and name.count(".") > 1}
    owned = {stream_id: _owned(reader, stream_id) for stream_id in ids}
    streams: dict[str, SystemStream] = {}
    owner: dict[SystemStream, str] = {}
    for stream_id in sorted(ids, key=lambda item: (bool(owned[item]), item)):
        keys = reader.read(StreamKeys, {"stream": stream_id})
        system, place = keys.system or default_system, f"streams.{stream_id}.samza.system"
        if system is None:
            reader.problem(place, "required unless job.default.system is set")
            continue
        check_system(reader, place, system, systems)
        stream = SystemStream(system, keys.physical_name or stream_id)
        other = owner.get(stream, stream_id)
        if owned[other] and owned[other] != owned[stream_id]:
            message = f"is the same stream as streams.{other} ({stream}) with different keys: put all keys under one id"
            reader.problem(f"streams.{stream_id}", message)
        streams[stream_id], owner[stream] = stream, stream_id
    return streams


def _owned(reader: Reader, stream_id: str) -> dict[str, str]:
    """The keys of an id that do more than identify the stream."""
    below = reader.below(f"streams.{stream_id}.")
    return {leaf: value for leaf, value in below.items() if leaf not in NAMING}


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
            stream = self.ids.get(name) or SystemStream.parse(name, self.default_system)
        except ValueError:
            reader.problem(key, "expected system.stream or the id of a stream, and commas between several", name)
            return None
        check_system(reader, key, stream.system, self.systems)
        return stream

    def find_input(self, reader: Reader, key: str, name: str) -> SystemStream | None:
        """Like `find`, for a name that may be a regular expression: without a system, its dots are not separators."""
        bare = name not in self.ids and name.partition(".")[0] not in self.systems
        if bare and self.default_system is not None and is_pattern(name):
            return SystemStream(self.default_system, name)
        return self.find(reader, key, name)

    def find_partitions(
        self, reader: Reader, key: str, entry: str, name: str, numbers: range
    ) -> set[SystemStreamPartition]:
        """The partitions that the `entry` of `key` names: the `numbers` of the stream `name`."""
        if not numbers:
            reader.problem(key, f"partition range {numbers.start}-{numbers.stop - 1} is empty", entry)
        stream = self.find(reader, key, name)
        return set() if stream is None else {SystemStreamPartition(*stream, number) for number in numbers}


#: No stream has one of these characters in its name.
_SPECIAL = frozenset("\\*+?()[]{}|^$")


def is_pattern(name: str) -> bool:
    """Whether the name of a stream is a regular expression for names."""
    return not _SPECIAL.isdisjoint(name)


def is_start_given(flat: Mapping[str, str], stream: SystemStream, stream_id: str | None) -> bool:
    """Whether the keys of a job say where a stream starts without a checkpoint."""
    places = keys_by_field(StreamConfig)["offset_default"].places(**_placeholders(stream, stream_id))
    return any(place in flat for place in places)


def _placeholders(stream: SystemStream, stream_id: str | None) -> dict[str, str]:
    names = {"system": stream.system, "physical": stream.stream}
    return names if stream_id is None else {**names, "stream": stream_id}


def parse_partitions(text: str) -> tuple[str, range] | None:
    """The stream's name and the partition numbers of `stream#3`, `stream#[0-2]` or `stream#*` (`EVERY`); None if it is
    not of that form."""
    match = _PARTITIONS.fullmatch(text)
    if match is None:
        return None
    first, last = match[2] or match[3] or EVERY, match[2] or match[4] or EVERY
    return match[1], range(int(first), int(last) + 1)


def check_system(reader: Reader, key: str, system: str, systems: Iterable[str]) -> None:
    """Note a problem if `key` names a system that is not configured."""
    known = list(systems)
    if system not in known:
        listed = ", ".join(known) or "none"
        # A text that is not a name could contain line ends.
        named = system if is_name(system) else "NAME"
        reader.problem(
            key, f"system {system!r} has no systems.{named}.samza.factory; known: {listed}{did_you_mean(system, known)}"
        )


def parse_streams(
    reader: Reader, ids: Mapping[str, SystemStream], mentioned: Iterable[SystemStream], serdes: dict[str, str]
) -> dict[SystemStream, StreamConfig]:
    """Every stream with an id, with keys of the older form, or `mentioned` elsewhere."""
    older = {SystemStream(m[1], m[2]) for m in map(_OLDER.fullmatch, reader.values) if m}
    id_of = {stream: stream_id for stream_id, stream in ids.items()}
    streams = sorted({*ids.values(), *older, *mentioned})
    return {stream: _stream(reader, stream, id_of.get(stream), serdes) for stream in streams}


def stream_settings(system: str, streams: Iterable[StreamConfig]) -> dict[str, StreamSettings]:
    """The settings that the system `system` gets for its streams, by their name on it."""
    own = (config for config in streams if config.system_stream.system == system)
    return {config.system_stream.stream: StreamSettings(config.prefix, config.properties) for config in own}


def _prefix(stream: SystemStream, stream_id: str | None) -> str:
    return f"systems.{stream.system}.streams.{stream.stream}." if stream_id is None else f"streams.{stream_id}."


def _stream(reader: Reader, stream: SystemStream, stream_id: str | None, serdes: dict[str, str]) -> StreamConfig:
    names, below = _placeholders(stream, stream_id), reader.below(_prefix(stream, stream_id))
    topic = Masked({leaf: value for leaf, value in below.items() if not leaf.startswith("samza.")}, below.secret)
    config = reader.read(StreamConfig, names, system_stream=stream, properties=topic, stream_id=stream_id)
    for part, serde, path in (("key", config.key_serde, config.key_type), ("msg", config.msg_serde, config.msg_type)):
        where = reader.place(StreamConfig, f"{part}_serde", **names)
        check_serde(reader, serdes, where, serde)
        check_type(reader, serdes, reader.place(StreamConfig, f"{part}_type", **names), path, where, serde)
    if config.bootstrap and config.offset_default == "upcoming":
        reader.warn(
            f"{reader.place(StreamConfig, 'bootstrap', **names)}: {stream} starts at upcoming, so it has nothing to "
            f"bootstrap from; set {config.prefix}samza.offset.default=oldest"
        )
    reader.read(StreamKeys, names, system=None, physical_name=None)
    return config
