"""`rocksdb.ttl.ms`: hides entries a fixed time after their put, and removes them.

The time of the put, 8 bytes of milliseconds since 1970 (big-endian, signed), stands before the value wherever the store
keeps it: in the object cache as a pair, in the uncommitted bytes, in the engine. So every read knows it at once, and
engines need no support. In the changelog it is the time stamp of the record, and the value has only the user's bytes:

1. JVM Samza and samzapy can read each other's changelogs.
2. A restart does not change the lifetime of an entry.
3. The topic's retention drops exactly the expired records.

Samza leaves this to RocksDB's TtlDB, which appends seconds, still shows an expired entry until a compaction drops it,
restarts the lifetime at each restore, and would drop our marker, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import Any

from samzapy.api.engine import StorageEngine
from samzapy.api.kv import K, V
from samzapy.api.serde import HintedSerde, Serde, hinted
from samzapy.clock import Clock
from samzapy.storage.kv.codec import EntryCodec, Origin, entry_list
from samzapy.storage.kv.forwarding import MappingStore, StoreLayer

_STAMP = Struct(">q")
STAMP_BYTES = _STAMP.size
#: Entries that one sweep looks at when next to nothing was written.
_LEAST_SWEPT = 1_000


def put_time(data: bytes) -> int:
    """The time of the put of the stamped value `data`."""
    return int(_STAMP.unpack_from(data)[0])


def stamped(time_ms: int, data: bytes) -> bytes:
    """A value with the time of its put."""
    return _STAMP.pack(time_ms) + data


def unstamped(data: bytes) -> bytes:
    """The user's bytes of a stamped value."""
    return data[STAMP_BYTES:]


def unstamped_origin(origin: Origin | None) -> Origin | None:
    """`origin` for stamped values, since a changelog holds the user's bytes."""
    return None if origin is None else lambda key, value: origin(key, None if value is None else unstamped(value))


class StampedSerde(HintedSerde):
    """(time of the put, value) pairs over the serde of the values."""

    def __init__(self, values: Serde) -> None:
        self._values = hinted(values)
        self.doubt = self._values.doubt
        self.object_type = values.object_type
        self.rounds = getattr(values, "rounds", False)

    def check(self, value: tuple[int, Any]) -> None:
        self._values.check(value[1])

    def to_bytes(self, value: tuple[int, Any]) -> bytes:
        return _STAMP.pack(value[0]) + self._values.to_bytes(value[1])

    def from_bytes(self, data: bytes) -> tuple[int, Any]:
        return _STAMP.unpack_from(data)[0], self._values.from_bytes(data[STAMP_BYTES:])

    def refusal(self, value: tuple[int, Any], cause: Exception) -> str:
        return self._values.refusal(value[1], cause)

    def misfit(self, cause: Exception) -> str:
        return self._values.misfit(cause)


@dataclass(frozen=True)
class Expiry:
    """The lifetime of entries, in milliseconds."""

    ttl_ms: int
    clock: Clock

    def horizon(self) -> int:
        """Entries with a put at this time or before have expired."""
        return self.clock.wall_ms() - self.ttl_ms

    def restored(self, values: Sequence[bytes | None], timestamps: Sequence[int]) -> list[bytes | None]:
        """A changelog's values as the engine keeps them, None for expired ones. A record without a time counts as put
        now."""
        now = self.clock.wall_ms()
        horizon, pack = now - self.ttl_ms, _STAMP.pack
        return [
            None if value is None or 0 <= time <= horizon else pack(time if time >= 0 else now) + value
            for value, time in zip(values, timestamps, strict=True)
        ]


class ExpiringStore(MappingStore[K, V]):
    """Shows the entries that are alive at the time of the call, of a store that holds (time of the put, value). Entries
    of a snapshot that expire later vanish from it, too.

    `sweep` finds expired entries in the engine, a few at a time, in an endless round, so that their space is freed. It
    checks twice as many entries as were written meanwhile, so it keeps up with any rate of writing.
    """

    def __init__(
        self, inner: StoreLayer[K, tuple[int, V]], codec: EntryCodec, expiry: Expiry, engine: StorageEngine
    ) -> None:
        """`codec` checks keys and values; a layer below converts them to bytes. `engine` holds the committed
        entries."""
        super().__init__(inner)
        self._codec = codec
        self._clock = expiry.clock.wall_ms
        self._ttl_ms = expiry.ttl_ms
        self._expiry = expiry
        self._engine = engine
        #: Where the next sweep begins, None at the start of the engine.
        self._position: bytes | None = None
        self._swept = 0

    def _value(self, key: K, held: tuple[int, V]) -> V | None:
        return None if held[0] + self._ttl_ms <= self._clock() else held[1]

    def put(self, key: K, value: V) -> None:
        if value is None:
            self._codec.check_value(key, value)
        self._inner.put(key, (self._clock(), value))

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        pairs = entry_list(self._codec.store, entries)
        for key, value in pairs:
            self._codec.check_value(key, value)
        now = self._clock()
        self._inner.put_all([(key, (now, value)) for key, value in pairs])

    @property
    def undone(self) -> StoreLayer[K, Any]:
        """The layer below, which has the times of the puts: an undone change must not begin a new lifetime."""
        return self._inner.undone

    def sweep(self, written: int) -> dict[bytes, None]:
        horizon, most = self._expiry.horizon(), max(_LEAST_SWEPT, 2 * written)
        with self._engine.iterate(self._position, None) as pairs:
            seen = [(key, put_time(data)) for key, data in islice(pairs, most)]
        self._position = seen[-1][0] + b"\x00" if len(seen) == most else None
        expired: dict[bytes, None] = {key: None for key, time in seen if time <= horizon}
        self._swept += len(expired)
        return expired

    def metrics(self) -> dict[str, float]:
        """The metrics of the layers below, and `expired-removed`: swept entries."""
        return {**self._inner.metrics(), "expired-removed": self._swept}
