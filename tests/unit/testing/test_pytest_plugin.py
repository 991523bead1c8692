from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it there

ROOT = Path(__file__).parents[3]
PLUGIN = "samzapy.pytest_plugin"

USERS_TEST = """
    from samzapy import OutgoingMessageEnvelope, StreamTask, SystemStream
    from samzapy.api.system import StreamSpec
    from samzapy.system.local.factory import MemoryCluster

    JOB = {"task.inputs": "sys.in"}
    seen = []

    class Passing(StreamTask):
        def process(self, envelope, collector, coordinator):
            collector.send(OutgoingMessageEnvelope(SystemStream("sys", "out"), envelope.message))

    def test_the_fixtures_work(task_driver, test_runner, manual_clock, memory_cluster):
        first, second = task_driver(Passing, JOB, clock=manual_clock), task_driver(Passing, JOB, partitions=2)
        first.send("in", b"x")
        assert (first.outputs("out").messages, second.outputs("out").messages) == ([b"x"], [])
        assert first.outputs("out")[0].event_time == manual_clock.wall_ms()
        assert test_runner.of(Passing).with_config(JOB).with_input("in", [b"y"]).run().outputs("out").messages == [b"y"]
        assert memory_cluster.admin().list_streams() == []
        assert memory_cluster.admin().create(StreamSpec("s", 1))
        seen.extend([first, second, memory_cluster])

    def test_what_they_opened_is_closed_and_the_next_test_has_its_own(memory_cluster):
        assert memory_cluster.admin().list_streams() == []
        assert not any(driver.running for driver in seen[:2])
        assert [cluster for cluster in MemoryCluster._named] == [memory_cluster.name]
"""


def run_pytest(folder, *args):
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_its_fixtures_give_a_test_what_it_needs_and_close_it(tmp_path):
    (tmp_path / "test_users_task.py").write_text(textwrap.dedent(USERS_TEST))
    done = run_pytest(tmp_path, "-Werror")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_importing_it_imports_no_client_no_spark_and_no_engine():
    heavy = ["pyspark", "confluent_kafka", "rocksdict", "click", "samzapy.testing", "samzapy.container"]
    code = f"import sys, {PLUGIN}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_distribution_names_it_to_pytest_by_its_module_so_that_it_can_be_named_again():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {PLUGIN: PLUGIN}
    assert hasattr(import_module(PLUGIN), "task_driver")
