"""The benchmarks over a few events, on a real Kafka: whether they run and what they write, not how fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gate.against import compare
from benchmarks.kafka import PARTITIONS, Kafka
from benchmarks.reporting.results import read
from benchmarks.workloads.keyed_count import KeyedCount
from samzapy.bench.measuring import THIS_PROGRAM, Program

ROOT = Path(__file__).parents[3]
EVENTS = 2_000


@pytest.mark.kafka
@pytest.mark.slow
def test_a_small_run_of_all_workloads_writes_every_figure(kafka, tmp_path):
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--bootstrap", kafka, "--output", str(output)]
    command += ["--events", str(EVENTS), "--repeats", "1", "--variant", "bare", "--variant", "local"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = read(output)
    assert {ratio for summary in results.values() for ratio in summary.ratios} == {
        f"{workload}.{figure}"
        for workload in ("pass-through", "keyed-count", "restore", "restore-large")
        for figure in ("throughput", "cpu")
    }
    assert results.pop("restart").variants["local"]["first_message_s"].min > 0
    for workload, summary in results.items():
        assert summary.variants.keys() == {"bare", "local"}, workload
        assert all(figures["peak_rss_bytes"].min > 0 for figures in summary.variants.values())
        assert {"processor", "cores", "memory_bytes"} <= summary.measured["machine"].keys(), workload
        assert {"python", "java", "confluent-kafka"} <= summary.measured["versions"].keys(), workload
    bare, local = (
        results["keyed-count"].variants[variant]["changelog_records_per_put"].median for variant in ("bare", "local")
    )
    # One record for a changed key and commit, and a marker for each partition, in a run of one commit.
    assert round((local - bare) * EVENTS) == PARTITIONS


@pytest.mark.kafka
@pytest.mark.slow
def test_a_run_with_more_cpu_than_the_stored_one_fails_with_a_table(kafka, tmp_path):
    stored = tmp_path / "stored.json"
    command = [sys.executable, "-m", "benchmarks", "--bootstrap", kafka, "--events", str(EVENTS), "--repeats", "1"]
    command += ["--only", "keyed-count", "--variant", "bare", "--variant", "local"]
    done = subprocess.run([*command, "--output", str(stored)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(stored.read_text())
    results["keyed-count"]["ratios"]["keyed-count.cpu"] = [0.001, 0.001, 0.001]
    stored.write_text(json.dumps(results))
    command += ["--compare", str(stored), "--fail-on", "10%"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "SLOWER" in done.stdout
    assert "1 of 1 need over 10% more CPU" in done.stdout


@pytest.mark.kafka
@pytest.mark.slow
def test_another_commit_runs_its_own_code_in_turns_with_ours(kafka, tmp_path):
    tree = tmp_path / "commit"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--detach", "--quiet", str(tree), "HEAD"], check=True)
    try:
        tasks = tree / "samzapy" / "bench" / "tasks.py"
        tasks.write_text(tasks.read_text() + f"\nopen({str(tmp_path / 'imported')!r}, 'w').close()\n")
        broker = Kafka(kafka, tmp_path)
        here = KeyedCount(broker, EVENTS, THIS_PROGRAM)
        there = KeyedCount(broker, EVENTS, Program(Path(sys.executable), tree))
        said = []
        (change,) = compare(here, there, ["local"], 1, said.append)
        assert change.name == "keyed-count local"
        assert change.now.min > 0
        assert len(said) == 2
        assert (tmp_path / "imported").exists()
        broker.clean()
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@pytest.mark.kafka
@pytest.mark.slow
def test_latency_is_measured_in_each_guarantee(kafka, tmp_path):
    command = [sys.executable, "-m", "benchmarks.latency", "--bootstrap", kafka, "--output", str(tmp_path)]
    command += ["--only", "no system", "--only", "samzapy, pipeline", "--commit-ms", "1000", "--rate", "500"]
    command += ["--seconds", "3", "--warm-up-s", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "latency.json").read_text())["runs"]
    direct, at_least_once, exactly_once = (run["p50_ms"] for run in runs)
    assert direct > 0
    assert at_least_once < exactly_once, "an output is readable with the commit"
    assert {path.name for path in tmp_path.iterdir()} == {"latency.json", "latency.md", "latency.svg"}
