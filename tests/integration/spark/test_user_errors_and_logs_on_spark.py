"""An exception of the user's code, and its log lines, on Spark."""

import json

import pytest
from click.testing import CliRunner
from rigs.job_process import JobProcess

from samzapy.cli.main import cli

TASK = """
import logging

from samzapy import StreamTask

log = logging.getLogger(__name__)


class Task(StreamTask):
    def process(self, envelope, collector, coordinator):
        log.info("user %s", envelope.message["user"])
"""


@pytest.fixture
def samzapy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments, stdin=None):
        done = CliRunner().invoke(cli, list(arguments), input=stdin)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    return call


@pytest.mark.spark
@pytest.mark.slow
def test_a_users_exception_ends_the_job_after_four_attempts_with_its_line(tmp_path, samzapy):
    (tmp_path / "visits.py").write_text(TASK)
    (tmp_path / "job.properties").write_text(
        """
job.name=visits
job.log.format=json
task.class=visits:Task
task.inputs=local.in
systems.local.samza.factory=local
systems.local.default.stream.samza.msg.serde=json
systems.local.default.stream.samza.offset.default=oldest
"""
    )
    samzapy("topic", "create", "local.in", "--partitions", "1", "--job", "job.properties")
    samzapy("topic", "write", "local.in", "--job", "job.properties", stdin='{"user": "ann"}\n{"name": "bob"}\n')
    job = JobProcess(tmp_path, "job.properties", "--py-files", "visits.py")
    try:
        assert job.wait(150) == 1
    finally:
        job.close()
    assert (
        "error: container 0: Partition 0: process of local.in[0]@1 failed: KeyError: 'user' (visits.py:11); "
        "failed attempts of this kind: 4"
    ) in job.errors
    assert "attempt 5" not in job.errors
    printed = [json.loads(line) for line in job.errors.splitlines() if line.startswith("{")]
    users = [line for line in printed if line["logger"] == "visits"]
    assert (users[0]["message"], users[0]["level"], users[0]["container"]) == ("user ann", "INFO", "0")
    assert (users[0]["task"], users[0]["position"]) == ("Partition 0", "local.in[0]@0")
    (traced,) = [line for line in printed if "Traceback" in line["message"]]
    assert traced["message"].endswith("KeyError: 'user'")
    own = [json.loads(line) for line in samzapy("logs", "job.properties", "--container", "0").splitlines()]
    assert sum("traceback" in line for line in own) == 4
    drivers = [json.loads(line) for line in samzapy("logs", "job.properties").splitlines()]
    assert "user ann" in {line["message"] for line in drivers}
