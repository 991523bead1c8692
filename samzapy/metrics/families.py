"""Names each metric for Prometheus and OpenTelemetry: family, type, unit, labels and help text.

A registry stores a number by group and name. `container_metric` and `task_metric` find its family:

1. The groups of the table `_GROUPS` belong to the container: `commit`, `errors`, `process` and so on.
2. A group with the name of a task belongs to that task: `processed.STREAM`, `store.NAME.PROPERTY`,
   `sink.NAME.PROPERTY`.
3. All other numbers come from the user's code: `samzapy_user_GROUP_NAME`. A name that ends with `COUNTED` is a counter,
   any other a gauge or a number of a timer.

A histogram has several numbers: `NAME.le.BOUND` for each bound, `NAME.le.sum` and `NAME.le.count`.

Names follow the conventions of Prometheus: base units (seconds, bytes) in the name, `_total` for counters, `_sum` and
`_count` for summaries, these and `_bucket` for histograms. Label values come from the job file, the job model or a
fixed list, so their number is bounded. Keys, offsets and error texts never become labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from samzapy.metrics.columns import COUNTED

PREFIX = "samzapy_"


class Kind(Enum):
    """The type of a family, as in `# TYPE`. Our summaries have a sum and a count, but no quantiles."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"
    UNTYPED = "untyped"


class Merge(Enum):
    """The way to combine the values of several tasks when a family has too many series."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Family:
    """The series of one name. `name` lacks the prefix and `_total`. A registry's value times `scale` is in base
    units."""

    name: str
    kind: Kind
    help: str
    merge: Merge = Merge.SUM
    scale: float = 1.0


class Named(NamedTuple):
    """The family of a number, its part (`_sum` or `_count` of a summary or histogram, `_bucket` of a histogram, else
    empty), and its labels after the place's labels."""

    family: Family
    part: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def counter(name: str, help_: str, scale: float = 1.0) -> Family:
    """A number that only grows between restarts."""
    return Family(name, Kind.COUNTER, help_, Merge.SUM, scale)


def gauge(name: str, help_: str, merge: Merge = Merge.SUM, scale: float = 1.0) -> Family:
    """A number that goes up and down."""
    return Family(name, Kind.GAUGE, help_, merge, scale)


def summary(name: str, help_: str) -> Family:
    """A sum and a count."""
    return Family(name, Kind.SUMMARY, help_)


def histogram(name: str, help_: str) -> Family:
    """Buckets, a sum and a count."""
    return Family(name, Kind.HISTOGRAM, help_)


#: Between the name of a histogram and the bound of a bucket, `sum` or `count`.
LE = ".le."
#: The part of a family that has the buckets of a histogram, and their label.
BUCKET, BOUND = "_bucket", "le"

_MS = 0.001
_US = 0.000_001


def _sum_and_count(name: str, family: Family, total: str = "total") -> dict[str, Named]:
    return {f"{name}.count": Named(family, "_count"), f"{name}.{total}": Named(family, "_sum")}


def _longest(family: Family) -> Named:
    name = family.name.replace("_seconds", "_max_seconds")
    return Named(gauge(name, f"Longest since the start: {family.help}", Merge.MAX))


def _timer(name: str, family: Family) -> dict[str, Named]:
    return _sum_and_count(name, family, "total-s") | {f"{name}.max-s": _longest(family)}


_COMMIT = histogram("commit_seconds", "Time of whole commits.")
_STEP = histogram("commit_step_seconds", "Time of a commit's steps, by step.")
_PROCESS = histogram(
    "container_process_seconds",
    "Time per message in process, of all tasks of the container; messages that ran together have the mean of their time.",
)
_BATCH = histogram("container_batch_messages", "Messages per batch, of all tasks of the container.")
_RESTORED = histogram("store_restore_seconds", "Time that the restore of a task's store took.")
_ERRORS = counter("errors", "Messages that failed, by stage, and by what the error policy did about them.")
_AHEAD = counter("ahead_messages", "Messages too far ahead of the wall clock to advance event time, by operator.")
_LATE = counter("late_messages", "Messages that arrived after their event time was closed, by operator.")

#: The groups of a container, by name.
_GROUPS: Mapping[str, Mapping[str, Named]] = {
    "commit": {
        "commits": Named(counter("commits", "Commits made.")),
        "commits-skipped": Named(
            counter("commits_skipped", "Commits skipped because messages were in flight for too long.")
        ),
        "commit.max-s": _longest(_COMMIT),
    },
    "promises": {
        "weakened": Named(gauge("weakened_promises", "Reasons why the job's guarantee is weakened.", Merge.MAX))
    },
    "restore": {"seconds": Named(gauge("restore_duration_seconds", "Time that the last restore took.", Merge.MAX))},
    "inputs": {
        "bootstrap-remaining": Named(
            gauge("bootstrap_remaining_messages", "Messages of bootstrap streams left to read.")
        )
    },
    "standby": {"lag": Named(gauge("standby_lag_messages", "Changelog records that a standby still has to read."))},
    "queries": {
        "questions": Named(counter("queries_answered", "Questions about its stores that the container answered.")),
        "entries": Named(counter("query_entries", "Entries in the answers to questions about stores.")),
        **_timer("answer", summary("query_seconds", "Time that the container took to read its answers.")),
    },
    "guarantee": {
        "outside-transaction": Named(counter("outputs_outside_transaction", "Outputs sent outside the transaction.")),
        "offsets-skipped": Named(counter("offsets_skipped", "Offsets after the checkpoint that a start skipped.")),
        "offsets-repeated": Named(counter("offsets_repeated", "Offsets before the checkpoint that a start repeated.")),
        "sink-offsets-missing": Named(
            counter("sink_offsets_missing", "Partitions without an offset in their sink at a start.")
        ),
        "stores-rebuilt": Named(counter("stores_rebuilt", "Local stores that were set aside and rebuilt.")),
    },
    "join": {
        "ahead": Named(_AHEAD, "", (("operator", "join"),)),
        "late": Named(_LATE, "", (("operator", "join"),)),
        "unmatched": Named(counter("join_unmatched", "Messages that matched no row of the joined table.")),
    },
    "deduplication": {"dropped": Named(counter("duplicates_dropped", "Messages dropped as duplicates."))},
    "container": {
        "starts": Named(
            counter(
                "container_starts",
                "Starts in the container's process; each after the first resumes from the last commit.",
            )
        ),
        "resident-bytes": Named(
            gauge("container_resident_memory_bytes", "Resident memory of the container's process.")
        ),
        "cpu-s": Named(counter("container_cpu_seconds", "CPU time of the container's process, user and system.")),
        "threads": Named(gauge("container_threads", "Threads of the container's process.")),
        "open-files": Named(gauge("container_open_descriptors", "Open file descriptors of the container's process.")),
    },
    "metrics": {
        "source-failures": Named(
            counter("metrics_source_failures", "Failed readings of a group of metrics, or of a sink's metrics.")
        )
    },
}

_TASK: Mapping[str, Named] = {
    "sent": Named(counter("messages_sent", "Messages sent to output streams.")),
    **_sum_and_count("process", summary("process_seconds", "Time per message in the task's process."), "total-s"),
    **_sum_and_count("batch", summary("batch_messages", "Messages per batch that a task got.")),
    "clock-ms": Named(gauge("task_clock_timestamp_seconds", "Event time that the task has reached.", Merge.MIN, _MS)),
    "watermark": Named(
        gauge("task_watermark_timestamp_seconds", "Lowest watermark of the upstream stages.", Merge.MIN, _MS)
    ),
    "event-times-ahead": Named(_AHEAD, "", (("operator", "clock"),)),
    "event-clock": Named(gauge("task_timers_timestamp_seconds", "Event time of the task's timers.", Merge.MIN, _MS)),
    "timers-fired": Named(counter("timers_fired", "Timers fired.")),
    "state.written": Named(counter("state_checkpoints", "Checkpoints of the task's own state written.")),
    "state.bytes": Named(gauge("state_checkpoint_bytes", "Size of the last checkpoint of the task's own state.")),
    "state.oldest-ms": Named(
        gauge(
            "state_checkpoint_oldest_timestamp_seconds",
            "Event time of the oldest state checkpoint kept.",
            Merge.MIN,
            _MS,
        )
    ),
    "state.newest-ms": Named(
        gauge(
            "state_checkpoint_newest_timestamp_seconds",
            "Event time of the newest state checkpoint kept.",
            Merge.MIN,
            _MS,
        )
    ),
}

_PROCESSED = counter("messages_processed", "Messages processed, by input stream.")
_WINDOW_TIME = gauge(
    "window_timestamp_seconds", "Event time up to which the store's windows are closed.", Merge.MIN, _MS
)

_STORE: Mapping[str, Family] = {
    "gets": counter("store_gets", "Reads of one key."),
    "hits": counter("store_cache_hits", "Reads served from the object cache."),
    "misses": counter("store_cache_misses", "Reads that missed the object cache."),
    "puts": counter("store_puts", "Writes."),
    "deletes": counter("store_deletes", "Deletions."),
    "scans": counter("store_scans", "Reads of ranges."),
    "flushes": counter("store_flushes", "Flushes of changed objects to bytes."),
    "cached-entries": gauge("store_cache_entries", "Entries in the object cache."),
    "cached-bytes": gauge("store_cache_bytes", "Size of the object cache."),
    "cache-budget-bytes": gauge("store_cache_budget_bytes", "Present size limit of the object cache."),
    "dirty-entries": gauge("store_dirty_entries", "Entries changed and not yet serialized."),
    "uncommitted-entries": gauge("store_uncommitted_entries", "Entries serialized and not yet committed."),
    "uncommitted-bytes": gauge(
        "store_uncommitted_bytes", "Size of the entries serialized and not yet committed, at most."
    ),
    "entries": gauge("store_entries", "Entries of a store in memory."),
    "changelog-offset": gauge("store_changelog_offset", "Offset of the last changelog record written by a commit."),
    "changelog-bytes": counter(
        "store_changelog_written_bytes", "Bytes of keys and values that commits have appended to the changelog."
    ),
    "ignored-large-messages": counter("store_large_values_dropped", "Writes dropped because their value is too large."),
    "access-log-lost": counter("store_access_log_lost", "Records of the access log that were lost."),
    "expired-removed": counter("store_expired", "Expired entries removed."),
    "messages-restored": gauge("store_restored_records", "Changelog records read at the start."),
    "messages-bytes": gauge("store_restored_bytes", "Size of the changelog records read at the start."),
    "snapshots": counter("store_snapshots", "Snapshots uploaded."),
    "snapshot-failures": counter("store_snapshot_failures", "Snapshots that failed."),
    "snapshot-files": counter("store_snapshot_files", "Files uploaded for snapshots."),
    "snapshot-bytes": counter("store_snapshot_bytes", "Bytes uploaded for snapshots."),
    "estimate-num-keys": gauge("store_rocksdb_keys", "Keys of the store, as RocksDB estimates them."),
    "cur-size-active-mem-table": gauge(
        "store_rocksdb_active_memtable_bytes", "Size of the memtable that takes writes."
    ),
    "cur-size-all-mem-tables": gauge(
        "store_rocksdb_unflushed_memtables_bytes", "Size of the memtables not yet on disk."
    ),
    "size-all-mem-tables": gauge("store_rocksdb_memtables_bytes", "Size of all memtables, pinned ones included."),
    "estimate-table-readers-mem": gauge(
        "store_rocksdb_table_readers_bytes", "Memory of indexes and filters, estimated."
    ),
    "total-sst-files-size": gauge("store_disk_bytes", "Size of the store's files on disk."),
    "block-cache-usage": gauge(
        "store_rocksdb_block_cache_bytes", "Memory of the block cache, which stores may share.", Merge.MAX
    ),
}

_SINK: Mapping[str, Family] = {
    "rows": counter("sink_rows", "Rows committed to a sink."),
    "dropped": counter("sink_rows_dropped", "Rows dropped because the table had them."),
}

_WINDOWS: Mapping[str, Family] = {
    "ahead": _AHEAD,
    "late": _LATE,
    "closed": counter("windows_closed", "Windows closed."),
}

_CLIENT = "kafka_client_"
#: Properties of librdkafka's statistics, as `samzapy.system.kafka.statistics` names them.
_KAFKA: Mapping[str, Family] = {
    "requests": counter(f"{_CLIENT}requests", "Requests sent to brokers."),
    "sent-bytes": counter(f"{_CLIENT}sent_bytes", "Bytes sent to brokers."),
    "received-bytes": counter(f"{_CLIENT}received_bytes", "Bytes received from brokers."),
    "messages-sent": counter(f"{_CLIENT}messages_sent", "Messages sent to brokers."),
    "messages-received": counter(f"{_CLIENT}messages_received", "Messages received from brokers."),
    "queued-messages": gauge(f"{_CLIENT}queued_messages", "Messages waiting in the producer."),
    "queued-bytes": gauge(f"{_CLIENT}queued_bytes", "Size of the messages waiting in the producer."),
    "fetched-messages": gauge(f"{_CLIENT}fetched_messages", "Messages fetched and not yet polled."),
    "fetched-bytes": gauge(f"{_CLIENT}fetched_bytes", "Size of the messages fetched and not yet polled."),
    "request-errors": counter(f"{_CLIENT}request_errors", "Requests that failed, when sent or when answered."),
    "request-retries": counter(f"{_CLIENT}request_retries", "Requests that were sent again."),
    "request-timeouts": counter(f"{_CLIENT}request_timeouts", "Requests that timed out."),
    "disconnects": counter(f"{_CLIENT}disconnects", "Connections to brokers that were closed."),
    "brokers-up": gauge(f"{_CLIENT}brokers_up", "Brokers with a connection."),
    "round-trip-p99-us": gauge(
        f"{_CLIENT}round_trip_p99_seconds", "Round-trip time to the slowest broker, 99th percentile.", Merge.MAX, _US
    ),
    "throttle-ms": gauge(
        f"{_CLIENT}throttle_seconds", "Mean throttling by the broker that throttles most.", Merge.MAX, _MS
    ),
}

#: The numbers of a task's stores and sinks, and the help text for numbers of plugins.
_OWNED: Mapping[str, tuple[Mapping[str, Family], str]] = {
    "store": (_STORE, "Property '{}' of the store's engine."),
    "sink": (_SINK, "Number '{}' of the sink."),
}

#: The histograms without labels, by group and name.
_HISTOGRAMS: Mapping[tuple[str, str], Family] = {
    ("commit", "commit"): _COMMIT,
    ("process", "seconds"): _PROCESS,
    ("process", "batch"): _BATCH,
}

_OF_USERS = "user_"
#: The groups that the container itself fills. Operators fill theirs through the interface of the user's code.
OF_CONTAINER = {*_GROUPS, "clients", "errors", "process", "restores"} - {"deduplication", "join"}
#: Begins a group of the user's code that has the name of one of those.
MARK = "user:"
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def sanitized(text: str) -> str:
    """`text` as a part of a metric's name. A letter beyond ASCII becomes its number, so that words of such letters
    differ."""
    numbered = _NOT_ASCII.sub(lambda letter: f"_u{ord(letter[0]):04x}", text)
    return _NOT_A_NAME.sub("_", numbered).strip("_").lower() or "_"


def container_metric(group: str, name: str) -> Named | None:
    """The family of a number in a group of the container; None if another number includes it."""
    known = name.removesuffix(COUNTED)
    if group.startswith(MARK):
        return _of_users(group.removeprefix(MARK), name)
    found = _GROUPS.get(group, {}).get(known)
    if found is not None:
        return found
    base, of_histogram, leaf = known.rpartition(LE)
    if of_histogram:
        return _bucket(_histogram(group, base), leaf)
    if group == "commit" and name.startswith(("commit.", "step.")):
        # The histogram has the same numbers.
        return None
    return _labelled(group, known) or _users(group, name)


def _labelled(group: str, name: str) -> Named | None:
    """The family of a number with labels in its name."""
    if group == "errors":
        stage, _, action = name.partition(".")
        return Named(_ERRORS, "", (("stage", stage), ("action", action)))
    if group == "windows":
        store, _, leaf = name.rpartition(".")
        if leaf in _WINDOWS:
            labels = (("operator", "windows"), ("store", store)) if leaf != "closed" else (("store", store),)
            return Named(_WINDOWS[leaf], "", labels)
    if group == "clients":
        system, _, rest = name.partition("/")
        client, _, leaf = rest.partition("/")
        family = _KAFKA.get(leaf) or Family(f"client_{sanitized(leaf)}", Kind.UNTYPED, f"Number '{leaf}' of a client.")
        return Named(family, "", (("system", system), ("client", client)))
    return None


def task_metric(name: str) -> Named | None:
    """The family of a number in a task's group; None if another number includes it."""
    found = _TASK.get(name.removesuffix(COUNTED))
    if found is not None:
        return found
    if name == "processed":
        # The sum of `processed.STREAM`.
        return None
    kind, _, rest = name.partition(".")
    if kind == "processed":
        return Named(_PROCESSED, "", (("stream", rest),))
    owner, _, leaf = rest.rpartition(".")
    if owner and kind in _OWNED:
        table, unknown = _OWNED[kind]
        family = table.get(leaf) or Family(f"{kind}_{sanitized(leaf)}", Kind.UNTYPED, unknown.format(leaf))
        return Named(family, "", ((kind, owner),))
    store, _, leaf = name.rpartition(".")
    return Named(_WINDOW_TIME, "", (("store", store),)) if leaf == "event-time-ms" else _of_users("task", name)


def known_families() -> Iterable[Family]:
    """All families with a fixed name."""
    named = [*_TASK.values(), *(each for group in _GROUPS.values() for each in group.values())]
    fixed = [*_HISTOGRAMS.values(), _STEP, _RESTORED, _ERRORS, _AHEAD, _LATE, _PROCESSED, _WINDOW_TIME]
    tables = (_STORE, _SINK, _WINDOWS, _KAFKA)
    return dict.fromkeys([*(each.family for each in named), *fixed, *(f for table in tables for f in table.values())])


def is_of_users(family: Family) -> bool:
    """Whether the name comes from the job's own code, or from a plugin."""
    return family.kind is Kind.UNTYPED or family.name.startswith(_OF_USERS)


def _histogram(group: str, name: str) -> Named:
    """The family and labels of a histogram."""
    if group == "restores":
        return Named(_RESTORED, "", (("store", name),))
    if group == "commit" and name.startswith("step."):
        return Named(_STEP, "", (("step", name.removeprefix("step.")),))
    found = _HISTOGRAMS.get((group, name))
    return _users(group, name, Kind.HISTOGRAM) if found is None else Named(found)


def _bucket(of: Named, leaf: str) -> Named:
    if leaf in {"sum", "count"}:
        return Named(of.family, f"_{leaf}", of.labels)
    return Named(of.family, BUCKET, (*of.labels, (BOUND, leaf)))


def _of_users(group: str, name: str) -> Named:
    base, of_histogram, leaf = name.rpartition(LE)
    return _bucket(_users(group, base, Kind.HISTOGRAM), leaf) if of_histogram else _users(group, name)


def _users(group: str, name: str, kind: Kind = Kind.GAUGE) -> Named:
    known = name.removesuffix(COUNTED)
    made = f"{_OF_USERS}{sanitized(group)}_{sanitized(known)}"
    if known != name:
        # Prometheus ends the name of a counter with `_total`.
        kind, made = Kind.COUNTER, made.removesuffix("_total")
    return Named(Family(made, kind, f"A metric of the job's own code: {group}.{known}."))
