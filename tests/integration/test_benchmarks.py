"""The benchmarks over a few events, on a real Kafka: whether they run and what they write, not how fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVENTS = 2_000


@pytest.mark.kafka
def test_a_small_run_of_all_workloads_writes_every_figure(kafka, tmp_path):
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--bootstrap", kafka, "--output", str(output)]
    command += ["--events", str(EVENTS), "--repeats", "1", "--variant", "bare", "--variant", "local"]
    command += ["--variant", "at-least-once.1s", "--variant", "exactly-once.1s"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(output.read_text())
    assert results["ratios"].keys() == {
        f"{workload}.{figure}"
        for workload in ("pass-through", "keyed-count", "restore")
        for figure in ("throughput", "cpu")
    } | {f"latency.{figure}" for figure in ("p50", "p99", "p99.9", "cpu")} | {
        f"guarantees.exactly-once.1s.{figure}" for figure in ("throughput", "cpu")
    }
    for workload, variants in results["workloads"].items():
        guarantees = {"at-least-once.1s", "exactly-once.1s"}
        assert variants.keys() == (guarantees if workload == "guarantees" else {"bare", "local"}), workload
        for variant, measured in variants.items():
            (repeat,) = measured["repeats"]
            assert repeat["messages"] >= EVENTS * (3 if workload == "guarantees" else 1), (workload, variant)
            assert measured["summary"]["peak_rss_bytes"]["min"] > 0
    per_put = {
        variant: measured["summary"]["changelog_records_per_put"]["median"]
        for variant, measured in results["workloads"]["keyed-count"].items()
    }
    assert per_put["bare"] == per_put["local"], "one record a changed key and commit, in a run of one commit"
    assert {"processor", "cores", "memory_bytes"} <= results["machine"].keys()
    assert {"python", "java", "confluent-kafka"} <= results["versions"].keys()
