"""Keys for the values of a store: time to live, largest size, and the check for unsaved changes."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.reading.keys import BOOLEAN, Key, collect, integer, optional
from samzapy.config.reading.reader import Reader

_SHORTEST_TTL_MS = 1_000


@dataclass(frozen=True)
class LargeValues:
    """A serialized value above `max_bytes` is large. `refuse`: a put of one raises. `drop`: a put of one does nothing. With
    neither, only the changelog's own limit applies, when the value is serialized."""

    max_bytes: int = 1_048_576
    refuse: bool = False
    drop: bool = False

    @property
    def limited(self) -> bool:
        """Whether puts measure their values."""
        return self.refuse or self.drop


TTL_MS = Key(
    "stores.{store}.rocksdb.ttl.ms",
    optional(integer()),
    None,
    "Milliseconds from its put until an entry expires, in any engine; less than 1000 counts as 1000, <= 0 as never. A "
    "changelog that the job creates keeps records equally long (cleanup.policy=delete).",
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
    "Whether a put of a large value raises an error and writes nothing; overrides drop.large.messages.",
)
DROP_LARGE = Key(
    "stores.{store}.drop.large.messages",
    BOOLEAN,
    False,
    "Whether a put of a large value does nothing: the key keeps its old value, and ignored-large-messages counts the put.",
)
CACHE_CHECK = Key(
    "stores.{store}.object.cache.check",
    BOOLEAN,
    False,
    "For debugging: a commit fails and names the key if an object from the store was changed without a put.",
)
KEYS = collect(globals())


def parse_ttl(reader: Reader, store: str) -> int | None:
    """Read the milliseconds after which entries expire, None for never."""
    given = reader.get(TTL_MS, store=store)
    if given is None or given <= 0:
        return None
    if given < _SHORTEST_TTL_MS:
        reader.warn(f"{TTL_MS.at(store=store)}: {given} counts as {_SHORTEST_TTL_MS}, the shortest time to live")
    return max(given, _SHORTEST_TTL_MS)


def parse_large_values(reader: Reader, store: str) -> LargeValues:
    """Read how the store treats large values."""
    refuse = reader.get(DISALLOW_LARGE, store=store)
    drop = reader.get(DROP_LARGE, store=store)
    limit = reader.get(MAX_VALUE_BYTES, store=store)
    if reader.has(MAX_VALUE_BYTES, store=store) and not (refuse or drop):
        reader.warn(
            f"{MAX_VALUE_BYTES.at(store=store)}: has no effect without disallow.large.messages or drop.large.messages"
        )
    return LargeValues(limit, refuse, drop and not refuse)
