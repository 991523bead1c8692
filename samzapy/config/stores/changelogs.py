"""Where the entries of a store come from: its changelog, or the streams of `side.inputs` and `restore.inputs`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.reading.classes import USER_CLASS
from samzapy.config.reading.keys import LIST, Reader, integer, key
from samzapy.config.reading.properties import Masked
from samzapy.config.streams.stream import StreamNames, check_system, parse_partitions


@dataclass(frozen=True)
class ChangelogKeys:
    """Settings of the changelog's topic."""

    min_compaction_lag_ms: int | None = key(
        "stores.{store}.changelog.min.compaction.lag.ms",
        integer(0),
        None,
        shown="the system's",
        otherwise=("stores.default.changelog.min.compaction.lag.ms",),
    )
    """Milliseconds before the changelog may compact a record."""
    max_message_bytes: int | None = key(
        "stores.{store}.changelog.max.message.bytes",
        integer(1, 2**31 - 1),
        None,
        shown="1000012",
        otherwise=("systems.{system}.default.stream.max.message.bytes",),
    )
    """Largest record of the changelog."""


def parse_changelog(
    reader: Reader, store: str, text: str | None, default_system: str | None, systems: Collection[str]
) -> SystemStream | None:
    """The changelog that the `text` of a store names, None for none."""
    if text is None:
        return None
    place = f"stores.{store}.changelog"
    try:
        stream = SystemStream.parse(text, default_system)
    except ValueError:
        reader.problem(place, "expected system.stream, or set job.changelog.system or job.default.system", text)
        return None
    check_system(reader, place, stream.system, systems)
    return stream


def parse_topic(reader: Reader, store: str, keys: ChangelogKeys, ttl_ms: int | None) -> Masked:
    """Read the topic settings of the changelog; with a time to live, add those that expire its records with the
    entries.

    Of the defaults of its system it has only the largest record, as in Samza: others may be wrong for state.
    """
    prefix = f"stores.{store}.changelog.kafka."
    topic = reader.below(prefix)
    for leaf in ("min.compaction.lag.ms", "delete.retention.ms"):
        if leaf in topic:
            reader.problem(prefix + leaf, f"use stores.{store}.changelog.{leaf} instead")
    _check_policy(reader, prefix, topic, ttl_ms)
    for leaf, value in (
        ("max.message.bytes", keys.max_message_bytes),
        ("min.compaction.lag.ms", keys.min_compaction_lag_ms),
    ):
        if value is not None:
            topic[leaf] = str(value)
    if ttl_ms is not None:
        topic.setdefault("cleanup.policy", "delete")
        if "delete" in topic["cleanup.policy"]:
            topic.setdefault("retention.ms", str(ttl_ms))
    return topic


def _check_policy(reader: Reader, prefix: str, topic: Masked, ttl_ms: int | None) -> None:
    policy = topic.get("cleanup.policy", "compact")
    if ttl_ms is None:
        if policy != "compact":
            reader.problem(f"{prefix}cleanup.policy", "expected compact, or the changelog would lose state", policy)
        return
    words = {word.strip() for word in policy.split(",")}
    if not words <= {"compact", "delete"}:
        reader.problem(f"{prefix}cleanup.policy", "expected compact, delete, or compact,delete", policy)
    retention = topic.get("retention.ms", "")
    if retention.isdecimal() and int(retention) < ttl_ms:
        message = f"must be >= rocksdb.ttl.ms ({ttl_ms}), or the changelog would lose state"
        reader.problem(f"{prefix}retention.ms", message, retention)


@dataclass(frozen=True)
class SourceKeys:
    """The streams that fill a store without a changelog, and the classes that turn their messages into entries."""

    side: tuple[str, ...] = key("stores.{store}.side.inputs", LIST, ())
    """Streams that fill the store, by name or id. A task reads the partitions with the same numbers as its inputs.
    Every task reads `system.stream#3` or `system.stream#[0-2]`. The store has no changelog. A start reads the streams
    to their ends, and the store follows them from then on. The task can only read the store."""
    side_processor: str | None = key(
        "stores.{store}.side.inputs.processor.factory", USER_CLASS, None, shown="required by side.inputs"
    )
    """The SideInputsProcessor class that turns side inputs into entries."""
    restore: tuple[str, ...] = key("stores.{store}.restore.inputs", LIST, ())
    """Inputs of the task that rebuild the store instead of a changelog. A start reads them again from their beginning
    up to the task's position. Any other entry of the store is lost with its files."""
    restore_processor: str | None = key(
        "stores.{store}.restore.inputs.processor.factory", USER_CLASS, None, shown="required by restore.inputs"
    )
    """The SideInputsProcessor class that makes the same entries from restore.inputs as the task."""


@dataclass(frozen=True)
class StoreSource:
    """The streams that fill a store without a changelog.

    1. A task reads the partitions of `streams` with the numbers of its inputs; every task reads all of `partitions`.
    2. `processor` is the class path of the SideInputsProcessor.
    3. If `replayed`, the streams are inputs of the task: its start reads them again up to the task's position, and the
       task may write to the store.
    4. Otherwise they are side inputs: the store follows them while the task runs, and the task only reads it.
    """

    streams: tuple[SystemStream, ...]
    partitions: frozenset[SystemStreamPartition]
    processor: str
    replayed: bool

    @property
    def all_streams(self) -> frozenset[SystemStream]:
        """All the streams, including `partitions`."""
        return frozenset(self.streams) | {ssp.system_stream for ssp in self.partitions}


def parse_source(
    reader: Reader, store: str, names: StreamNames, is_input: Callable[[SystemStream], bool]
) -> StoreSource | None:
    """Read the streams that fill the store, None if there are none. `is_input`: whether the task reads a stream."""
    keys = reader.read(SourceKeys, {"store": store})
    side, restore = f"stores.{store}.side.inputs", f"stores.{store}.restore.inputs"
    for place, listed in ((side, keys.side), (restore, keys.restore)):
        if reader.is_set(f"{place}.processor.factory") and not listed:
            message = f"has no effect without {place}: add that key or remove this one"
            reader.problem(f"{place}.processor.factory", message)
    if keys.side and keys.restore:
        reader.problem(restore, "cannot be combined with side.inputs")
    if not keys.side and not keys.restore:
        return None
    place = side if keys.side else restore
    streams: dict[SystemStream, None] = {}
    partitions: set[SystemStreamPartition] = set()
    for entry in keys.side or keys.restore:
        named = parse_partitions(entry)
        if named is not None:
            partitions |= names.find_partitions(reader, place, entry, *named)
        elif (stream := names.find(reader, place, entry)) is not None:
            streams[stream] = None
    processor = keys.side_processor if keys.side else keys.restore_processor
    if processor is None:
        reader.missing(f"{place}.processor.factory", "my.module:MyProcessor")
    if not keys.side:
        _check_restored(reader, place, streams, partitions, is_input)
    return StoreSource(tuple(streams), frozenset(partitions), processor or "", not keys.side)


def check_sourced(reader: Reader, store: str, source: StoreSource, *, logged: bool, expiring: bool) -> None:
    """Note the keys that a store filled from streams cannot have."""
    place = f"stores.{store}.{'restore' if source.replayed else 'side'}.inputs"
    if logged:
        message = f"cannot be combined with stores.{store}.changelog: the store is filled from the streams"
        reader.problem(place, message)
    if expiring:
        why = "entries that are read again would get a new time to live"
        message = f"cannot be combined with stores.{store}.rocksdb.ttl.ms: {why}"
        reader.problem(place, message)


def _check_restored(
    reader: Reader,
    place: str,
    streams: Collection[SystemStream],
    partitions: Collection[SystemStreamPartition],
    is_input: Callable[[SystemStream], bool],
) -> None:
    if partitions:
        listed = ", ".join(sorted(map(str, partitions)))
        reader.problem(place, "expected whole streams, without partitions", listed)
    for stream in streams:
        if not is_input(stream):
            message = "expected inputs of the task (task.inputs); for other streams use side.inputs"
            reader.problem(place, message, str(stream))
