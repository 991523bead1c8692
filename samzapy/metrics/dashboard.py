"""Builds a Grafana dashboard of a job's metrics, and returns the alert rules of `rules.yml`.

A panel has a title, a unit and queries. Queries aggregate over the labels that they do not name, so they stay right for
a job whose series have lost labels because it has many tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

#: Width and height of a panel on Grafana's grid of 24 columns.
_WIDTH, _HEIGHT = 8, 8
_JOB = '{job="$job"}'


class Panel(NamedTuple):
    """One graph: each of `queries` is an expression and the legend of its lines."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]


def _rate(metric: str, by: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate(samzapy_{metric}{_JOB}[$__rate_interval]))"


def _sum(metric: str, by: str) -> str:
    return f"sum by ({by}) (samzapy_{metric}{_JOB})"


def _max(metric: str, by: str) -> str:
    return f"max by ({by}) (samzapy_{metric}{_JOB})"


def _mean(summary: str, by: str = "") -> str:
    return f"{_rate(f'{summary}_sum', by)} / {_rate(f'{summary}_count', by)}"


def _p99(histogram: str, by: str = "") -> str:
    """The 99th percentile of recent values; no line for a job with too many containers for buckets."""
    return f"histogram_quantile(0.99, {_rate(f'{histogram}_bucket', f'le, {by}' if by else 'le')})"


_ROWS: Mapping[str, Sequence[Panel]] = {
    "Messages": (
        Panel("Messages processed a second", "short", [(_rate("messages_processed_total", "stream"), "{{stream}}")]),
        Panel("Messages sent a second", "short", [(_rate("messages_sent_total"), "sent")]),
        Panel("Lag", "short", [(_sum("partition_lag_messages", "stream"), "{{stream}}")]),
        Panel("Oldest unread message", "s", [(_max("partition_oldest_unread_seconds", "stream"), "{{stream}}")]),
        Panel(
            "Lag of the furthest partition",
            "short",
            [(_max("container_lag_max_messages", "container"), "{{container}}")],
        ),
        Panel(
            "Age of the lag; unknown above a few seconds",
            "s",
            [(_max("lag_age_seconds", "container"), "{{container}}")],
        ),
        Panel(
            "Time in process, per message",
            "s",
            [(_mean("process_seconds"), "mean"), (_p99("container_process_seconds"), "p99")],
        ),
        Panel(
            "Messages in a batch",
            "short",
            [(_mean("batch_messages"), "mean"), (_p99("container_batch_messages"), "p99")],
        ),
        Panel("Errors a second", "short", [(_rate("errors_total", "stage, action"), "{{stage}} {{action}}")]),
        Panel("Late messages a second", "short", [(_rate("late_messages_total", "operator"), "{{operator}}")]),
    ),
    "Event time": (
        Panel(
            "Event time behind wall-clock time",
            "s",
            [
                (f"time() - samzapy_job_clock_timestamp_seconds{_JOB}", "job"),
                (f"time() - samzapy_job_checkpoint_timestamp_seconds{_JOB}", "checkpoint"),
                (f"time() - min by (job) (samzapy_task_watermark_timestamp_seconds{_JOB})", "watermark"),
            ],
        ),
        Panel("Clock stalled", "s", [(f"samzapy_job_clock_stalled_seconds{_JOB}", "for")]),
        Panel("Timers fired a second", "short", [(_rate("timers_fired_total"), "timers")]),
    ),
    "Commits": (
        Panel("Commits a second", "short", [(_rate("commits_total"), "commits")]),
        Panel(
            "Time of a commit",
            "s",
            [
                (_mean("commit_seconds"), "mean"),
                (_p99("commit_seconds"), "p99"),
                (_max("commit_max_seconds", "job"), "longest since the start"),
            ],
        ),
        Panel("Time of a commit, by step", "s", [(_mean("commit_step_seconds", "step"), "{{step}}")]),
        Panel("Time of a commit, by step, p99", "s", [(_p99("commit_step_seconds", "step"), "{{step}}")]),
        Panel("Uncommitted bytes", "bytes", [(_sum("store_uncommitted_bytes", "store"), "{{store}}")]),
        Panel("Commits skipped", "short", [(_rate("commits_skipped_total"), "skipped")]),
        Panel("Weakened guarantee", "short", [(f"samzapy_job_weakened_promises{_JOB}", "reasons")]),
    ),
    "State": (
        Panel(
            "Cache hit ratio",
            "percentunit",
            [(f"{_rate('store_cache_hits_total', 'store')} / {_rate('store_gets_total', 'store')}", "{{store}}")],
        ),
        Panel("Size on disk", "bytes", [(_sum("store_disk_bytes", "store"), "{{store}}")]),
        Panel(
            "Changelog records a second",
            "short",
            [(f"sum by (store) (deriv(samzapy_store_changelog_offset{_JOB}[$__rate_interval]))", "{{store}}")],
        ),
        Panel(
            "Changelog bytes a second", "Bps", [(_rate("store_changelog_written_bytes_total", "store"), "{{store}}")]
        ),
        Panel(
            "Changelogs: offsets from beginning to end",
            "short",
            [(f"samzapy_job_changelog_offsets{_JOB}", "{{store}}")],
        ),
        Panel("Object caches", "bytes", [(_sum("store_cache_bytes", "store"), "{{store}}")]),
        Panel("RocksDB memtables", "bytes", [(_sum("store_rocksdb_memtables_bytes", "store"), "{{store}}")]),
        Panel("Keys, estimated", "short", [(_sum("store_rocksdb_keys", "store"), "{{store}}")]),
        Panel(
            "Restore: offsets left to read",
            "short",
            [
                (
                    f"samzapy_restore_offsets_expected{_JOB} - samzapy_restore_offsets_read{_JOB}",
                    "{{container}}",
                )
            ],
        ),
        Panel("Restore time", "s", [(_max("restore_duration_seconds", "container"), "{{container}}")]),
        Panel(
            "Restore of a task's store, p99 since the start",
            "s",
            [
                (
                    f"histogram_quantile(0.99, {_sum('store_restore_seconds_bucket', 'le, store')})",
                    "{{store}}",
                )
            ],
        ),
        Panel(
            "Standbys: records left to read", "short", [(_sum("standby_lag_messages", "container"), "{{container}}")]
        ),
    ),
    "Containers": (
        Panel(
            "Containers by phase", "short", [(_sum("containers", "role, state, phase"), "{{role}} {{state}} {{phase}}")]
        ),
        Panel("Resident memory", "bytes", [(_sum("container_resident_memory_bytes", "container"), "{{container}}")]),
        Panel("CPU", "percentunit", [(_rate("container_cpu_seconds_total", "container"), "{{container}}")]),
        Panel("Attempts after the first", "short", [(_sum("container_restarts_total", "container"), "{{container}}")]),
        Panel("Starts in a process", "short", [(_sum("container_starts_total", "container"), "{{container}}")]),
        Panel("Open files", "short", [(_sum("container_open_descriptors", "container"), "{{container}}")]),
    ),
    "Kafka": (
        Panel("Bytes received a second", "Bps", [(_rate("kafka_client_received_bytes_total", "system"), "{{system}}")]),
        Panel("Round trip, p99", "s", [(_max("kafka_client_round_trip_p99_seconds", "system"), "{{system}}")]),
        Panel("Fetched and not polled", "bytes", [(_sum("kafka_client_fetched_bytes", "system"), "{{system}}")]),
        Panel(
            "Requests that fail, a second",
            "short",
            [
                (_rate("kafka_client_request_errors_total", "system"), "{{system}} errors"),
                (_rate("kafka_client_request_timeouts_total", "system"), "{{system}} time-outs"),
                (_rate("kafka_client_disconnects_total", "system"), "{{system}} disconnects"),
            ],
        ),
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
    return [expression for panels in _ROWS.values() for panel in panels for expression, _ in panel.queries]


def rules() -> str:
    """The alert rules, as YAML for Prometheus."""
    return resources.files(__package__).joinpath("rules.yml").read_text(encoding="utf-8")


_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panels() -> Iterator[dict[str, Any]]:
    top = 0
    for title, panels in _ROWS.items():
        yield {"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}, "panels": []}
        top += 1
        for at, panel in enumerate(panels):
            row, column = divmod(at, 24 // _WIDTH)
            place = {"x": column * _WIDTH, "y": top + row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield {
                "type": "timeseries",
                "title": panel.title,
                "datasource": _DATASOURCE,
                "gridPos": place,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
                    for number, (expression, legend) in enumerate(panel.queries)
                ],
            }
        top += -(-len(panels) * _WIDTH // 24) * _HEIGHT
