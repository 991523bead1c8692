"""`samzapy spark`, with the real master and workers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from samzapy.cli.main import cli
from samzapy.devkafka.broker import free_port

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def samzapy(*arguments):
    done = CliRunner().invoke(cli, ["spark", *arguments])
    return done.exit_code, done.output


@pytest.fixture
def port(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield str(free_port())
    samzapy("stop")


def pids(text):
    return {name: int(pid) for name, pid in re.findall(r"^  (\S+) .* (\d+)$", text, re.MULTILINE)}


def test_a_killed_worker_comes_back_with_the_next_start_and_stop_ends_all(port):
    assert samzapy("status") == (3, "Spark in .samzapy/spark\n  none\n\n")
    started = samzapy("start", "--workers", "2", "--port", port)
    assert started == (0, f"Spark answers at spark://127.0.0.1:{port}, with 2 workers; logs are in .samzapy/spark\n")
    before = pids(samzapy("status")[1])
    assert list(before) == ["master", "worker-1", "worker-2"]
    assert samzapy("kill", "worker-1") == (0, "killed worker-1\n")
    assert list(pids(samzapy("status")[1])) == ["master", "worker-2"]
    code, output = samzapy("kill", "worker-1")
    assert code == 2
    assert "expected one of those that run: master, worker-2, got 'worker-1'" in output
    assert samzapy("start", "--workers", "2", "--port", port) == started
    after = pids(samzapy("status")[1])
    assert {name for name in after if after[name] != before[name]} == {"worker-1"}
    assert samzapy("stop") == (0, "stopped\n")
    assert samzapy("status")[0] == 3
    assert samzapy("stop") == (0, "no Spark runs in .samzapy/spark\n")


def test_a_port_that_is_taken_is_named(port):
    samzapy("start", "--workers", "1", "--port", port)
    done = CliRunner().invoke(cli, ["spark", "start", "--folder", "other", "--port", port])
    assert done.exit_code == 3
    assert f"port {port}: something else listens on 127.0.0.1:{port}" in done.output
    assert Path("other").is_dir()
