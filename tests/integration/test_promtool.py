"""The text, and the alert rules, before Prometheus's own tool."""

import subprocess

import pytest
from prometheus_tools import prometheus_tool

from samzapy.metrics import Registry
from samzapy.metrics.dashboard import expressions, rules
from samzapy.metrics.prometheus import render
from samzapy.metrics.series import ContainerSnapshot, JobSnapshot, PartitionSnapshot

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def promtool(tmp_path_factory):
    pytest.importorskip("prometheus_client")
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


def test_the_text_of_a_job_has_no_lint(promtool):
    times = Registry()
    times.histogram("commit", "commit", (0.1, 1)).update(0.1)
    metrics = {
        "Partition 0": {"processed.kafka.in": 7, "store.s.gets": 5, "store.s.total-sst-files-size": 9, "clock-ms": 1},
        "commit": {"commits": 1, "commit.max-s": 0.1, **times.snapshot()["commit"]},
        "container": {"resident-bytes": 1, "cpu-s": 1},
    }
    partitions = {"kafka.in[0]": PartitionSnapshot(7, 9, 2, 1.0)}
    container = ContainerSnapshot("0", frozenset({"Partition 0"}), metrics, partitions=partitions)
    assert not checked(promtool, "check", "metrics", text=render(JobSnapshot("counts", (container,))).decode())
