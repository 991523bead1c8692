"""Names each metric for Prometheus and OpenTelemetry: family, type, unit, labels and help text.

A registry stores a number by group and name. `container_metric` and `task_metric` find its family:

1. The groups of the table `_GROUPS` belong to the container: `commit`, `errors`, `process` and so on.
2. A group with the name of a task belongs to that task: `processed.STREAM`, `store.NAME.PROPERTY`,
   `sink.NAME.PROPERTY`.
3. All other numbers come from the user's code: `samzapy_user_GROUP_NAME`.

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
from typing import Any, NamedTuple

PREFIX = "samzapy_"


class Kind(Enum):
    """The type of a family, as in `# TYPE`. Our summaries have a sum and a count, but no quantiles."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"
    UNTYPED = "unknown"


@dataclass(frozen=True)
class Family:
    """The series of one name. `name` lacks the prefix and `_total`. A registry's value times `scale` is in base
    units."""

    name: str
    kind: Kind
    help: str
    scale: float = 1.0

    @property
    def sample_names(self) -> tuple[str, ...]:
        full = PREFIX + self.name
        return tuple([full + part for part in _PARTS.get(self.kind, ("",))])


class Named(NamedTuple):
    """The family of a number, its part (`_sum` or `_count` of a summary or histogram, `_bucket` of a histogram, else
    empty), and its labels after those of its place."""

    family: Family
    part: str = ""
    labels: tuple[tuple[str, str], ...] = ()


#: Between the name of a histogram and the bound of a bucket, `sum` or `count`.
LE = ".le."
#: The part of a family that has the buckets of a histogram, and their label.
BUCKET, BOUND = "_bucket", "le"
_PARTS = {Kind.COUNTER: ("_total",), Kind.SUMMARY: ("_sum", "_count"), Kind.HISTOGRAM: (BUCKET, "_sum", "_count")}
_MS, _US = 0.001, 0.000_001


def counter(name: str, help_: str) -> Family:
    """A number that only grows between restarts."""
    return Family(name, Kind.COUNTER, help_)


def gauge(name: str, help_: str, scale: float = 1.0) -> Family:
    """A number that goes up and down."""
    return Family(name, Kind.GAUGE, help_, scale)


def _time(name: str, help_: str) -> Family:
    """An event time, in milliseconds since 1970."""
    return gauge(f"{name}_timestamp_seconds", help_, _MS)


def _summary(number: str, total: str, name: str, help_: str) -> dict[str, Named]:
    family = Family(name, Kind.SUMMARY, help_)
    return {f"{number}.count": Named(family, "_count"), f"{number}.{total}": Named(family, "_sum")}


_COMMIT = Family("commit_seconds", Kind.HISTOGRAM, "Time of whole commits.")
_STEP = Family("commit_step_seconds", Kind.HISTOGRAM, "Time of a commit's steps, by step.")
_OF_PIPELINE = counter("pipeline_step_seconds", "Time in a step of a pipeline, without the steps behind it.")
_PROCESS = Family(
    "container_process_seconds",
    Kind.HISTOGRAM,
    "Time per message in process, or in flight, of all tasks of the container; messages of one call have their mean.",
)
_BATCH = Family("container_batch_messages", Kind.HISTOGRAM, "Messages per batch, of all tasks of the container.")
_RESTORED = Family("store_restore_seconds", Kind.HISTOGRAM, "Time that the restore of a task's store took.")
_ERRORS = counter("errors", "Messages that failed, by stage, and by what the error policy did about them.")
_AHEAD = counter("ahead_messages", "Messages too far ahead of the wall clock to advance event time, by operator.")
_LATE = counter("late_messages", "Messages that arrived after their event time was closed, by operator.")
_PROCESSED = counter("messages_processed", "Messages processed, by input stream.")
_WINDOW_TIME = _time("window", "Event time up to which the store's windows are closed.")
_JOIN = (("operator", "join"),)

#: The groups of a container, by name.
_GROUPS: Mapping[str, Mapping[str, Family | Named]] = {
    "commit": {
        "commits": counter("commits", "Commits made."),
        "commits-skipped": counter("commits_skipped", "Commits skipped because messages were in flight for too long."),
        "commit.max-s": gauge("commit_max_seconds", "Longest since the start: Time of whole commits."),
    },
    "promises": {"weakened": gauge("weakened_promises", "Reasons why the job's guarantee is weakened.")},
    "restore": {"seconds": gauge("restore_duration_seconds", "Time that the last restore took.")},
    "inputs": {"bootstrap-remaining": gauge("bootstrap_remaining_messages", "Messages of bootstrap streams to read.")},
    "standby": {"lag": gauge("standby_lag_messages", "Changelog records that a standby still has to read.")},
    "guarantee": {
        "outside-transaction": counter("outputs_outside_transaction", "Outputs sent outside the transaction."),
        "offsets-skipped": counter("offsets_skipped", "Offsets after the checkpoint that a start skipped."),
        "offsets-repeated": counter("offsets_repeated", "Offsets before the checkpoint that a start repeated."),
        "sink-offsets-missing": counter("sink_offsets_missing", "Partitions whose sink had no offset at a start."),
        "stores-rebuilt": counter("stores_rebuilt", "Local stores that were set aside and rebuilt."),
    },
    "join": {
        "ahead": Named(_AHEAD, "", _JOIN),
        "late": Named(_LATE, "", _JOIN),
        "unmatched": counter("join_unmatched", "Messages that matched no row of the joined table."),
    },
    "deduplication": {"dropped": counter("duplicates_dropped", "Messages dropped as duplicates.")},
    "container": {
        "starts": counter("container_starts", "Starts in its process; all but the first resume from the last commit."),
        "in-flight-s": gauge("container_in_flight_seconds", "Time that the asynchronous messages now in flight took."),
        "resident-bytes": gauge("container_resident_memory_bytes", "Resident memory of the container's process."),
        "cpu-s": counter("container_cpu_seconds", "CPU time of the container's process, user and system."),
        "threads": gauge("container_threads", "Threads of the container's process."),
        "open-files": gauge("container_open_descriptors", "Open file descriptors of the container's process."),
    },
    "metrics": {
        "source-failures": counter("metrics_source_failures", "Failed readings of a group's or sink's metrics.")
    },
}

_TASK: Mapping[str, Family | Named] = {
    "sent": counter("messages_sent", "Messages sent to output streams."),
    **_summary("process", "total-s", "process_seconds", "Time per message in the task's process."),
    **_summary("batch", "total", "batch_messages", "Messages per batch that a task got."),
    "clock-ms": _time("task_clock", "Event time that the task has reached."),
    "watermark": _time("task_watermark", "Lowest watermark of the upstream stages."),
    "event-times-ahead": Named(_AHEAD, "", (("operator", "clock"),)),
    "event-clock": _time("task_timers", "Event time of the task's timers."),
    "timers-fired": counter("timers_fired", "Timers fired."),
    "state.written": counter("state_checkpoints", "Checkpoints of the task's own state written."),
    "state.bytes": gauge("state_checkpoint_bytes", "Size of the last checkpoint of the task's own state."),
    "state.oldest-ms": _time("state_checkpoint_oldest", "Event time of the oldest state checkpoint kept."),
    "state.newest-ms": _time("state_checkpoint_newest", "Event time of the newest state checkpoint kept."),
}

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
    "dirty-entries": gauge("store_dirty_entries", "Entries changed and not yet serialized."),
    "uncommitted-entries": gauge("store_uncommitted_entries", "Entries serialized and not yet committed."),
    "uncommitted-bytes": gauge("store_uncommitted_bytes", "Size of entries serialized and not yet committed, at most."),
    "entries": gauge("store_entries", "Entries of a store in memory."),
    "changelog-offset": gauge("store_changelog_offset", "Offset of the last changelog record written by a commit."),
    "changelog-bytes": counter("store_changelog_written_bytes", "Keys and values that commits appended to changelogs."),
    "ignored-large-messages": counter("store_large_values_dropped", "Writes dropped because their value is too large."),
    "expired-removed": counter("store_expired", "Expired entries removed."),
    "messages-restored": gauge("store_restored_records", "Changelog records read at the start."),
    "messages-bytes": gauge("store_restored_bytes", "Size of the changelog records read at the start."),
    "snapshots": counter("store_snapshots", "Snapshots uploaded."),
    "snapshot-failures": counter("store_snapshot_failures", "Snapshots that failed."),
    "snapshot-files": counter("store_snapshot_files", "Files uploaded for snapshots."),
    "snapshot-bytes": counter("store_snapshot_bytes", "Bytes uploaded for snapshots."),
    "estimate-num-keys": gauge("store_rocksdb_keys", "Keys of the store, as RocksDB estimates them."),
    "cur-size-active-mem-table": gauge("store_rocksdb_active_memtable_bytes", "Size of the memtable of new writes."),
    "cur-size-all-mem-tables": gauge("store_rocksdb_unflushed_memtables_bytes", "Size of memtables not yet on disk."),
    "size-all-mem-tables": gauge("store_rocksdb_memtables_bytes", "Size of all memtables, pinned ones included."),
    "estimate-table-readers-mem": gauge(
        "store_rocksdb_table_readers_bytes", "Estimated memory of indexes and filters."
    ),
    "total-sst-files-size": gauge("store_disk_bytes", "Size of the store's files on disk."),
    "block-cache-usage": gauge("store_rocksdb_block_cache_bytes", "Memory of the block cache, which stores may share."),
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
#: Properties of librdkafka's statistics, as `samzapy.system.kafka.client` names them.
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
    "round-trip-p99-us": gauge(f"{_CLIENT}round_trip_p99_seconds", "99th percentile to the slowest broker.", _US),
    "throttle-ms": gauge(f"{_CLIENT}throttle_seconds", "Mean throttling by the broker that throttles most.", _MS),
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

#: The groups that the container itself fills. Operators fill theirs through the interface of the user's code.
OF_CONTAINER = {*_GROUPS, "clients", "errors", "process", "recent", "restores"} - {"deduplication", "join"}
#: Begins a group of the user's code that has the name of one of those.
MARK = "user:"
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def sanitized(text: str) -> str:
    """`text` as a part of a metric's name. A letter beyond ASCII becomes its number, so that words of such letters
    differ."""
    numbered = _NOT_ASCII.sub(lambda letter: f"_u{ord(letter[0]):04x}", text)
    return _NOT_A_NAME.sub("_", numbered).strip("_").lower() or "_"


def container_metric(group: str, name: str, *, counts: bool = False) -> Named | None:
    """The family of a number in a group of the container; None if another number includes it. `counts`: whether it is a
    counter, which decides the type of a number of the user's code."""
    if group.startswith(MARK):
        return _of_user(group.removeprefix(MARK), name, counts=counts)
    known = _GROUPS.get(group, {}).get(name)
    if known is not None:
        return _named(known)
    base, of_histogram, leaf = name.rpartition(LE)
    if of_histogram:
        return _part_of(_histogram(group, base), leaf)
    if group == "recent" or (group == "commit" and name.startswith(("commit.", "step."))):
        # The histograms have the same numbers.
        return None
    return _labelled(group, name) or _of_user(group, name, counts=counts)


def _labelled(group: str, name: str) -> Named | None:
    """The family of a number with labels in its name."""
    if group == "errors":
        stage, _, action = name.partition(".")
        return Named(_ERRORS, "", (("stage", stage), ("action", action)))
    if group == "pipeline":
        return Named(_OF_PIPELINE, "", (("step", name),))
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


def task_metric(name: str, *, counts: bool = False) -> Named | None:
    """The family of a number in a task's group; None if another number includes it. `counts` as in
    `container_metric`."""
    known = _TASK.get(name)
    if known is not None:
        return _named(known)
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
    if leaf == "event-time-ms":
        return Named(_WINDOW_TIME, "", (("store", store),))
    return _of_user("task", name, counts=counts)


def known_families() -> Iterable[Family]:
    """All families of a container with a fixed name."""
    fixed = (_STEP, _OF_PIPELINE, _RESTORED, _ERRORS, _PROCESSED, _WINDOW_TIME)
    all_: list[Mapping[Any, Family | Named]] = [*_GROUPS.values(), _TASK, _STORE, _SINK, _WINDOWS, _KAFKA, _HISTOGRAMS]
    return dict.fromkeys([*fixed, *(_named(item).family for table in all_ for item in table.values())])


def _named(item: Family | Named) -> Named:
    return item if isinstance(item, Named) else Named(item)


def _histogram(group: str, name: str) -> Named:
    """The family and labels of a histogram."""
    if group == "restores":
        return Named(_RESTORED, "", (("store", name),))
    if group == "commit" and name.startswith("step."):
        return Named(_STEP, "", (("step", name.removeprefix("step.")),))
    known = _HISTOGRAMS.get((group, name))
    return Named(_user_family(group, name, Kind.HISTOGRAM) if known is None else known)


def _part_of(histogram: Named, leaf: str) -> Named:
    if leaf in {"sum", "count"}:
        return Named(histogram.family, f"_{leaf}", histogram.labels)
    return Named(histogram.family, BUCKET, (*histogram.labels, (BOUND, leaf)))


def _of_user(group: str, name: str, *, counts: bool) -> Named:
    base, of_histogram, leaf = name.rpartition(LE)
    if of_histogram:
        return _part_of(Named(_user_family(group, base, Kind.HISTOGRAM)), leaf)
    return Named(_user_family(group, name, Kind.COUNTER if counts else Kind.GAUGE))


def _user_family(group: str, name: str, kind: Kind) -> Family:
    full = f"user_{sanitized(group)}_{sanitized(name)}"
    if kind is Kind.COUNTER:
        # Prometheus ends the name of a counter with `_total`.
        full = full.removesuffix("_total")
    return Family(full, kind, f"A metric of the job's own code: {group}.{name}.")
