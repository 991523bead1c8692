"""The order of a store's layers; the only place that says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from samzapy.api.engine import StorageEngine
from samzapy.api.kv import KeyValueStore
from samzapy.api.serde import Serde
from samzapy.config.stores import StoreConfig
from samzapy.storage.kv.cached import CachedStore
from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.copying import CopyingStore, SerializedValues
from samzapy.storage.kv.direct import DirectStore
from samzapy.storage.kv.scanning import ScanningStore
from samzapy.storage.kv.uncommitted import UncommittedStore


@dataclass(frozen=True)
class StoreStack:
    """`store` is what the task sees, `objects` the layer that holds objects, `uncommitted` the bytes below it."""

    store: KeyValueStore[Any, Any]
    objects: ScanningStore[Any, Any]
    uncommitted: UncommittedStore


def build_stack(
    config: StoreConfig, engine: StorageEngine, key_serde: Serde, msg_serde: Serde, max_record_bytes: int | None = None
) -> StoreStack:
    """Engine -> uncommitted bytes -> objects (cached, or direct) -> copies, if asked for."""
    uncommitted = UncommittedStore(config.name, engine, config.uncommitted_max_bytes, max_record_bytes)
    codec = EntryCodec(config.name, key_serde, msg_serde)
    if config.object_cache_size <= 0:
        direct: ScanningStore[Any, Any] = DirectStore(codec, uncommitted)
        return StoreStack(direct, direct, uncommitted)
    size, batch = config.object_cache_size, config.write_batch_size
    if config.object_cache_mode == "copy":
        below = EntryCodec(config.name, key_serde, SerializedValues())
        held: ScanningStore[Any, Any] = CachedStore(below, uncommitted, size, batch)
        return StoreStack(CopyingStore(held, codec), held, uncommitted)
    cached: ScanningStore[Any, Any] = CachedStore(codec, uncommitted, size, batch)
    return StoreStack(cached, cached, uncommitted)
