"""A job with a regular expression for its inputs takes a new stream on Spark: it executes itself anew."""

import json

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job
from rigs.job_process import JobProcess

from samzapy.cli.main import cli
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]


def command(*arguments, stdin=None):
    done = CliRunner().invoke(cli, [*arguments, "--job", "job.properties"], input=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout


def add_stream(name, pages):
    command("topic", "create", f"local.{name}", "--partitions", "2")
    command("topic", "write", f"local.{name}", stdin="".join(f'{page}\t{{"user": "u"}}\n' for page in pages))


def sent():
    """How often the task has counted each page."""
    found = {}
    for line in command("topic", "read", "local.out").splitlines():
        record = json.loads(line)
        found[record["key"]] = max(found.get(record["key"], 0), record["message"]["views"])
    return found


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {"task__inputs": "local.views.*", "job__container__count": "2", "job__inputs__refresh__ms": "500ms"}
    (tmp_path / "job.properties").write_text(page_view_job("views", **keys).replace("task.inputs=local.views\n", ""))
    command("topic", "create", "local.out", "--partitions", "2")
    add_stream("views", ["/a", "/b", "/c"])
    made = JobProcess(tmp_path, "job.properties", "--config", "task.commit.ms=500")
    yield made
    made.close()


def test_a_new_stream_is_read_by_the_job_that_executes_itself_anew(run):
    def check(expected):
        assert run.exit_code is None, run.errors
        return sent() == expected

    until(lambda: check({"/a": 1, "/b": 1, "/c": 1}), lambda: run.errors, 240)
    add_stream("views-2", ["/a", "/b", "/d"])
    until(lambda: check({"/a": 2, "/b": 2, "/c": 1, "/d": 1}), lambda: run.errors, 240)
    assert "local.views-2 is a new input: every task commits, and the job starts again" in run.errors
    run.terminate()
    assert run.wait() == 0, run.errors
