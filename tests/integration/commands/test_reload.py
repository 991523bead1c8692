"""`samzapy run --reload`: a change of the task's file starts the job again, and its state stays."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from samzapy.cli.main import cli

JOB = """\
job.name=counts
task.class=counting:Counts
task.inputs=local.in
systems.local.samza.factory=local
systems.local.path=log.db
systems.local.samza.key.serde=string
systems.local.samza.msg.serde=string
systems.local.samza.offset.default=oldest
stores.counts.factory=inmemory
stores.counts.key.serde=string
stores.counts.msg.serde=json
stores.counts.changelog=local.counts-log
"""
TASK = """\
from samzapy import InitableTask, StreamTask
from parts.step import STEP

class Counts(StreamTask, InitableTask):
    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        count = (self.counts.get(envelope.key) or 0) + TIMES * STEP
        self.counts.put(envelope.key, count)
        print(f"count {count}", flush=True)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the job."""
    monkeypatch.chdir(tmp_path)
    Path("job.properties").write_text(JOB)
    Path("parts").mkdir()
    write_step("1")
    arguments = ["topic", "create", "local.in", "--partitions", "1", "--path", "log.db"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0


def write_task(times):
    Path("counting.py").write_text(TASK.replace("TIMES", times))


def write_step(step):
    Path("parts", "step.py").write_text(f"STEP = {step}\n")


def send():
    done = CliRunner().invoke(cli, ["topic", "write", "local.in", "--path", "log.db"], input="k\tv\n")
    assert done.exit_code == 0


def test_a_changed_task_starts_again_with_its_state(folder):
    command = [str(Path(sys.executable).with_name("samzapy")), "run", "job.properties", "--runner", "local", "--reload"]
    again = ".py has changed: starting again"
    write_task("1")
    send()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said = iter(process.stdout)
        try:
            assert any("count 1" in line for line in said)
            write_task("10")
            assert any(again in line for line in said)
            send()
            assert any("count 11" in line for line in said)
            write_step("10 +")
            assert any(again in line for line in said)
            assert any("error: task.class: cannot import counting (SyntaxError" in line for line in said)
            write_step("10")
            assert any(again in line for line in said)
            send()
            assert any("count 111" in line for line in said)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("options", "told"), [(["--reload"], "add --runner local"), (["--master", "local"], "leave out")]
)
def test_only_a_local_run_starts_again_and_it_takes_no_master(folder, options, told):
    runner = [] if "--reload" in options else ["--runner", "local"]
    done = CliRunner().invoke(cli, ["run", "job.properties", *runner, *options])
    assert (done.exit_code, told in done.stderr) == (2, True)
