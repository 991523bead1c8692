"""The way of a container's metrics to OpenTelemetry."""

import tracemalloc

import pytest

from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.supervision import ReporterConfig
from samzapy.errors import EnvironmentFailure
from samzapy.metrics import Registry, Reporter, SnapshotHeader, reporters
from samzapy.metrics.reporters import otlp, without

HEADER = SnapshotHeader("counts", "1", "0", "here")
TASKS = frozenset({"Partition 0"})


@pytest.fixture
def registry():
    made = Registry()
    made.gauge("Partition 0", "processed.kafka.in").set(7)
    made.timer("commit", "commit").update(0.5)
    made.histogram("commit", "commit", (0.125, 1.0)).update(0.5, times=2)
    made.gauge("Partition 0", "clock-ms").set(1500)
    return made


def test_opentelemetry_gets_sums_gauges_and_units(registry):
    pytest.importorskip("opentelemetry.sdk.metrics.export")
    got = []
    otlp(registry, TASKS, HEADER, lambda data: not got.append(data), SYSTEM_CLOCK, without(""))()
    (of_resource,) = got[0].resource_metrics
    assert of_resource.resource.attributes["service.name"] == "counts"
    found = {metric.name: metric for metric in of_resource.scope_metrics[0].metrics}
    processed = found["samzapy_messages_processed"]
    assert processed.data.is_monotonic
    (point,) = processed.data.data_points
    assert point.value == 7
    assert point.attributes == {"job": "counts", "container": "0", "task": "Partition 0", "stream": "kafka.in"}
    assert found["samzapy_commit_seconds"].unit == "s"
    (times,) = found["samzapy_commit_seconds"].data.data_points
    assert (times.count, times.sum, times.explicit_bounds) == (2, 1.0, [0.125, 1.0])
    assert list(times.bucket_counts) == [0, 2, 0]
    assert found["samzapy_task_clock_timestamp_seconds"].data.data_points[0].value == 1.5


def test_an_export_that_fails_is_a_warning(registry, caplog):
    pytest.importorskip("opentelemetry.sdk.metrics.export")
    reporter = Reporter("0", otlp(registry, TASKS, HEADER, lambda data: False, SYSTEM_CLOCK, without("")), SYSTEM_CLOCK)
    reporter.report()
    assert "did not deliver" in caplog.records[0].message


def test_a_reporter_without_its_library_names_the_key_and_the_extra(registry, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(EnvironmentFailure, match=r"metrics\.reporter\.o\.class=otel: .*samzapy\[otel\]"):
        reporters([ReporterConfig("o", "otel")], registry, HEADER, lambda stream: print, SYSTEM_CLOCK)


def test_a_source_is_asked_at_each_snapshot_and_replaced_by_the_next_of_its_group(registry):
    registry.watch("clients", lambda: {"k/c/requests": 1})
    registry.watch("clients", lambda: {"k/c/requests": 2})
    assert registry.snapshot()["clients"] == {"k/c/requests": 2}
    for number in range(5_000):
        registry.watch(f"Partition {number}", dict)
    tracemalloc.start()
    registry.watch("Partition 0", {"clock-ms": 2}.copy)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert registry.snapshot()["Partition 0"]["clock-ms"] == 2
    assert most_bytes < 5_000  # whatever the number of the others is


def test_a_source_that_fails_costs_its_own_numbers_only(registry):
    registry.watch("clients", {}.popitem)
    assert registry.snapshot()["commit"]["commit.count"] == 1
    assert registry.counter("metrics", "source-failures").count == 1
