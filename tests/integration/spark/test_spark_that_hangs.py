"""A Spark that never starts, played by a program that only waits: the run ends by a signal or a
stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SAMZAPY = Path(sys.executable).with_name("samzapy")
LAST_LINE = "Application report for application_1 (state: ACCEPTED)"


@pytest.fixture
def project(tmp_path):
    """A new project, with its streams."""
    subprocess.run([str(SAMZAPY), "init", "views"], cwd=tmp_path, capture_output=True, check=True)
    return tmp_path / "views"


@pytest.fixture
def start(project, tmp_path):
    """Starts the job on a Spark that hangs."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{LAST_LINE}'; exec sleep 3600\n")
    program.chmod(0o755)
    running = []

    def begin():
        command = [str(SAMZAPY), "run", "views.properties"]
        environ = {**os.environ, "SPARK_HOME": str(program.parents[1])}
        process = subprocess.Popen(
            command, cwd=project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def until_it_owns_the_job(process):
    assert next(line for line in process.stdout if line.startswith("status page: "))


def test_a_signal_ends_the_run_in_order(start):
    process = start()
    until_it_owns_the_job(process)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "stopping: every task commits first" in said


@pytest.mark.slow
def test_the_next_run_gets_the_job_from_one_that_hangs(start, project):
    hanging = start()
    until_it_owns_the_job(hanging)
    done = subprocess.run(
        [str(SAMZAPY), "run", "views.properties", "--until-end", "--runner", "local"],
        cwd=project, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, _ = hanging.communicate(timeout=60)
    assert hanging.returncode == 0, said
