"""What a store does to its values beyond keeping them: let them expire, limit their size, watch them for changes."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.reading.keys import BOOLEAN, Key, collect, integer, optional
from samzapy.config.reading.reader import Reader

_SHORTEST_TTL_MS = 1_000


@dataclass(frozen=True)
class LargeValues:
    """`max_bytes`: a serialized value above it is large. `refuse` makes a put of one raise, `drop` makes it do nothing;
    with neither, only what the changelog topic takes limits a value, when it is serialized."""

    max_bytes: int = 1_048_576
    refuse: bool = False
    drop: bool = False

    @property
    def limited(self) -> bool:
        """Whether puts are measured at all."""
        return self.refuse or self.drop


TTL_MS = Key(
    "stores.{store}.rocksdb.ttl.ms",
    optional(integer()),
    None,
    "Milliseconds after its put at which an entry is gone, in any engine; less than 1000 counts as 1000, <= 0 as never. A "
    "changelog that the job creates keeps records as long (cleanup.policy=delete).",
)
MAX_VALUE_BYTES = Key(
    "stores.{store}.changelog.max.message.size.bytes",
    integer(1, 2**31 - 1),
    1_048_576,
    "Bytes of a serialized value above which it is large, for the next two keys.",
)
DISALLOW_LARGE = Key(
    "stores.{store}.disallow.large.messages",
    BOOLEAN,
    False,
    "Whether a put of a large value raises, and writes nothing; counts before drop.large.messages.",
)
DROP_LARGE = Key(
    "stores.{store}.drop.large.messages",
    BOOLEAN,
    False,
    "Whether a put of a large value is left out: the key keeps the value it had, and ignored-large-messages counts it.",
)
CACHE_CHECK = Key(
    "stores.{store}.object.cache.check",
    BOOLEAN,
    False,
    "For debugging: a commit fails, naming the key, when an object got from or put into the store was changed without a put.",
)
KEYS = collect(globals())


def parse_ttl(reader: Reader, store: str) -> int | None:
    """Milliseconds after which entries are gone, None for never."""
    given = reader.get(TTL_MS, store=store)
    if given is None or given <= 0:
        return None
    if given < _SHORTEST_TTL_MS:
        reader.warn(f"{TTL_MS.at(store=store)}: {given} counts as {_SHORTEST_TTL_MS}, the shortest there is")
    return max(given, _SHORTEST_TTL_MS)


def parse_large_values(reader: Reader, store: str) -> LargeValues:
    """What becomes of large values."""
    refuse = reader.get(DISALLOW_LARGE, store=store)
    drop = reader.get(DROP_LARGE, store=store)
    limit = reader.get(MAX_VALUE_BYTES, store=store)
    if reader.has(MAX_VALUE_BYTES, store=store) and not (refuse or drop):
        reader.warn(
            f"{MAX_VALUE_BYTES.at(store=store)}: has no effect without disallow.large.messages or drop.large.messages"
        )
    return LargeValues(limit, refuse, drop and not refuse)
