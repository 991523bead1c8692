"""Builds a Grafana dashboard of a job's metrics, and returns the alert rules of `rules.yml`.

A panel has a title, a unit and queries. Queries aggregate over the labels that they do not name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

#: Width and height of a panel on Grafana's grid of 24 columns.
_WIDTH, _HEIGHT = 8, 8
_JOB = '{job="$job"}'
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    """An expression and the legend of its lines."""

    expression: str
    legend: str


def _by(function: str, inner: str, by: str, legend: str = "") -> Query:
    labels = " ".join(f"{{{{{label}}}}}" for label in by.split(", ") if label and label != "le")
    return Query(f"{function}{f' by ({by})' if by else ''} ({inner})", legend or labels)


def _rate(metric: str, by: str = "", legend: str = "") -> Query:
    return _by("sum", f"rate(samzapy_{metric}{_JOB}[$__rate_interval])", by, legend)


def _sum(metric: str, by: str) -> Query:
    return _by("sum", f"samzapy_{metric}{_JOB}", by)


def _max(metric: str, by: str) -> Query:
    return _by("max", f"samzapy_{metric}{_JOB}", by)


def _of_job(metric: str, legend: str) -> Query:
    return Query(f"samzapy_{metric}{_JOB}", legend)


def _behind(metric: str, legend: str) -> Query:
    return Query(f"time() - min by (job) (samzapy_{metric}_timestamp_seconds{_JOB})", legend)


def _ratio(above: Query, below: Query) -> Query:
    return Query(f"{above.expression} / {below.expression}", above.legend)


def _mean(summary: str, by: str = "", legend: str = "") -> Query:
    return _ratio(_rate(f"{summary}_sum", by, legend), _rate(f"{summary}_count", by))


def _p99(buckets: Query) -> Query:
    """The 99th percentile; of rates, of recent values."""
    return Query(f"histogram_quantile(0.99, {buckets.expression})", buckets.legend or "p99")


def _times(histogram: str, mean: str) -> tuple[Query, Query]:
    return _mean(mean, legend="mean"), _p99(_rate(f"{histogram}_bucket", "le"))


#: Title, unit and queries of each panel, by row.
_ROWS: Mapping[str, Sequence[tuple[Any, ...]]] = {
    "Messages": (
        ("Messages processed a second", "short", _rate("messages_processed_total", "stream")),
        ("Messages sent a second", "short", _rate("messages_sent_total", legend="sent")),
        ("Lag", "short", _sum("partition_lag_messages", "stream")),
        ("Oldest unread message", "s", _max("partition_oldest_unread_seconds", "stream")),
        ("Lag of the furthest partition", "short", _max("container_lag_max_messages", "container")),
        ("Age of the lag; unknown above a few seconds", "s", _max("lag_age_seconds", "container")),
        ("Time in process, per message", "s", *_times("container_process_seconds", "process_seconds")),
        ("Messages in a batch", "short", *_times("container_batch_messages", "batch_messages")),
        ("Errors a second", "short", _rate("errors_total", "stage, action")),
        ("Late messages a second", "short", _rate("late_messages_total", "operator")),
    ),
    "Event time": (
        (
            "Event time behind wall-clock time",
            "s",
            _behind("job_clock", "job"),
            _behind("job_checkpoint", "checkpoint"),
            _behind("task_watermark", "watermark"),
        ),
        ("Clock stalled", "s", _of_job("job_clock_stalled_seconds", "for")),
        ("Timers fired a second", "short", _rate("timers_fired_total", legend="timers")),
    ),
    "Commits": (
        ("Commits a second", "short", _rate("commits_total", legend="commits")),
        (
            "Time of a commit",
            "s",
            *_times("commit_seconds", "commit_seconds"),
            _max("commit_max_seconds", "job")._replace(legend="longest since the start"),
        ),
        ("Time of a commit, by step", "s", _mean("commit_step_seconds", "step")),
        ("Time of a commit, by step, p99", "s", _p99(_rate("commit_step_seconds_bucket", "le, step"))),
        ("Uncommitted bytes", "bytes", _sum("store_uncommitted_bytes", "store")),
        ("Commits skipped", "short", _rate("commits_skipped_total", legend="skipped")),
        ("Weakened guarantee", "short", _of_job("job_weakened_promises", "reasons")),
    ),
    "State": (
        (
            "Cache hit ratio",
            "percentunit",
            _ratio(_rate("store_cache_hits_total", "store"), _rate("store_gets_total", "store")),
        ),
        ("Size on disk", "bytes", _sum("store_disk_bytes", "store")),
        (
            "Changelog records a second",
            "short",
            _by("sum", f"deriv(samzapy_store_changelog_offset{_JOB}[$__rate_interval])", "store"),
        ),
        ("Changelog bytes a second", "Bps", _rate("store_changelog_written_bytes_total", "store")),
        ("Object caches", "bytes", _sum("store_cache_bytes", "store")),
        ("RocksDB memtables", "bytes", _sum("store_rocksdb_memtables_bytes", "store")),
        ("Keys, estimated", "short", _sum("store_rocksdb_keys", "store")),
        (
            "Restore: offsets left to read",
            "short",
            Query(f"samzapy_restore_offsets_expected{_JOB} - samzapy_restore_offsets_read{_JOB}", "{{container}}"),
        ),
        ("Restore time", "s", _max("restore_duration_seconds", "container")),
        (
            "Restore of a task's store, p99 since the start",
            "s",
            _p99(_sum("store_restore_seconds_bucket", "le, store")),
        ),
        ("Standbys: records left to read", "short", _sum("standby_lag_messages", "container")),
    ),
    "Containers": (
        ("Containers by phase", "short", _sum("containers", "role, state, phase")),
        ("Resident memory", "bytes", _sum("container_resident_memory_bytes", "container")),
        ("CPU", "percentunit", _rate("container_cpu_seconds_total", "container")),
        ("Attempts after the first", "short", _sum("container_restarts_total", "container")),
        ("Starts in a process", "short", _sum("container_starts_total", "container")),
        ("Open files", "short", _sum("container_open_descriptors", "container")),
    ),
    "Kafka": (
        ("Bytes received a second", "Bps", _rate("kafka_client_received_bytes_total", "system")),
        ("Round trip, p99", "s", _max("kafka_client_round_trip_p99_seconds", "system")),
        ("Fetched and not polled", "bytes", _sum("kafka_client_fetched_bytes", "system")),
        ("Requests that fail, a second", "short", _rate("kafka_client_request_errors_total", "system")),
        ("Requests that time out, a second", "short", _rate("kafka_client_request_timeouts_total", "system")),
        ("Disconnects a second", "short", _rate("kafka_client_disconnects_total", "system")),
    ),
}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it, with a choice of the data source and of the job."""
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    job = {
        "name": "job",
        "type": "query",
        "label": "Job",
        "datasource": _DATASOURCE,
        "query": "label_values(samzapy_build_info, job)",
        "refresh": 2,
    }
    return {
        "title": "samzapy",
        "uid": "samzapy-job",
        "schemaVersion": 38,
        "tags": ["samzapy"],
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, job]},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(), 1)],
    }


def expressions() -> list[str]:
    """The queries of all panels."""
    return [query.expression for panels in _ROWS.values() for _, _, *queries in panels for query in queries]


def rules() -> str:
    """The alert rules, as YAML for Prometheus."""
    return resources.files(__package__).joinpath("rules.yml").read_text(encoding="utf-8")


def _panels() -> Iterator[dict[str, Any]]:
    top = 0
    for row_title, panels in _ROWS.items():
        yield {"type": "row", "title": row_title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}, "panels": []}
        top += 1
        for at, (title, unit, *queries) in enumerate(panels):
            row, column = divmod(at, 24 // _WIDTH)
            yield {
                "type": "timeseries",
                "title": title,
                "datasource": _DATASOURCE,
                "gridPos": {"x": column * _WIDTH, "y": top + row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + number), "expr": query.expression, "legendFormat": query.legend}
                    for number, query in enumerate(queries)
                ],
            }
        top += -(-len(panels) * _WIDTH // 24) * _HEIGHT
