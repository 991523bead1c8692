"""`stores.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.api.stream import SystemStream


@dataclass(frozen=True)
class StoreConfig:
    """One store. `properties` are the keys below `stores.NAME.` that its engine reads (`rocksdb.*`, `container.*`).

    `write_batch_size`: dirty objects that gather before they are serialized in one go; also the restore batch.
    `object_cache_size`: objects in the cache, 0 for none (and then no batching). `uncommitted_max_bytes`: serialized
    changes of one task that make it commit early. `object_cache_mode`: reference or copy.
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
