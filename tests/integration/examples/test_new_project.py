"""What a newcomer types first, exactly as the output of `samzapy init` says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture
def shell(tmp_path):
    """Runs a command line in a folder below an empty one, with this Python's console scripts; its standard output."""
    scripts, root = str(Path(sys.executable).parent), str(Path(__file__).parents[3])
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": root}

    def run(command, folder="."):
        done = subprocess.run(
            command.split(),
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


def test_a_new_project_can_be_tested_and_run_at_once(shell):
    commands = [line.strip() for line in shell("samzapy init hello").splitlines()[1:]]
    assert commands[:3] == ["cd hello", "pytest", "samzapy run hello.properties --until-end"]
    assert "3 passed" in shell(commands[1], "hello")
    assert shell(commands[2], "hello").startswith("6 messages in ")
    sent = [json.loads(line) for line in shell(commands[3], "hello").splitlines()]
    assert sorted((each["key"], each["message"]["visits"]) for each in sent) == [
        ("ann", 1),
        ("ann", 2),
        ("ann", 3),
        ("eve", 1),
        ("gus", 1),
        ("gus", 2),
    ]


def test_a_new_pipeline_can_be_tested_and_run_at_once(shell):
    commands = [line.strip() for line in shell("samzapy init hello --pipeline").splitlines()[1:]]
    assert "3 passed" in shell(commands[1], "hello")
    assert shell(commands[2], "hello").startswith("12 messages in ")
    sent = [json.loads(line) for line in shell(commands[3], "hello").splitlines()]
    assert {each["key"]: each["message"]["visits"] for each in sent} == {"/": 3, "/docs": 2, "/download": 1}
