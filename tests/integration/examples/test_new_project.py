"""What a newcomer types first, exactly as the output of `samzapy init` and the project's README say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow]

KINDS = ["count", "windows", "join", "batch", "pipeline", "cdc"]


@pytest.fixture
def shell(tmp_path):
    """Runs lines in a folder below an empty one, with this Python's console scripts; their standard output."""
    scripts, root = str(Path(sys.executable).parent), str(Path(__file__).parents[3])
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": root}

    def run(*lines, folder="."):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=tmp_path / folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=170,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.spark
def test_a_new_project_can_be_tested_and_run_at_once(shell):
    commands = [line.strip() for line in shell("samzapy init hello").splitlines()[1:]]
    assert commands[:3] == ["cd hello", "python -m pytest", "samzapy run hello.properties --until-end"]
    assert "10 passed" in shell(commands[1], folder="hello")
    assert shell(commands[2], folder="hello").startswith("1,000 messages in ")
    sent = [json.loads(line) for line in shell(commands[3], folder="hello").splitlines()]
    assert [each["offset"] for each in sent] == [0, 1, 2]
    assert {each["message"]["visits"] for each in sent} <= {1, 2, 3}


@pytest.mark.kafka
@pytest.mark.parametrize("kind", KINDS)
def test_a_project_moves_to_kafka_by_the_keys_in_its_job_file(shell, kafka, unique_topic, tmp_path, kind):
    name = unique_topic(kind).replace("-", "_").lower()[-40:].lstrip("_0123456789")
    shell(f"samzapy init {name} --template {kind}")
    job = tmp_path / name / f"{name}.properties"
    text = job.read_text().replace("127.0.0.1:9092", kafka).replace("systems.local.samza.factory=local\n", "")
    job.write_text(text.replace("#   systems.", "systems."))
    readme = (tmp_path / name / "README.md").read_text()
    again = [line.strip() for line in readme.partition("## Begin again")[2].splitlines() if line.startswith("    ")]
    read = next(line.strip() for line in readme.splitlines() if line.startswith("    samzapy topic read"))
    shell(*again, folder=name)
    shell(f"samzapy run {name}.properties --until-end --runner local", folder=name)
    assert len(shell(read, folder=name).splitlines()) == 3
