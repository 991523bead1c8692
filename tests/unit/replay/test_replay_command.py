"""`samzapy replay`: its output, its exit codes, and the debugger."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from samzapy.cli.main import cli
from samzapy.errors import RestoreStalled, RetriableError


@pytest.fixture
def replay(job):
    """Calls the command for a job that fails at its fourth message: (exit code, output, standard error)."""
    job.send([("/a", {}), ("/b", {"commit": True}), ("/b", {}), ("/a", {"bad": "this"})])
    job.run()

    def call(*arguments, stdin=None):
        done = CliRunner().invoke(cli, ["replay", str(job.file), *arguments], input=stdin)
        return done.exit_code, done.stdout, done.stderr

    call.job = job
    return call


def test_a_failure_is_shown_with_its_line_after_what_led_to_it(replay):
    before = replay.job.ends()
    code, output, errors = replay("--task", "Partition 0", "--until", "local.in[0]@3")
    rows = [" ".join(line.split()) for line in output.splitlines()]
    assert rows[:5] == [
        "Replay of Partition 0",
        "at what where key value",
        "local.in[0]@2 in /b {}",
        "out local.out /b 2",
        "state counts /b 1 -> 2",
    ]
    assert rows[5] == 'local.in[0]@3 in /a {"bad":"this"}'
    assert rows[6].startswith("failed ")
    assert rows[6].endswith("ValueError: this is bad")
    assert "replayed_job.py:" in rows[6]
    assert code == 1
    first, store, last = errors.splitlines()
    assert first.startswith("Partition 0: from the commit local.__samza_checkpoint_ver_1_for_replayed_1[0]@")
    assert store == "store counts: changelog, 2 records of local.counts-log[0] up to offset 1"
    assert last.startswith("error: Partition 0: process of local.in[0]@3 failed: ValueError: this is bad (")
    assert replay.job.ends() == before


def test_the_lines_of_json_have_the_same(replay):
    code, output, _ = replay("--until", "3", "--json")
    one, two = map(json.loads, output.splitlines())
    assert code == 1
    assert one["outputs"] == [
        {"stream": "local.out", "key": "/b", "message": 2, "partition": None, "timestamp": None, "headers": {}}
    ]
    assert one["changes"] == [{"store": "counts", "key": "/b", "before": 1, "after": 2}]
    assert two["ended"]
    assert [each["exception"] for each in two["failures"]] == ["ValueError"]


def test_prints_of_the_users_code_are_not_between_the_lines_of_json(replay):
    (replay.job.file.parent / "talking.py").write_text(
        "from replayed_job import *\nfrom samzapy.api.task import ClosableTask\n\nprint('imported')\n\n\n"
        "class Talking(CountingTask, ClosableTask):\n"
        "    def init(self, context):\n        print('init')\n        super().init(context)\n\n"
        "    def close(self):\n        print('close')\n"
    )
    code, output, errors = replay("--until", "2", "--json", "-c", "task.class=talking:Talking")
    assert code == 0
    assert all(isinstance(json.loads(line), dict) for line in output.splitlines())
    assert {"imported", "init", "close"} <= set(errors.splitlines())


def debugged(job, *arguments, typed):
    """In a process of its own, with `typed` at its terminal: click's runner keeps debuggers out."""
    command = [sys.executable, "-m", "samzapy", "replay", str(job.file), *arguments]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, input=typed, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("arguments", "typed", "line", "value", "ends_with"),
    [
        (("3", "--pdb"), "p message\nq\n", "raise ValueError", "{'bad': 'this'}", 1),
        (("2", "--break"), "p envelope.key\nc\n", "-> self.count(envelope, collector, coordinator)", "'/b'", 0),
    ],
)
def test_the_debugger_opens_at_the_message(replay, arguments, typed, line, value, ends_with):
    code, output = debugged(replay.job, "--until", *arguments, typed=typed)
    assert (line in output, value in output, code) == (True, True, ends_with)


@pytest.mark.parametrize("failure", [RetriableError("the leader is away"), RestoreStalled("no records")])
@pytest.mark.parametrize("step", ["samzapy.replay.plan.plan_replay", "samzapy.replay.attempt.Replay.steps"])
def test_a_system_that_fails_is_not_taken_for_the_answer(replay, monkeypatch, failure, step):
    def fails(*_):
        raise failure

    monkeypatch.setattr(step, fails)
    code, _, errors = replay("--until", "2")
    assert (code, errors.splitlines()[-1]) == (3, f"error: {failure}")


def one_error(found):
    code, output, errors = found
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert (output, len(lines)) == ("", 1), errors
    return code, lines[0]


def test_bad_arguments_are_one_line_each(replay):
    assert one_error(replay("--until", "x"))[0] == 2
    assert one_error(replay("--until", "9"))[0] == 3
    assert one_error(replay("--until", "3", "--task", "Partition 9"))[0] == 2
    assert one_error(replay("--until", "3", "--json", "--pdb"))[0] == 2


def test_typed_messages_are_decoded_to_their_class(new_job):
    job = new_job("in", "out", task__class="typed_replay:TypedTask")
    job.send([("/a", {"user": "ann"}), ("/a", {"user": 7})])
    _, output, _ = call(job, "--until", "0", "--from-empty")
    assert "state  counts  /a   absent -> 3" in output
    code, output, errors = call(job, "--until", "1", "--from-empty")
    assert code == 1
    assert "local.in[0]@1: message: $.user" in errors


def call(job, *arguments):
    done = CliRunner().invoke(cli, ["replay", str(job.file), *arguments])
    return done.exit_code, done.stdout, done.stderr
