"""`samzapy replay`: its output, its exit codes, the debugger, and two versions of a task side by side."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import replayed_job
from click.testing import CliRunner

from samzapy.cli.main import cli
from samzapy.errors import RestoreStalled, RetriableError
from samzapy.replay.user_class import other_version


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
    for arguments in (["-c", "task.class=talking:Talking"], ["--diff", "talking:Talking"]):
        sys.modules.pop("talking", None)
        code, output, errors = replay("--until", "2", "--json", *arguments)
        assert code == 0
        assert all(isinstance(json.loads(line), dict) for line in output.splitlines())
        assert {"imported", "init", "close"} <= set(errors.splitlines())


def test_a_replay_that_does_not_fail_has_exit_code_0(replay):
    assert replay("--until", "2")[0] == 0


def debugged(job, *arguments, typed):
    """In a process of its own, with `typed` at its terminal: click's runner keeps debuggers out."""
    command = [sys.executable, "-m", "samzapy", "replay", str(job.file), *arguments]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, input=typed, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    return done.returncode, done.stdout


def test_the_debugger_opens_where_the_message_has_failed(replay):
    code, output = debugged(replay.job, "--until", "3", "--pdb", typed="p message\nq\n")
    assert "raise ValueError" in output
    assert "{'bad': 'this'}" in output
    assert code == 1


def test_the_debugger_opens_before_the_last_message(replay):
    code, output = debugged(replay.job, "--until", "2", "--break", typed="p envelope.key\nc\n")
    assert "-> self.count(envelope, collector, coordinator)" in output
    assert "'/b'" in output
    assert code == 0


@pytest.fixture
def version(tmp_path):
    """Writes another version of the task; returns what `--diff` takes."""

    def write(body):
        text = "from replayed_job import *\n\nclass Other(Counting, StreamTask):\n"
        text += "    def process(self, envelope, collector, coordinator):\n" + body
        (tmp_path / "other.py").write_text(text)
        return f"{tmp_path}/other.py:Other"

    return write


def test_a_version_that_does_the_same_has_exit_code_0(replay, version):
    same = version("        self.count(envelope, collector, coordinator)\n")
    code, output, errors = replay("--until", "2", "--from-empty", "--from", "0", "--diff", same)
    assert (code, output) == (0, "")
    assert "the two versions do the same in 3 steps" in errors


def test_a_version_that_differs_is_shown_with_its_differences(replay, version):
    other = version(
        "        self.count(envelope, collector, coordinator)\n"
        "        if envelope.key == '/b':\n"
        "            self.counts.put('/b', self.counts.get('/b') + 10)\n"
    )
    code, output, errors = replay("--until", "2", "--diff", other)
    rows = [" ".join(line.split()) for line in output.splitlines()]
    assert code == 1
    assert rows[2:4] == ["local.in[0]@2 - state counts /b 1 -> 2", "+ state counts /b 1 -> 12"]
    assert errors.splitlines()[-1] == "error: the two versions differ in 1 of 1 steps"
    code, output, _ = replay("--until", "2", "--diff", other, "--json")
    found = json.loads(output)
    assert code == 1
    assert [found[side]["changes"][0]["after"] for side in ("before", "after")] == [2, 12]


@pytest.mark.parametrize("failure", [RetriableError("the leader is away"), RestoreStalled("no records")])
@pytest.mark.parametrize("step", ["samzapy.replay.plan.plan_replay", "samzapy.replay.session.Replay.steps"])
@pytest.mark.parametrize("diff", [(), ("--diff", f"{replayed_job.__name__}:DoublingTask")])
def test_a_system_that_fails_is_not_taken_for_the_answer(replay, monkeypatch, failure, step, diff):
    def fails(*_):
        raise failure

    monkeypatch.setattr(step, fails)
    code, _, errors = replay("--until", "2", *diff)
    assert (code, errors.splitlines()[-1]) == (3, f"error: {failure}")


def test_a_version_that_repairs_the_failure_is_a_difference(replay, version):
    other = version(
        "        if not envelope.message.get('bad'):\n            self.count(envelope, collector, coordinator)\n"
    )
    code, output, _ = replay("--until", "3", "--diff", other)
    assert code == 1
    assert "- failed" in output


def test_a_version_in_batches_is_compared_as_a_whole(replay):
    arguments = ("--until", "2", "--from-empty", "--from", "0", "--diff")
    assert replay(*arguments, f"{replayed_job.__name__}:CountingBatches")[0] == 0
    code, output, _ = replay(*arguments, f"{replayed_job.__name__}:DoublingTask")
    assert code == 1
    assert "local.in[0]@1" in output


def one_error(found):
    code, output, errors = found
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert (output, len(lines)) == ("", 1), errors
    return code, lines[0]


def test_bad_arguments_are_one_line_each(replay, tmp_path):
    assert one_error(replay("--until", "x"))[0] == 2
    assert one_error(replay("--until", "9"))[0] == 3
    assert one_error(replay("--until", "3", "--task", "Partition 9"))[0] == 2
    assert one_error(replay("--until", "3", "--json", "--pdb"))[0] == 2
    assert one_error(replay("--until", "3", "--diff", "x", "--pdb"))[0] == 2
    code, line = one_error(replay("--until", "3", "--diff", "nowhere.py:Task"))
    assert (code, line) == (2, "error: --diff: there is no file nowhere.py, got 'nowhere.py:Task'")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    code, line = one_error(replay("--until", "3", "--diff", f"{tmp_path}/broken.py:Task"))
    assert code == 2
    assert "cannot be imported (ModuleNotFoundError" in line


def test_another_version_from_a_file_is_a_class_of_its_own(version):
    path = version("        pass\n")
    assert other_version(path) is not other_version(path)
    assert issubclass(other_version(path), replayed_job.Counting)


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
