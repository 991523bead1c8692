"""`stores.*`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from samzapy.api.stream import SystemStream
from samzapy.config.classes import BYTE_ENGINES, ENGINES
from samzapy.config.keys import Key, collect
from samzapy.config.kinds import NAME_RULE, TEXT, choice, integer, is_name, optional
from samzapy.config.reader import Reader
from samzapy.config.secrets import Masked
from samzapy.config.serializers import check_serde
from samzapy.config.streams import check_system


@dataclass(frozen=True)
class StoreConfig:
    """One store. `properties` are the keys below `stores.NAME.` that its engine reads (`rocksdb.*`, `container.*`).

    `write_batch_size`: dirty objects that gather before they are serialized in one go; also the restore batch.
    `object_cache_size`: objects in the cache, 0 for none (and then no batching). `uncommitted_max_bytes`: serialized
    changes of one task that make it commit early. `object_cache_mode`: reference or copy. `changelog_properties` are
    topic keys (`max.message.bytes`, ...). `base` is the engine below one with a query interface of its own; the serdes
    are empty where the job file leaves them to such an engine.
    """

    name: str
    factory: str
    key_serde: str
    msg_serde: str
    changelog: SystemStream | None = None
    write_batch_size: int = 500
    object_cache_size: int = 1_000
    object_cache_mode: str = "reference"
    uncommitted_max_bytes: int = 67_108_864
    changelog_replication_factor: int | None = None
    changelog_delete_retention_ms: int = 86_400_000
    changelog_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    base: str = ""


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
    "The engine that keeps the entries of a heap, an index, ...: rocksdb, inmemory or a StorageEngineFactory class.",
    "rocksdb",
)
_SERDE_NOTE = "required by rocksdb and inmemory; other engines have their own encoding"
KEY_SERDE = Key("stores.{store}.key.serde", TEXT, None, "The serde of keys.", _SERDE_NOTE)
MSG_SERDE = Key("stores.{store}.msg.serde", TEXT, None, "The serde of values.", _SERDE_NOTE)
CHANGELOG = Key(
    "stores.{store}.changelog",
    TEXT,
    None,
    "The stream that keeps the store's changes: `system.stream`, or a bare stream on job.changelog.system. Without one "
    "the store is empty at each start.",
)
WRITE_BATCH_SIZE = Key(
    "stores.{store}.write.batch.size",
    integer(1, 2**31 - 1),
    500,
    "Changed objects that gather in the cache before they are serialized in one go.",
)
OBJECT_CACHE_SIZE = Key(
    "stores.{store}.object.cache.size",
    optional(integer(0, 2**31 - 1)),
    None,
    "Deserialized objects kept in memory, at least write.batch.size; 0: no cache and no batching.",
    "1000, or write.batch.size if that is larger",
)
OBJECT_CACHE_MODE = Key(
    "stores.{store}.object.cache.mode",
    choice("reference", "copy"),
    "reference",
    "Whether `get` gives the cached object itself or a copy; an object changed without a `put` is not saved.",
)
UNCOMMITTED_MAX_BYTES = Key(
    "stores.{store}.uncommitted.max.bytes",
    integer(1),
    67_108_864,
    "Bytes of serialized changes, in one task, that make it commit early.",
)
CHANGELOG_REPLICATION_FACTOR = Key(
    "stores.{store}.changelog.replication.factor",
    optional(integer(1, 32_767)),
    None,
    "Copies of the changelog.",
    "the system's",
    ("stores.default.changelog.replication.factor",),
)
CHANGELOG_DELETE_RETENTION_MS = Key(
    "stores.{store}.changelog.delete.retention.ms",
    integer(0),
    86_400_000,
    "Milliseconds the changelog keeps a deletion; a local store older than that is rebuilt.",
)
CHANGELOG_MIN_COMPACTION_LAG_MS = Key(
    "stores.{store}.changelog.min.compaction.lag.ms",
    optional(integer(0)),
    None,
    "Milliseconds before the changelog may compact a record.",
    "the system's",
    ("stores.default.changelog.min.compaction.lag.ms",),
)
CHANGELOG_MAX_MESSAGE_BYTES = Key(
    "stores.{store}.changelog.max.message.bytes",
    optional(integer(1, 2**31 - 1)),
    None,
    "Largest record of the changelog.",
    "the system's",
)
CHANGELOG_PROPERTIES = Key(
    "stores.{store}.changelog.kafka.*", TEXT, None, "Further topic keys for the changelog's creation."
)
KEYS = collect(globals())

_PREFIX, _SUFFIX, _SIDE_INPUTS = "stores.", ".factory", ".side.inputs.processor"
_RESERVED = "default"


def store_names(values: Mapping[str, str]) -> list[str]:
    """The stores of a job: those that have a factory."""
    found = (k[len(_PREFIX) : -len(_SUFFIX)] for k in values if k.startswith(_PREFIX) and k.endswith(_SUFFIX))
    return sorted(name for name in found if name and not name.endswith(_SIDE_INPUTS))


def parse_stores(
    reader: Reader, changelog_system: str | None, systems: Collection[str], serdes: dict[str, str]
) -> dict[str, StoreConfig]:
    """Every store, by name."""
    stores: dict[str, StoreConfig] = {}
    owners: dict[SystemStream, str] = {}
    for name in store_names(reader.values):
        key = FACTORY.at(store=name)
        if name == _RESERVED:
            reader.problem(key, f"store name {name!r} is reserved for the defaults of all stores")
            continue
        if not is_name(name):
            reader.problem(key, f"store {name!r}: {NAME_RULE}")
            continue
        store = _store(reader, name, _changelog(reader, name, changelog_system, systems), serdes)
        if store.changelog is not None:
            owner = owners.setdefault(store.changelog, name)
            if owner != name:
                reader.problem(
                    CHANGELOG.at(store=name), f"is the changelog of store {owner!r} already; each needs its own"
                )
        stores[name] = store
    return stores


def _changelog(
    reader: Reader, name: str, changelog_system: str | None, systems: Collection[str]
) -> SystemStream | None:
    text = reader.get(CHANGELOG, store=name)
    if text is None:
        return None
    key = CHANGELOG.at(store=name)
    try:
        stream = SystemStream.parse(text, changelog_system)
    except ValueError:
        reader.problem(key, "expected system.stream, or set job.changelog.system or job.default.system", text)
        return None
    check_system(reader, key, stream.system, systems)
    return stream


def _store(reader: Reader, name: str, changelog: SystemStream | None, serdes: dict[str, str]) -> StoreConfig:
    for key in (KEY_SERDE, MSG_SERDE):
        check_serde(reader, serdes, key.at(store=name), reader.get(key, store=name))
    batch, cache = _sizes(reader, name)
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
        object_cache_mode=reader.get(OBJECT_CACHE_MODE, store=name),
        uncommitted_max_bytes=reader.get(UNCOMMITTED_MAX_BYTES, store=name),
        changelog_replication_factor=reader.get(CHANGELOG_REPLICATION_FACTOR, store=name),
        changelog_delete_retention_ms=reader.get(CHANGELOG_DELETE_RETENTION_MS, store=name),
        changelog_properties=_changelog_properties(reader, name),
        properties=_engine_properties(reader, name),
        base=_base(reader, name, factory),
    )


def _serdes(reader: Reader, name: str, factory: str) -> tuple[str, str]:
    """The serdes of keys and values; other engines than those of bytes may do without."""
    if factory in {"", *BYTE_ENGINES.short.values()}:
        return reader.require(KEY_SERDE, "string", store=name), reader.require(MSG_SERDE, "json", store=name)
    return reader.get(KEY_SERDE, store=name) or "", reader.get(MSG_SERDE, store=name) or ""


def _base(reader: Reader, name: str, factory: str) -> str:
    base = reader.get(BASE, store=name)
    if base is not None and factory in BYTE_ENGINES.short.values():
        reader.problem(BASE.at(store=name), "is for engines with a query interface of their own; leave it out", base)
    return base or BYTE_ENGINES.short["rocksdb"]


def _sizes(reader: Reader, name: str) -> tuple[int, int]:
    batch = reader.get(WRITE_BATCH_SIZE, store=name)
    given = reader.get(OBJECT_CACHE_SIZE, store=name)
    cache = max(batch, 1_000) if given is None else given
    if 0 < cache < batch:
        reader.problem(
            OBJECT_CACHE_SIZE.at(store=name),
            f"object.cache.size ({cache}) must be >= write.batch.size ({batch}), or 0 for no cache",
        )
    return batch, cache


def _changelog_properties(reader: Reader, name: str) -> Masked:
    prefix = f"{_PREFIX}{name}.changelog.kafka."
    found = reader.below(prefix)
    for leaf, instead in (
        ("min.compaction.lag.ms", CHANGELOG_MIN_COMPACTION_LAG_MS),
        ("delete.retention.ms", CHANGELOG_DELETE_RETENTION_MS),
    ):
        if leaf in found:
            reader.problem(prefix + leaf, f"say {instead.at(store=name)} instead")
    if found.get("cleanup.policy", "compact") != "compact":
        reader.problem(
            f"{prefix}cleanup.policy", "a changelog must be compact: state would be lost", found["cleanup.policy"]
        )
    for leaf, key in (
        ("max.message.bytes", CHANGELOG_MAX_MESSAGE_BYTES),
        ("min.compaction.lag.ms", CHANGELOG_MIN_COMPACTION_LAG_MS),
    ):
        value = reader.get(key, store=name)
        if value is not None:
            found[leaf] = str(value)
    return found


def _engine_properties(reader: Reader, name: str) -> Masked:
    below = reader.below(f"{_PREFIX}{name}.")
    ours = {key.name.removeprefix("stores.{store}.") for key in KEYS}
    rest = {key: value for key, value in below.items() if key not in ours and not key.startswith("changelog.")}
    return Masked(rest, below.secret)
