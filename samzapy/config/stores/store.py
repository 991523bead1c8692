"""`stores.*`: one frozen value for each store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from samzapy.api.stream import SystemStream
from samzapy.config.reading.classes import BYTE_ENGINES, ENGINES, MESSAGE_TYPE, SCHEMA_SERDES
from samzapy.config.reading.keys import BOOLEAN, NAME_RULE, TEXT, Key, choice, collect, integer, is_name, optional
from samzapy.config.reading.reader import Reader
from samzapy.config.reading.secrets import Masked
from samzapy.config.stores import backup, changelogs, engines, sources
from samzapy.config.stores.backup import BackupConfig, parse_backup
from samzapy.config.stores.changelogs import parse_changelog
from samzapy.config.stores.sources import StoreSource
from samzapy.config.streams.serdes import check_serde, check_type


@dataclass(frozen=True)
class LocalFiles:
    """Settings of a store's files.

    `flush_records`, `flush_interval_ms`: the largest number and age of changes that are only in the engine's memory
    after a commit. `restore_max_bytes`: the memory in which a container gathers records to restore.
    """

    flush_records: int = 400_000
    flush_interval_ms: int = 60_000
    restore_max_bytes: int = 402_653_184


@dataclass(frozen=True)
class LargeValues:
    """A serialized value above `max_bytes` is large. `refuse`: its put raises. `drop`: its put does nothing.
    With neither, only the changelog's own limit applies, when the value is serialized."""

    max_bytes: int = 1_048_576
    refuse: bool = False
    drop: bool = False

    @property
    def limited(self) -> bool:
        """Whether puts measure their values."""
        return self.refuse or self.drop


@dataclass(frozen=True)
class StoreConfig:
    """One store. `properties` are the keys below `stores.NAME.` that its engine reads (`rocksdb.*`, `container.*`).

    `write_batch_size`: number of dirty objects that a full cache serializes in one go. `object_cache_size`: number of
    objects in the cache, 0 for no cache and no batching, None for as many as the container's memory for caches has room
    for. `uncommitted_max_bytes`: serialized changes of one task that make it commit early. `object_cache_mode`:
    reference or copy. `changelog_properties`: topic keys (`max.message.bytes`, ...). `ttl_ms`: lifetime of an entry,
    None for ever. `access_log_percent`: share of the calls in the access log, None for no such log. `clean_on_start`:
    each start removes the local files. `base`: the engine below a view. The serdes are empty if the job file leaves
    them to a view. `source`: the streams that fill the store instead of a changelog, None for none. `backup`: where
    snapshots of its files go, None for nowhere. `key_type`, `msg_type`: the paths of the classes to decode to, None for
    plain values.
    """

    name: str
    factory: str
    key_serde: str
    msg_serde: str
    changelog: SystemStream | None = None
    write_batch_size: int = 500
    object_cache_size: int | None = None
    object_cache_mode: str = "reference"
    uncommitted_max_bytes: int = 67_108_864
    changelog_replication_factor: int | None = None
    changelog_delete_retention_ms: int = 86_400_000
    changelog_properties: Mapping[str, str] = field(default_factory=dict)
    ttl_ms: int | None = None
    large_values: LargeValues = field(default_factory=LargeValues)
    access_log_percent: int | None = None
    object_cache_check: bool = False
    clean_on_start: bool = False
    local_files: LocalFiles = field(default_factory=LocalFiles)
    properties: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    source: StoreSource | None = None
    backup: BackupConfig | None = None
    key_type: str | None = None
    msg_type: str | None = None


FACTORY = Key(
    "stores.{store}.factory",
    ENGINES.kind,
    None,
    "The engine: rocksdb, inmemory, heap, bloom, hyperloglog, quantiles, inverted-index, cube, a StorageEngineFactory or "
    "StoreViewFactory class, or Samza's Java class name.",
    "required",
)
BASE = Key(
    "stores.{store}.base",
    BYTE_ENGINES.kind,
    None,
    "The engine for the entries of a view (heap, cube, ...): rocksdb, inmemory or a StorageEngineFactory class.",
    "rocksdb",
)
_SERDE_NOTE = "required by rocksdb and inmemory; views have their own encoding"
KEY_SERDE = Key("stores.{store}.key.serde", TEXT, None, "The serde of keys.", _SERDE_NOTE)
MSG_SERDE = Key("stores.{store}.msg.serde", TEXT, None, "The serde of values.", _SERDE_NOTE)
_TYPE_NOTE = "plain values"
KEY_TYPE = Key(
    "stores.{store}.key.type",
    MESSAGE_TYPE,
    None,
    "The class of keys, with the serde json or msgpack. It must be hashable.",
    _TYPE_NOTE,
)
MSG_TYPE = Key(
    "stores.{store}.msg.type",
    MESSAGE_TYPE,
    None,
    "The class of values, with the serde json or msgpack, or a registered schema. It must be able to read the "
    "stored values, so new fields need defaults.",
    _TYPE_NOTE,
)
WRITE_BATCH_SIZE = Key(
    "stores.{store}.write.batch.size",
    integer(1, 2**31 - 1),
    500,
    "Number of changed objects that a full cache serializes together.",
)
OBJECT_CACHE_SIZE = Key(
    "stores.{store}.object.cache.size",
    optional(integer(0, 2**31 - 1)),
    None,
    "Maximum number of deserialized objects in memory, at least write.batch.size. 0: no cache and no batching.",
    "by bytes: the store's share of container.cache.max.bytes",
)
OBJECT_CACHE_MODE = Key(
    "stores.{store}.object.cache.mode",
    optional(choice("reference", "copy")),
    None,
    "Whether `get` returns the cached object itself or a copy. An object that is changed without a `put` is not saved.",
    "reference; copy if the policy of task.error.process, .serialize or .produce is not fail, to undo the changes of a failed "
    "message or batch",
)
UNCOMMITTED_MAX_BYTES = Key(
    "stores.{store}.uncommitted.max.bytes",
    integer(1),
    67_108_864,
    "Bytes of serialized changes that make a task commit early.",
)
CLEAN_ON_START = Key(
    "stores.{store}.clean.on.container.start",
    BOOLEAN,
    False,
    "Whether each start removes the local files and restores everything from the changelog.",
)
FLUSH_RECORDS = Key(
    "stores.{store}.flush.records",
    integer(1, 2**31 - 1),
    400_000,
    "Maximum number of changes that are only in a task's memory. After a kill the restore reads at most so many "
    "changelog records, plus those of one commit. At half of the number a commit starts a flush in the "
    "background. At the full number, if the disk has not kept up, the commit waits for the flush.",
)
FLUSH_INTERVAL_MS = Key(
    "stores.{store}.flush.interval.ms",
    integer(0, 2**53),
    60_000,
    "Maximum age in milliseconds of changes that are only in a task's memory. At half of it a commit starts a "
    "flush in the background. At the full age the commit waits for the flush. 0: every commit waits.",
)
RESTORE_MAX_BYTES = Key(
    "stores.{store}.restore.max.bytes",
    integer(65_536, 2**53),
    402_653_184,
    "Bytes of memory in which a container gathers changelog records before it writes the last record of each key. "
    "The stores that it restores at the same time share this memory.",
)
TTL_MS = Key(
    "stores.{store}.rocksdb.ttl.ms",
    optional(integer()),
    None,
    "Milliseconds from the put of an entry until it expires, in rocksdb, inmemory, bloom, hyperloglog and quantiles; "
    "other views refuse it. Less than 1000 counts as 1000, <= 0 as never. A changelog that the job creates keeps "
    "records for the same time (cleanup.policy=delete).",
)
MAX_VALUE_BYTES = Key(
    "stores.{store}.changelog.max.message.size.bytes",
    integer(1, 2**31 - 1),
    1_048_576,
    "Size in bytes above which a serialized value is large, for disallow.large.messages and drop.large.messages.",
)
DISALLOW_LARGE = Key(
    "stores.{store}.disallow.large.messages",
    BOOLEAN,
    False,
    "Whether a put of a large value raises an error and writes nothing. Overrides drop.large.messages.",
)
DROP_LARGE = Key(
    "stores.{store}.drop.large.messages",
    BOOLEAN,
    False,
    "Whether a put of a large value does nothing. The key keeps its old value, and ignored-large-messages counts "
    "the put. Works with the same engines as rocksdb.ttl.ms.",
)
CACHE_CHECK = Key(
    "stores.{store}.object.cache.check",
    BOOLEAN,
    False,
    "For debugging. A commit fails and names the key if an object from the store was changed without a put.",
)
_OWN_KEYS = collect(globals())
KEYS: tuple[Key[Any], ...] = (
    *_OWN_KEYS,
    *changelogs.KEYS,
    *sources.KEYS,
    *backup.KEYS,
)

_PREFIX, _SUFFIX = "stores.", ".factory"
_PROCESSORS = (".side.inputs.processor", ".restore.inputs.processor")
_RESERVED = "default"
_SHORTEST_TTL_MS = 1_000


def store_names(values: Mapping[str, str]) -> list[str]:
    """The names of a job's stores: with a factory, or with a processor that fills them."""
    found = {k[len(_PREFIX) : -len(_SUFFIX)] for k in values if k.startswith(_PREFIX) and k.endswith(_SUFFIX)}
    for processor in _PROCESSORS:
        found = {name.removesuffix(processor) for name in found}
    return sorted(name for name in found if name)


def parse_stores(
    reader: Reader,
    changelog_system: str | None,
    systems: Collection[str],
    serdes: dict[str, str],
    *,
    undoing: bool = False,
) -> dict[str, StoreConfig]:
    """Read every store, by name. `undoing`: the job undoes failed messages, so stores hand out copies by default."""
    stores: dict[str, StoreConfig] = {}
    owners: dict[SystemStream, str] = {}
    for name in store_names(reader.values):
        key = FACTORY.at(store=name)
        if name == _RESERVED:
            reader.problem(key, f"store name {name!r} is reserved for the defaults of all stores, choose another")
            continue
        if not is_name(name):
            reader.problem(key, f"store {name!r}: expected {NAME_RULE}")
            continue
        changelog = parse_changelog(reader, name, changelog_system, systems)
        store = _store(reader, name, changelog, serdes, "copy" if undoing else "reference")
        if store.changelog is not None:
            owner = owners.setdefault(store.changelog, name)
            if owner != name:
                reader.problem(
                    changelogs.CHANGELOG.at(store=name),
                    f"store {owner!r} has the same changelog; give each its own",
                )
        stores[name] = store
    return stores


def _store(
    reader: Reader, name: str, changelog: SystemStream | None, serdes: dict[str, str], cache_mode: str
) -> StoreConfig:
    for key, kind in ((KEY_SERDE, KEY_TYPE), (MSG_SERDE, MSG_TYPE)):
        where, given = key.at(store=name), reader.get(key, store=name)
        check_serde(reader, serdes, where, given)
        check_type(reader, serdes, kind.at(store=name), reader.get(kind, store=name), where, given)
    if serdes.get(reader.get(KEY_SERDE, store=name) or "") in SCHEMA_SERDES:
        message = "the id of a schema is part of its bytes, so a new schema would hide the entries: take string or json"
        reader.problem(KEY_SERDE.at(store=name), message, reader.get(KEY_SERDE, store=name))
    batch, cache = _sizes(reader, name)
    ttl_ms = _ttl(reader, name)
    properties = _engine_properties(reader, name)
    if changelog is not None and properties.get("rocksdb.compaction.style", "").strip().lower() == "fifo":
        reader.warn(
            f"stores.{name}.rocksdb.compaction.style: fifo drops the oldest entries of a large store, but its changelog "
            "keeps them: a restore brings them back"
        )
    factory = reader.require(FACTORY, "rocksdb", store=name)
    key_serde, msg_serde = _serdes(reader, name, factory)
    return StoreConfig(
        name=name,
        factory=factory,
        key_serde=key_serde,
        msg_serde=msg_serde,
        changelog=changelog,
        write_batch_size=batch,
        object_cache_size=cache,
        object_cache_mode=reader.get(OBJECT_CACHE_MODE, store=name) or cache_mode,
        uncommitted_max_bytes=reader.get(UNCOMMITTED_MAX_BYTES, store=name),
        object_cache_check=reader.get(CACHE_CHECK, store=name),
        changelog_replication_factor=changelogs.parse_copies(reader, name, changelog),
        changelog_delete_retention_ms=reader.get(changelogs.DELETE_RETENTION_MS, store=name),
        changelog_properties=changelogs.parse_topic(reader, name, changelog, ttl_ms),
        ttl_ms=ttl_ms,
        large_values=_large_values(reader, name),
        access_log_percent=changelogs.parse_access_log(reader, name, changelog),
        clean_on_start=reader.get(CLEAN_ON_START, store=name),
        local_files=_local_files(reader, name),
        properties=properties,
        base=_base(reader, name, factory),
        backup=parse_backup(reader, name, logged=changelog is not None),
        key_type=reader.get(KEY_TYPE, store=name),
        msg_type=reader.get(MSG_TYPE, store=name),
    )


def typed_stores(stores: Iterable[StoreConfig]) -> Iterator[tuple[str, str, str]]:
    """Key, serde and class path of each class that the job file names for a store."""
    for store in stores:
        for key, serde, path in (
            (KEY_TYPE, store.key_serde, store.key_type),
            (MSG_TYPE, store.msg_serde, store.msg_type),
        ):
            if path is not None:
                yield key.at(store=store.name), serde, path


def _serdes(reader: Reader, name: str, factory: str) -> tuple[str, str]:
    """The serdes of keys and values; only views may do without."""
    if factory in {"", *BYTE_ENGINES.short.values()}:
        return reader.require(KEY_SERDE, "string", store=name), reader.require(MSG_SERDE, "json", store=name)
    return reader.get(KEY_SERDE, store=name) or "", reader.get(MSG_SERDE, store=name) or ""


def _base(reader: Reader, name: str, factory: str) -> str:
    base = reader.get(BASE, store=name)
    if base is not None and factory in BYTE_ENGINES.short.values():
        reader.problem(BASE.at(store=name), "has no meaning for an engine that is not a view; remove it", base)
    return base or BYTE_ENGINES.short["rocksdb"]


def _sizes(reader: Reader, name: str) -> tuple[int, int | None]:
    batch = reader.get(WRITE_BATCH_SIZE, store=name)
    cache = reader.get(OBJECT_CACHE_SIZE, store=name)
    if cache is not None and 0 < cache < batch:
        reader.problem(
            OBJECT_CACHE_SIZE.at(store=name),
            f"object.cache.size ({cache}) must be >= write.batch.size ({batch}), or 0 for no cache",
        )
    return batch, cache


def _engine_properties(reader: Reader, name: str) -> Masked:
    below = reader.below(f"{_PREFIX}{name}.")
    ours = {key.name.removeprefix("stores.{store}.") for key in KEYS}
    rest = {
        key: value
        for key, value in below.items()
        if key not in ours and not key.startswith(("changelog.", "backup.options."))
    }
    for engine_key in engines.ROCKSDB_KEYS:
        leaf = engine_key.name.removeprefix("stores.{store}.")
        if engine_key.otherwise and leaf not in rest and (wider := reader.get(engine_key, store=name)) is not None:
            rest[leaf] = wider
    for shared in engines.SHARED_KEYS:
        if reader.has(shared):
            rest[shared.name] = str(reader.get(shared))
    return Masked(rest, below.secret)


def _ttl(reader: Reader, store: str) -> int | None:
    """Read the milliseconds after which entries expire, None for never."""
    given = reader.get(TTL_MS, store=store)
    if given is None or given <= 0:
        return None
    if given < _SHORTEST_TTL_MS:
        reader.warn(f"{TTL_MS.at(store=store)}: {given} counts as {_SHORTEST_TTL_MS}, the shortest time to live")
    return max(given, _SHORTEST_TTL_MS)


def _large_values(reader: Reader, store: str) -> LargeValues:
    """Read how the store treats large values."""
    refuse = reader.get(DISALLOW_LARGE, store=store)
    drop = reader.get(DROP_LARGE, store=store)
    limit = reader.get(MAX_VALUE_BYTES, store=store)
    if reader.has(MAX_VALUE_BYTES, store=store) and not (refuse or drop):
        reader.warn(
            f"{MAX_VALUE_BYTES.at(store=store)}: has no effect without disallow.large.messages or drop.large.messages"
        )
    return LargeValues(limit, refuse, drop and not refuse)


def _local_files(reader: Reader, store: str) -> LocalFiles:
    """Read how the store's files keep up with its commits."""
    return LocalFiles(
        reader.get(FLUSH_RECORDS, store=store),
        reader.get(FLUSH_INTERVAL_MS, store=store),
        reader.get(RESTORE_MAX_BYTES, store=store),
    )
