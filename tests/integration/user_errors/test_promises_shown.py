"""What weakens a guarantee, as the command shows it: in `check`, at the start of a run, and at its end."""

import json

import pytest
from click.testing import CliRunner

from samzapy.api.stream import SystemStream
from samzapy.bench.events import load_events
from samzapy.cli.main import cli
from samzapy.config.loader import load_job

JOB = {
    "job.name": "promises",
    "job.default.system": "s",
    "task.class": "bad_tasks:Raising",
    "task.inputs": "s.in",
    "task.error.process.policy": "skip",
    "systems.s.samza.key.serde": "string",
    "systems.s.samza.msg.serde": "string",
    "systems.s.samza.offset.default": "oldest",
    "stores.s.factory": "inmemory",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "s.s-changes",
    "stores.s.changelog.replication.factor": "1",
    "task.checkpoint.replication.factor": "1",
    "metrics.reporters": "snap",
    "metrics.reporter.snap.class": "snapshot",
    "metrics.reporter.snap.stream": "s.metrics",
}
RUN = ["run", "job.properties", "--runner", "local", "--until-end"]


@pytest.fixture(params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def call(request, tmp_path, monkeypatch, unique_topic):
    """Calls a command on a job with three inputs; (standard error's lines, output)."""
    monkeypatch.chdir(tmp_path)
    names = {name: unique_topic(name) for name in ("in", "s-changes", "metrics")}
    keys = {
        key: next((f"s.{new}" for old, new in names.items() if value == f"s.{old}"), value)
        for key, value in JOB.items()
    }
    keys["job.name"] = unique_topic("job")[-60:]
    keys["systems.s.samza.factory"] = request.param
    if request.param == "kafka":
        keys["systems.s.consumer.bootstrap.servers"] = request.getfixturevalue("kafka")
    else:
        keys["systems.s.path"] = str(tmp_path / "log.db")
    (tmp_path / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    stream = SystemStream("s", names["in"])
    load_events(load_job(keys).systems["s"], stream, ((b"k", b"v") for _ in range(3)), partitions=1)

    def command(*arguments):
        done = CliRunner().invoke(cli, list(arguments))
        assert done.exit_code == 0, done.stderr
        return done.stderr.splitlines(), done.stdout

    command.system, command.names = request.param, names
    return command


def test_a_run_says_what_it_does_not_promise_and_what_came_of_it(call):
    lines, output = call(*RUN)
    (weaker,) = [line for line in lines if line.startswith("weaker than ")]
    assert weaker == (
        "weaker than at-least-once: task.error.process.policy: messages that fail are lost, counted as "
        "errors.process.skipped"
    )
    assert output.endswith("; 3 inputs skipped (process)\n")
    _, output = call(*RUN, "--json")
    told = json.loads(output)
    assert told["counts"] == {}
    assert told["downgrades"][0]["key"] == "task.error.process.policy"
