"""The order of a store's layers; the only place that says it.

    what the task sees
      watched          object.cache.check: objects changed without a put
      access log       accesslog.enabled: calls, told
      expiring         rocksdb.ttl.ms: entries that are gone
      copies           object.cache.mode=copy, or large values: objects over bytes; measured, if large ones are limited
      objects          cached, or direct
    uncommitted bytes
    engine

Whatever is not asked for is not there, so it costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from samzapy.api.engine import StorageEngine
from samzapy.api.kv import KeyValueStore
from samzapy.api.serde import Serde
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.stores import StoreConfig
from samzapy.storage.kv.access_logged import AccessLog, AccessLoggedStore
from samzapy.storage.kv.cached import CachedStore
from samzapy.storage.kv.codec import EntryCodec, Origin
from samzapy.storage.kv.copying import CopyingStore, SerializedValues
from samzapy.storage.kv.direct import DirectStore
from samzapy.storage.kv.expiring import STAMP_BYTES, ExpiringStore, Expiry, ExpirySweep, StampedSerde, unstamped_origin
from samzapy.storage.kv.large_messages import MeasuredStore, ValueLimit
from samzapy.storage.kv.scanning import ScanningStore
from samzapy.storage.kv.uncommitted import UncommittedStore
from samzapy.storage.kv.watched import WatchedStore

Store = KeyValueStore[Any, Any]


@dataclass(frozen=True)
class StoreStack:
    """`store` is what the task sees, `objects` the layer that holds objects, `uncommitted` the bytes below it; the rest
    is there if it was asked for."""

    store: Store
    objects: ScanningStore[Any, Any]
    uncommitted: UncommittedStore
    sweep: ExpirySweep | None = None
    access_log: AccessLog | None = None
    measured: MeasuredStore[Any, Any] | None = None
    watched: WatchedStore[Any, Any] | None = None

    def discard(self) -> None:
        """Go back to the last commit."""
        self.objects.discard()
        self.uncommitted.clear()
        if self.watched is not None:
            self.watched.forget()
        if self.access_log is not None:
            self.access_log.forget()

    def metrics(self) -> dict[str, float]:
        """Of every layer above the engine, by name."""
        found = {**self.objects.metrics(), **self.uncommitted.metrics()}
        if self.measured is not None:
            found |= self.measured.metrics()
        if self.access_log is not None:
            found |= self.access_log.metrics()
        if self.sweep is not None:
            found["expired-removed"] = self.sweep.swept
        return found


def build_stack(
    config: StoreConfig,
    engine: StorageEngine,
    key_serde: Serde,
    msg_serde: Serde,
    max_record_bytes: int | None = None,
    clock: Clock = SYSTEM_CLOCK,
    origin: Origin | None = None,
) -> StoreStack:
    """The layers that `config` asks for, over `engine`. `max_record_bytes`: what the changelog takes; `origin`: names
    the changelog record of an entry that cannot be read."""
    expiry = None if config.ttl_ms is None else Expiry(config.ttl_ms, clock)
    # The stamp of a value is not part of its changelog record.
    overhead = 0 if expiry is None else STAMP_BYTES
    uncommitted = UncommittedStore(config.name, engine, config.uncommitted_max_bytes, max_record_bytes, overhead)
    codec = below = EntryCodec(config.name, key_serde, msg_serde, origin)
    if expiry is not None:
        below = EntryCodec(config.name, key_serde, StampedSerde(msg_serde), unstamped_origin(origin))
    measured: MeasuredStore[Any, Any] | None = None
    if config.large_values.limited:
        limits = config.large_values
        limit = ValueLimit(limits.max_bytes, max_record_bytes, limits.drop, overhead)
        objects = _objects(config, EntryCodec(config.name, key_serde, SerializedValues(), origin), uncommitted)
        measured = MeasuredStore(objects, below, limit)
        store: Store = measured
    elif config.object_cache_mode == "copy" and config.object_cache_size > 0:
        objects = _objects(config, EntryCodec(config.name, key_serde, SerializedValues(), origin), uncommitted)
        store = CopyingStore(objects, below)
    else:
        store = objects = _objects(config, below, uncommitted)
    if expiry is not None:
        store = ExpiringStore(store, codec, expiry)
    log = None if config.access_log_percent is None else AccessLog(config.access_log_percent, clock)
    if log is not None:
        store = AccessLoggedStore(store, codec, log)
    watched = WatchedStore(store, codec, max(config.object_cache_size, 1_000)) if config.object_cache_check else None
    sweep = None if expiry is None else ExpirySweep(engine, expiry)
    return StoreStack(watched or store, objects, uncommitted, sweep, log, measured, watched)


def _objects(config: StoreConfig, codec: EntryCodec, uncommitted: UncommittedStore) -> ScanningStore[Any, Any]:
    if config.object_cache_size <= 0:
        return DirectStore(codec, uncommitted)
    return CachedStore(codec, uncommitted, config.object_cache_size, config.write_batch_size)
