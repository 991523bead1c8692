"""The ways of a container's metrics to Prometheus and to OpenTelemetry."""

import logging
import socket
import threading
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from rigs.raw_connections import is_closed

from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.supervision import ReporterConfig
from samzapy.errors import EnvironmentFailure
from samzapy.metrics import Registry, Reporter, SnapshotHeader, UserMetrics, reporters
from samzapy.metrics.prometheus import served
from samzapy.metrics.reporters import otlp
from samzapy.metrics.series import as_text, container_series
from samzapy.testing import ManualClock
from samzapy.verify.processes import until

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


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_a_container_serves_its_metrics_while_it_runs(registry):
    port = free_port()

    def metrics():
        return as_text(container_series("counts", "0", TASKS, registry))

    with served("127.0.0.1", port, metrics), urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    assert "# TYPE samzapy_messages_processed_total counter" in text
    assert 'container="0",job="counts",stream="kafka.in",task="Partition 0"} 7.0' in text
    assert socket.socket().connect_ex(("127.0.0.1", port)) != 0


def ask(port, path="/metrics", method="GET", **headers):
    try:
        request = Request(f"http://127.0.0.1:{port}{path}", headers=headers, method=method)
        with urlopen(request, timeout=30) as answer:
            return answer.status
    except HTTPError as refused:
        return refused.code


def test_a_scrape_shows_a_token_where_one_is_wanted():
    port = free_port()
    with served("127.0.0.1", port, bytes, ["reads", "acts"]):
        assert ask(port) == ask(port, Authorization="Bearer wrong") == ask(port, Authorization="reads") == 403
        assert ask(port, Authorization="Bearer reads") == ask(port, Authorization="Bearer acts") == 200
        assert ask(port, "/other", Authorization="Bearer reads") == 404
        assert ask(port, method="POST", Authorization="Bearer reads") == 404


def test_without_any_token_nobody_gets_an_answer():
    port = free_port()
    with served("127.0.0.1", port, bytes, ()):
        assert ask(port) == ask(port, Authorization="Bearer ") == 403


def test_silent_connections_are_limited_and_do_not_hold_up_the_end_of_a_container():
    port = free_port()
    with served("127.0.0.1", port, bytes):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        assert any(each.recv(1) == b"" for each in silent[-1:])
    for each in silent:
        each.close()


def test_a_connection_for_which_the_system_has_no_thread_takes_no_place(monkeypatch, capfd):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    port = free_port()
    with served("127.0.0.1", port, bytes, ["reads"]):
        with monkeypatch.context() as short:
            short.setattr(threading.Thread, "start", refuse)
            for _ in range(16):
                with socket.create_connection(("127.0.0.1", port), 30) as dropped:
                    assert is_closed(dropped)
        assert ask(port, Authorization="Bearer reads") == 200
    assert capfd.readouterr().err.count("RuntimeError: can't start new thread") == 16


def is_answered(port):
    try:
        return ask(port, Authorization="Bearer reads") == 200
    except OSError:  # refused, since the threads of the others have not ended yet
        return False


def test_a_connection_that_drips_its_request_is_closed_in_time_and_makes_room():
    port, clock = free_port(), ManualClock()
    with served("127.0.0.1", port, bytes, ["reads"], clock):
        dripping = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(16)]
        for each in dripping:
            each.sendall(b"G")
        with socket.create_connection(("127.0.0.1", port), 30) as refused:
            assert is_closed(refused)  # so all others are accepted
        clock.advance(10)
        for each in dripping:
            assert is_closed(each)
            each.close()
        until(lambda: is_answered(port), "no room for a scrape")


def test_a_port_that_is_taken_costs_the_metrics_and_not_the_container(caplog):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        caplog.at_level(logging.WARNING, "samzapy.metrics"),
        served("127.0.0.1", taken.getsockname()[1], bytes),
    ):
        pass
    assert caplog.records[0].message.startswith("metrics.prometheus.port: no metrics are served on 127.0.0.1:")


def test_opentelemetry_gets_sums_gauges_and_units(registry):
    pytest.importorskip("opentelemetry.sdk.metrics.export")
    got = []
    otlp(registry, TASKS, HEADER, lambda data: not got.append(data), SYSTEM_CLOCK)()
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
    assert (times.count, times.sum, list(times.bucket_counts), times.explicit_bounds) == (
        2,
        1.0,
        [0, 2, 0],
        [0.125, 1.0],
    )
    assert found["samzapy_task_clock_timestamp_seconds"].data.data_points[0].value == 1.5


def test_opentelemetry_gets_a_counter_of_the_jobs_own_code_as_a_sum_that_grows():
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    registry, got = Registry(), []
    UserMetrics(registry).counter("orders", "refused").inc(5)
    UserMetrics(registry).gauge("orders", "open").set(3)
    otlp(registry, TASKS, HEADER, lambda data: not got.append(data), SYSTEM_CLOCK)()
    (of_resource,) = got[0].resource_metrics
    found = {metric.name: metric.data for metric in of_resource.scope_metrics[0].metrics}
    assert found["samzapy_user_orders_refused"].is_monotonic
    assert found["samzapy_user_orders_refused"].data_points[0].value == 5
    assert isinstance(found["samzapy_user_orders_open"], export.Gauge)


def test_an_export_that_fails_is_a_warning(registry, caplog):
    pytest.importorskip("opentelemetry.sdk.metrics.export")
    reporter = Reporter("0", otlp(registry, TASKS, HEADER, lambda data: False, SYSTEM_CLOCK), SYSTEM_CLOCK)
    with caplog.at_level(logging.WARNING, "samzapy.metrics"):
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


def test_a_source_that_fails_costs_its_own_numbers_only(registry):
    def broken():
        raise RuntimeError("gone")

    registry.watch("clients", broken)
    assert registry.snapshot()["commit"]["commit.count"] == 1
    assert registry.counter("metrics", "source-failures").count == 1
