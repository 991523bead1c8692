"""`stores.*`: one frozen value for each store, and where its entries come from: its changelog, or the streams of
`side.inputs` and `restore.inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.reading.classes import BYTE_ENGINES, ENGINES, MESSAGE_TYPE, SCHEMA_SERDES, USER_CLASS
from samzapy.config.reading.keys import (
    BOOLEAN,
    LIST,
    NAME_RULE,
    NAMED,
    TEXT,
    Reader,
    choice,
    family,
    integer,
    is_name,
    key,
    keys_of,
    required,
)
from samzapy.config.reading.properties import Masked
from samzapy.config.stores.engines import RocksDbKeys
from samzapy.config.streams.serdes import check_serde, check_type
from samzapy.config.streams.stream import StreamNames, check_system, parse_partitions


@dataclass(frozen=True)
class LargeValues:
    """A serialized value above `max_bytes` is large. Without `refuse` and `drop` only the changelog's own limit
    applies, when the value is serialized."""

    max_bytes: int = key("stores.{store}.changelog.max.message.size.bytes", integer(1, 2**31 - 1), 1_048_576)
    """Size in bytes above which a serialized value is large, for disallow.large.messages and drop.large.messages."""
    refuse: bool = key("stores.{store}.disallow.large.messages", BOOLEAN, False)
    """Whether a put of a large value raises an error and writes nothing. Overrides drop.large.messages."""
    drop: bool = key("stores.{store}.drop.large.messages", BOOLEAN, False)
    """Whether a put of a large value does nothing. The key keeps its old value, and ignored-large-messages counts the
    put. Works with the same engines as rocksdb.ttl.ms."""

    @property
    def limited(self) -> bool:
        """Whether puts measure their values."""
        return self.refuse or self.drop


@dataclass(frozen=True)
class BackupConfig:
    """Snapshots of a store's files. `kept` of them stay. `options` go to fsspec."""

    path: str = key(
        "stores.{store}.backup.path", TEXT, "", shown="no snapshots", otherwise=("stores.default.backup.path",)
    )
    """Folder for snapshots of the store's files, as a URL for fsspec (file:///..., s3://..., hdfs://...). A task
    without local files starts from the newest of the last two snapshots and reads the rest from the changelog. Needs
    `samzapy[backup]`."""
    interval_ms: int = key(
        "stores.{store}.backup.interval.ms", integer(0), 600_000, otherwise=("stores.default.backup.interval.ms",)
    )
    """Milliseconds after which a commit takes the next snapshot, if the store has changed."""
    kept: int = 2
    options: Mapping[str, str] = family("stores.{store}.backup.options.*")
    """Options for fsspec's file system (`key`, `secret`, `host`, ...)."""


_ENCODED = "required by rocksdb and inmemory; views have their own encoding"
_PLAIN = "plain values"


@dataclass(frozen=True)
class StoreConfig:
    """One store. The serdes are empty if the job file leaves them to a view.

    `changelog_properties`: topic settings of the changelog. `source`: the streams that fill the store instead of a
    changelog. `properties` are the keys below `stores.NAME.` that its engine reads.
    """

    name: str
    factory: str = required("stores.{store}.factory", ENGINES.kind, "rocksdb")
    """The engine: rocksdb, inmemory, heap, bloom, hyperloglog, quantiles, inverted-index, cube, timers (the store of
    the task's timers), a StorageEngineFactory or StoreViewFactory class, or Samza's Java class name."""
    key_serde: str = key("stores.{store}.key.serde", TEXT, "", shown=_ENCODED)
    """The serde of keys."""
    msg_serde: str = key("stores.{store}.msg.serde", TEXT, "", shown=_ENCODED)
    """The serde of values."""
    changelog: SystemStream | None = key("stores.{store}.changelog", NAMED, None)
    """The stream of the store's changes: `system.stream`, or a bare stream on job.changelog.system. Without a changelog
    the store is empty at each start, unless side.inputs or restore.inputs fill it."""
    _: KW_ONLY
    base: str = key("stores.{store}.base", BYTE_ENGINES.kind, BYTE_ENGINES.short["rocksdb"], shown="rocksdb")
    """The engine for the entries of a view (heap, cube, ...): rocksdb, inmemory or a StorageEngineFactory class."""
    key_type: str | None = key("stores.{store}.key.type", MESSAGE_TYPE, None, shown=_PLAIN)
    """The class of keys, with the serde json or msgpack. It must be hashable."""
    msg_type: str | None = key("stores.{store}.msg.type", MESSAGE_TYPE, None, shown=_PLAIN)
    """The class of values, with the serde json or msgpack, or a registered schema. It must be able to read the stored
    values, so new fields need defaults."""
    write_batch_size: int = key("stores.{store}.write.batch.size", integer(1, 2**31 - 1), 500)
    """Number of changed objects that a full cache serializes together."""
    object_cache_size: int | None = key(
        "stores.{store}.object.cache.size",
        integer(0, 2**31 - 1),
        None,
        shown="by bytes: the store's share of container.cache.max.bytes",
    )
    """Maximum number of deserialized objects in memory, at least write.batch.size. 0: no cache and no batching."""
    object_cache_mode: str = key(
        "stores.{store}.object.cache.mode",
        replace(choice("reference", "copy"), blank=True),
        "reference",
        shown="reference; copy if the policy of task.error.process, .serialize or .produce is not fail, to undo the "
        "changes of a failed message or batch",
    )
    """Whether `get` returns the cached object itself or a copy. An object that is changed without a `put` is not
    saved."""
    object_cache_check: bool = key("stores.{store}.object.cache.check", BOOLEAN, False)
    """For debugging. A commit fails and names the key if an object from the store was changed without a put."""
    uncommitted_max_bytes: int = key("stores.{store}.uncommitted.max.bytes", integer(1), 67_108_864)
    """Bytes of serialized changes that make a task commit early."""
    flush_interval_ms: int = key("stores.{store}.flush.interval.ms", integer(0, 2**53), 60_000)
    """Maximum age in milliseconds of changes that are only in a task's memory. At half of it a commit starts a flush in
    the background. At the full age the commit waits for the flush. 0: every commit waits. The same holds for 400,000
    changes."""
    clean_on_start: bool = key("stores.{store}.clean.on.container.start", BOOLEAN, False)
    """Whether each start removes the local files and restores everything from the changelog."""
    ttl_ms: int | None = key("stores.{store}.rocksdb.ttl.ms", integer(), None)
    """Milliseconds from the put of an entry until it expires, in rocksdb, inmemory, bloom, hyperloglog and quantiles;
    other views refuse it. Less than 1000 counts as 1000, <= 0 as never. A changelog that the job creates keeps records
    for the same time (cleanup.policy=delete)."""
    changelog_replication_factor: int | None = key(
        "stores.{store}.changelog.replication.factor",
        integer(1, 32_767),
        None,
        shown="the system's",
        otherwise=("stores.default.changelog.replication.factor", "systems.{system}.default.stream.replication.factor"),
    )
    """Copies of the changelog."""
    changelog_delete_retention_ms: int = key("stores.{store}.changelog.delete.retention.ms", integer(0), 86_400_000)
    """Milliseconds for which the changelog keeps a deletion. A start rebuilds an older local store."""
    changelog_properties: Mapping[str, str] = family("stores.{store}.changelog.kafka.*")
    """Further topic settings for the creation of the changelog."""
    large_values: LargeValues = field(default_factory=LargeValues)
    backup: BackupConfig | None = None
    source: StoreSource | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


_PREFIX, _SUFFIX = "stores.", ".factory"
_PROCESSORS = (".side.inputs.processor", ".restore.inputs.processor")
_SHORTEST_TTL_MS = 1_000


def store_names(values: Mapping[str, str]) -> list[str]:
    """The names of a job's stores: with a factory, or with a processor that fills them."""
    names = {k[len(_PREFIX) : -len(_SUFFIX)] for k in values if k.startswith(_PREFIX) and k.endswith(_SUFFIX)}
    for processor in _PROCESSORS:
        names = {name.removesuffix(processor) for name in names}
    return sorted(name for name in names if name)


def parse_stores(
    reader: Reader,
    names: StreamNames,
    changelog_system: str | None,
    serdes: dict[str, str],
    is_input: Callable[[SystemStream], bool],
    *,
    undoing: bool,
) -> dict[str, StoreConfig]:
    """Read every store, by name. `is_input`: whether the task reads a stream. `undoing`: the job undoes failed
    messages, so stores hand out copies by default."""
    stores: dict[str, StoreConfig] = {}
    owners: dict[SystemStream, str] = {}
    for name in store_names(reader.values):
        if name == "default":
            message = f"store name {name!r} is reserved for the defaults of all stores, choose another"
            reader.problem(f"stores.{name}.factory", message)
            continue
        if not is_name(name):
            reader.problem(f"stores.{name}.factory", f"store {name!r}: expected {NAME_RULE}")
            continue
        changelog = _changelog(reader, name, changelog_system, names.systems)
        source = _source(reader, name, names, is_input)
        stores[name] = _store(reader, name, changelog, source, serdes, undoing=undoing)
        if changelog is not None and owners.setdefault(changelog, name) != name:
            message = f"store {owners[changelog]!r} has the same changelog; give each its own"
            reader.problem(f"stores.{name}.changelog", message)
    return stores


def _store(
    reader: Reader,
    name: str,
    changelog: SystemStream | None,
    source: StoreSource | None,
    serdes: dict[str, str],
    *,
    undoing: bool,
) -> StoreConfig:
    place = {"store": name}
    topic_place = place if changelog is None else {**place, "system": changelog.system}
    keys = reader.read(ChangelogKeys, topic_place)
    ttl_ms = _ttl_ms(reader, name)
    mode = reader.value(StoreConfig, "object_cache_mode", store=name)
    if undoing and not reader.values.get(f"stores.{name}.object.cache.mode"):
        mode = "copy"
    store = reader.read(
        StoreConfig,
        topic_place,
        name=name,
        changelog=changelog,
        object_cache_mode=mode,
        ttl_ms=ttl_ms,
        changelog_properties=parse_topic(reader, name, keys, ttl_ms),
        large_values=_large_values(reader, name),
        backup=_backup(reader, name, logged=changelog is not None),
        source=source,
        properties=_engine_properties(reader, name),
    )
    _check_serdes(reader, store, serdes)
    _check_engine(reader, store)
    _check_source(reader, store)
    return store


def _check_serdes(reader: Reader, store: StoreConfig, serdes: dict[str, str]) -> None:
    """Note unknown serdes, types that they do not decode to, and missing ones; only views may do without."""
    own_encoding = store.factory not in {"", *BYTE_ENGINES.short.values()}
    for part, name, path, example in (
        ("key", store.key_serde, store.key_type, "string"),
        ("msg", store.msg_serde, store.msg_type, "json"),
    ):
        where = f"stores.{store.name}.{part}.serde"
        check_serde(reader, serdes, where, name)
        check_type(reader, serdes, f"stores.{store.name}.{part}.type", path, where, name or None)
        if not name and not own_encoding:
            reader.missing(where, example)
    if serdes.get(store.key_serde) in SCHEMA_SERDES:
        message = "the id of a schema is part of its bytes, so a new schema would hide the entries: use string or json"
        reader.problem(f"stores.{store.name}.key.serde", message, store.key_serde)


def _check_engine(reader: Reader, store: StoreConfig) -> None:
    name, batch, cache = store.name, store.write_batch_size, store.object_cache_size
    if cache is not None and 0 < cache < batch:
        message = f"object.cache.size ({cache}) must be >= write.batch.size ({batch}), or 0 for no cache"
        reader.problem(f"stores.{name}.object.cache.size", message)
    base = f"stores.{name}.base"
    if store.factory in BYTE_ENGINES.short.values() and reader.values.get(base):
        reader.problem(base, "has no meaning for an engine that is not a view; remove it", reader.values[base])
    if store.changelog is not None and store.properties.get("rocksdb.compaction.style", "").lower() == "fifo":
        reader.warn(
            f"stores.{name}.rocksdb.compaction.style: fifo drops the oldest entries of a large store, but its "
            "changelog keeps them: a restore brings them back"
        )


def _engine_properties(reader: Reader, name: str) -> Masked:
    """The keys for the engine; those that all stores of a container share have their full names."""
    below = reader.below(f"{_PREFIX}{name}.")
    ours = {declared.name.removeprefix("stores.{store}.") for declared in keys_of(*STORE_SECTIONS)}
    rest = {
        leaf: value
        for leaf, value in below.items()
        if leaf not in ours and not leaf.startswith(("changelog.", "backup.options."))
    }
    for place in (shared.places(store=name)[-1] for shared in keys_of(RocksDbKeys)):
        if reader.is_set(place) and not place.startswith(f"{_PREFIX}{name}."):
            rest[place] = reader.values.get(place, "")
    return Masked(rest, below.secret)


def _ttl_ms(reader: Reader, store: str) -> int | None:
    """Read the milliseconds after which entries expire, None for never."""
    ttl_ms: int | None = reader.value(StoreConfig, "ttl_ms", store=store)
    if ttl_ms is None or ttl_ms <= 0:
        return None
    if ttl_ms < _SHORTEST_TTL_MS:
        reader.warn(f"stores.{store}.rocksdb.ttl.ms: {ttl_ms} counts as {_SHORTEST_TTL_MS}, the shortest time to live")
    return max(ttl_ms, _SHORTEST_TTL_MS)


def _large_values(reader: Reader, store: str) -> LargeValues:
    values = reader.read(LargeValues, {"store": store})
    limit = f"stores.{store}.changelog.max.message.size.bytes"
    if reader.is_set(limit) and not values.limited:
        reader.warn(f"{limit}: has no effect without disallow.large.messages or drop.large.messages")
    return LargeValues(values.max_bytes, values.refuse, values.drop and not values.refuse)


def _backup(reader: Reader, store: str, *, logged: bool) -> BackupConfig | None:
    backup = reader.read(BackupConfig, {"store": store})
    if not backup.path:
        return None
    if logged:
        return backup
    place = f"stores.{store}.backup.path"
    if reader.is_set(place):
        reader.problem(place, f"needs stores.{store}.changelog, which has the changes since the snapshot")
    return None


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


def _changelog(reader: Reader, store: str, default_system: str | None, systems: Collection[str]) -> SystemStream | None:
    text = reader.value(StoreConfig, "changelog", store=store)
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


def _source(
    reader: Reader, store: str, names: StreamNames, is_input: Callable[[SystemStream], bool]
) -> StoreSource | None:
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


def _check_source(reader: Reader, store: StoreConfig) -> None:
    """Note the keys that a store filled from streams cannot have."""
    if store.source is None:
        return
    prefix = f"stores.{store.name}."
    place = f"{prefix}{'restore' if store.source.replayed else 'side'}.inputs"
    if store.changelog is not None:
        reader.problem(place, f"cannot be combined with {prefix}changelog: the store is filled from the streams")
    if store.ttl_ms is not None:
        why = "entries that are read again would get a new time to live"
        reader.problem(place, f"cannot be combined with {prefix}rocksdb.ttl.ms: {why}")


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


STORE_SECTIONS = (StoreConfig, LargeValues, BackupConfig, ChangelogKeys, SourceKeys)
