"""`stores.NAME.changelog*` and `stores.NAME.accesslog.*`: the stream of a store's changes, and its access log."""

from __future__ import annotations

from collections.abc import Collection

from samzapy.api.stream import SystemStream
from samzapy.config.reading.keys import BOOLEAN, TEXT, Key, collect, integer, optional
from samzapy.config.reading.reader import Reader
from samzapy.config.reading.secrets import Masked
from samzapy.config.streams.stream import check_system

CHANGELOG = Key(
    "stores.{store}.changelog",
    TEXT,
    None,
    "The stream of the store's changes: `system.stream`, or a bare stream on job.changelog.system. Without a "
    "changelog the store is empty at each start, unless side.inputs or restore.inputs fill it.",
)
REPLICATION_FACTOR = Key(
    "stores.{store}.changelog.replication.factor",
    optional(integer(1, 32_767)),
    None,
    "Copies of the changelog.",
    "the system's",
    ("stores.default.changelog.replication.factor", "systems.{system}.default.stream.replication.factor"),
)
DELETE_RETENTION_MS = Key(
    "stores.{store}.changelog.delete.retention.ms",
    integer(0),
    86_400_000,
    "Milliseconds for which the changelog keeps a deletion. A start rebuilds an older local store.",
)
MIN_COMPACTION_LAG_MS = Key(
    "stores.{store}.changelog.min.compaction.lag.ms",
    optional(integer(0)),
    None,
    "Milliseconds before the changelog may compact a record.",
    "the system's",
    ("stores.default.changelog.min.compaction.lag.ms",),
)
MAX_MESSAGE_BYTES = Key(
    "stores.{store}.changelog.max.message.bytes",
    optional(integer(1, 2**31 - 1)),
    None,
    "Largest record of the changelog.",
    "1000012",
    ("systems.{system}.default.stream.max.message.bytes",),
)
PROPERTIES = Key(
    "stores.{store}.changelog.kafka.*", TEXT, None, "Further topic settings for the creation of the changelog."
)
_ACCESS_LOG_SUFFIX = "-access-log"

ACCESS_LOG_ENABLED = Key(
    "stores.{store}.accesslog.enabled",
    BOOLEAN,
    False,
    "Whether to log calls of the store, except all and prefix, to the stream CHANGELOG-access-log, each with its "
    "operation, keys and duration. Needs a changelog.",
)
ACCESS_LOG_RATIO = Key(
    "stores.{store}.accesslog.sampling.ratio",
    integer(0, 100),
    50,
    "Percentage of the calls to log.",
)
KEYS = collect(globals())


def parse_changelog(
    reader: Reader, store: str, default_system: str | None, systems: Collection[str]
) -> SystemStream | None:
    """Read the changelog of a store, None for none."""
    text = reader.get(CHANGELOG, store=store)
    if text is None:
        return None
    key = CHANGELOG.at(store=store)
    try:
        stream = SystemStream.parse(text, default_system)
    except ValueError:
        reader.problem(key, "expected system.stream, or set job.changelog.system or job.default.system", text)
        return None
    check_system(reader, key, stream.system, systems)
    return stream


def parse_copies(reader: Reader, store: str, changelog: SystemStream | None) -> int | None:
    """Read the number of copies of the changelog, None for the system's."""
    return reader.get(REPLICATION_FACTOR, **_names(store, changelog))


def parse_topic(reader: Reader, store: str, changelog: SystemStream | None, ttl_ms: int | None) -> Masked:
    """Read the topic keys of the changelog; with a time to live, add the keys that expire its records with the entries.

    Of the defaults of its system it takes only the largest record, as in Samza: others may be wrong for state.
    """
    prefix = f"stores.{store}.changelog.kafka."
    found = reader.below(prefix)
    for leaf, instead in (
        ("min.compaction.lag.ms", MIN_COMPACTION_LAG_MS),
        ("delete.retention.ms", DELETE_RETENTION_MS),
    ):
        if leaf in found:
            reader.problem(prefix + leaf, f"use {instead.at(store=store)} instead")
    _check_policy(reader, prefix, found, ttl_ms)
    for leaf, key in (("max.message.bytes", MAX_MESSAGE_BYTES), ("min.compaction.lag.ms", MIN_COMPACTION_LAG_MS)):
        value = reader.get(key, **_names(store, changelog))
        if value is not None:
            found[leaf] = str(value)
    if ttl_ms is not None:
        found.setdefault("cleanup.policy", "delete")
        if "delete" in found["cleanup.policy"]:
            found.setdefault("retention.ms", str(ttl_ms))
    return found


def _names(store: str, changelog: SystemStream | None) -> dict[str, str]:
    return {"store": store} if changelog is None else {"store": store, "system": changelog.system}


def _check_policy(reader: Reader, prefix: str, topic: Masked, ttl_ms: int | None) -> None:
    policy = topic.get("cleanup.policy", "compact")
    key = f"{prefix}cleanup.policy"
    if ttl_ms is None:
        if policy != "compact":
            reader.problem(key, "expected compact, or the changelog would lose state", policy)
        return
    words = {word.strip() for word in policy.split(",")}
    if not words or not words <= {"compact", "delete"}:
        reader.problem(key, "expected compact, delete, or compact,delete", policy)
    retention = topic.get("retention.ms", "")
    if retention.isdecimal() and int(retention) < ttl_ms:
        reader.problem(
            f"{prefix}retention.ms",
            f"must be >= rocksdb.ttl.ms ({ttl_ms}), or the changelog would lose state",
            retention,
        )


def parse_access_log(reader: Reader, store: str, changelog: SystemStream | None) -> int | None:
    """Read the percentage of the calls to log, None for no access log."""
    ratio = reader.get(ACCESS_LOG_RATIO, store=store)
    if not reader.get(ACCESS_LOG_ENABLED, store=store):
        return None
    if changelog is None:
        reader.warn(f"{ACCESS_LOG_ENABLED.at(store=store)}: has no effect without stores.{store}.changelog")
        return None
    return ratio


def access_log_stream(changelog: SystemStream) -> SystemStream:
    """The stream of the access log beside a changelog."""
    return SystemStream(changelog.system, f"{changelog.stream}{_ACCESS_LOG_SUFFIX}")
