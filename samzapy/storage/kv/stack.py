"""Builds the stack of a store; no other module knows the order of its layers.

    what the task sees
      watched          object.cache.check: finds objects changed without a put
      expiring         rocksdb.ttl.ms: hides entries after a time
      serializing      object.cache.mode=copy: objects over bytes; with limits for large values, if there are any
      objects          cached: by the container's memory for caches, or by number; or direct
    uncommitted bytes
    engine

A layer that the job file does not ask for is left out, so it costs nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from samzapy.api.engine import StorageEngine
from samzapy.api.serde import Serde
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.stores import StoreConfig
from samzapy.storage.kv.cached import CachedStore
from samzapy.storage.kv.codec import EntryCodec, Origin
from samzapy.storage.kv.entries import CacheBudget
from samzapy.storage.kv.expiring import STAMP_BYTES, ExpiringStore, Expiry, StampedSerde, unstamped_origin
from samzapy.storage.kv.forwarding import StoreLayer
from samzapy.storage.kv.scanning import DirectStore
from samzapy.storage.kv.uncommitted import UncommittedStore
from samzapy.storage.kv.values import ENVELOPE_BYTES, SerializedValues, SerializingStore, ValueLimit, WatchedStore

Layer = StoreLayer[Any, Any]

#: Objects that `object.cache.check` remembers at least.
_LEAST_WATCHED = 10_000


@dataclass(frozen=True)
class StoreStack:
    """`store` is the layer that the task sees, `uncommitted` the bytes below the objects."""

    store: Layer
    uncommitted: UncommittedStore

    def discard(self) -> None:
        """Go back to the last commit."""
        self.store.discard()
        self.uncommitted.clear()

    def over_budget(self) -> bool:
        """Whether the changes, serialized or not, are over their budget, so that the task should commit."""
        return self.uncommitted.over_budget() or self.store.over_budget()

    def metrics(self) -> dict[str, float]:
        """The metrics of every layer above the engine, by name."""
        return {**self.store.metrics(), **self.uncommitted.metrics()}


def build_stack(
    config: StoreConfig,
    engine: StorageEngine,
    key_serde: Serde,
    msg_serde: Serde,
    max_record_bytes: int | None = None,
    clock: Clock = SYSTEM_CLOCK,
    origin: Origin | None = None,
    budget: CacheBudget | None = None,
) -> StoreStack:
    """The layers that `config` asks for, over `engine`. `max_record_bytes`: the largest record of the changelog;
    `origin`: names the changelog record of an entry that cannot be read; `budget`: the container's memory for caches,
    of its own and 256 MiB if not given."""
    budget = budget or CacheBudget()
    name, expiry = config.name, None if config.ttl_ms is None else Expiry(config.ttl_ms, clock)
    # The codecs of the objects that the task sees, of stamped objects, and of values that are bytes already.
    codec = stamped = EntryCodec(name, key_serde, msg_serde, origin)
    # The changelog record does not contain the stamp of a value.
    overhead = 0
    if expiry is not None:
        stamped = EntryCodec(name, key_serde, StampedSerde(msg_serde), unstamped_origin(origin))
        overhead = STAMP_BYTES
    uncommitted = UncommittedStore(
        name, engine, config.uncommitted_max_bytes, max_record_bytes, overhead=overhead, budget=budget
    )
    limits = config.large_values
    # Without an object cache every get deserializes anyway.
    copies = config.object_cache_mode == "copy" and config.object_cache_size != 0
    below = EntryCodec(name, key_serde, SerializedValues(), origin) if limits.limited or copies else stamped
    store: Layer
    if config.object_cache_size == 0:
        store = DirectStore(below, uncommitted)
    else:
        cap = config.object_cache_size or sys.maxsize
        store = CachedStore(below, uncommitted, budget, config.write_batch_size, cap)
    if limits.limited:
        record_bytes = None if max_record_bytes is None else max(0, max_record_bytes - ENVELOPE_BYTES)
        limit = ValueLimit(limits.max_bytes, record_bytes, limits.drop, overhead)
        store = SerializingStore(store, stamped, limit)
    elif copies:
        store = SerializingStore(store, stamped, None)
    if expiry is not None:
        store = ExpiringStore(store, codec, expiry, engine)
    if config.object_cache_check:
        store = WatchedStore(store, codec, max(config.object_cache_size or 0, _LEAST_WATCHED))
    return StoreStack(store, uncommitted)
