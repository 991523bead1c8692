"""The text, and the alert rules, before Prometheus's own tool."""

import subprocess

import pytest
from prometheus_tools import prometheus_tool

from samzapy.coordinator.status import ContainerStatus, JobStatus
from samzapy.coordinator.views import job_series
from samzapy.job.lease import PartitionLag
from samzapy.metrics import Registry
from samzapy.metrics.dashboard import expressions, rules
from samzapy.metrics.registry import as_text, container_series
from samzapy.metrics.reporters import without

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def promtool(tmp_path_factory):
    return prometheus_tool("promtool", tmp_path_factory.mktemp("prometheus"))


def checked(promtool, *arguments, text=""):
    run = subprocess.run([promtool, *arguments], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_the_rules_are_rules(promtool, tmp_path):
    (tmp_path / "rules.yml").write_text(rules())
    assert "SUCCESS" in checked(promtool, "check", "rules", str(tmp_path / "rules.yml"))


def test_the_queries_of_the_dashboard_are_queries(promtool, tmp_path):
    lines = ["groups:", "  - name: board", "    rules:"]
    for number, expression in enumerate(expressions()):
        asked = expression.replace("$__rate_interval", "5m").replace("$job", "counts")
        lines += [f"      - record: board:{number}", f"        expr: '{asked}'"]
    (tmp_path / "board.yml").write_text("\n".join(lines))
    assert "SUCCESS" in checked(promtool, "check", "rules", str(tmp_path / "board.yml"))


def test_the_text_of_a_container_has_no_lint(promtool):
    registry = Registry()
    registry.histogram("commit", "commit", (0.1, 1)).update(0.1)
    registry.timer("commit", "commit").update(0.1)
    registry.counter("commit", "commits").inc()
    for name in ("processed.kafka.in", "store.s.gets", "store.s.total-sst-files-size", "clock-ms"):
        registry.gauge("Partition 0", name).set(7)
    metrics = container_series("counts", "0", {"Partition 0"}, registry, without(""))
    assert not checked(promtool, "check", "metrics", text=as_text(metrics).decode())


def test_the_text_of_a_driver_has_no_lint(promtool):
    numbers, lags = {"container": {"resident-bytes": 1, "cpu-s": 1}}, {"kafka.in[0]": PartitionLag(7, 9, 2, 1_000)}
    container = ContainerStatus(id="0", state="running", metrics=numbers, lags=lags)
    metrics = job_series(JobStatus(name="counts", containers=(container,)))
    assert not checked(promtool, "check", "metrics", text=as_text(metrics).decode())
