"""What a user may get wrong, through the command: one line that says what and what is allowed, the exit code, and
nothing written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.cli.main import cli
from samzapy.system.local.factory import LocalSystemFactory

SETTINGS = SystemSettings("local", "local", properties={"path": "log.db"})
JOB = {
    "job.name": "bad",
    "task.class": "bad_tasks:Idle",
    "task.inputs": "local.in",
    "systems.local.samza.factory": "local",
    "systems.local.path": "log.db",
    "systems.local.samza.key.serde": "string",
    "systems.local.samza.msg.serde": "string",
    "systems.local.samza.offset.default": "oldest",
}
STORE = {
    "stores.s.factory": "inmemory",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "local.s-changes",
}
COMMANDS = {"check": ["check", "job.properties"], "run": ["run", "job.properties", "--runner", "local", "--until-end"]}
both_commands = pytest.mark.parametrize("command", COMMANDS)


class Workplace:
    """A folder with a local system (one input of four partitions) and a job file."""

    def __init__(self, folder):
        self.folder = folder
        self.admin = LocalSystemFactory().admin(SETTINGS, "test")
        self.admin.create(StreamSpec("in", 4))

    def write(self, changes=()):
        pairs = {**JOB, **dict(changes)}
        text = "".join(f"{key}={value}\n" for key, value in pairs.items() if value is not None)
        (self.folder / "job.properties").write_text(text)

    def call(self, *arguments, changes=(), stdin=None):
        """Write the job with these changes and run a command line; (exit code, standard error's lines, output)."""
        self.write(changes)
        done = CliRunner().invoke(cli, list(arguments), input=stdin)
        return done.exit_code, done.stderr.splitlines(), done.stdout

    def contents(self):
        """Every file and every stream with its offsets."""
        files = sorted(
            str(p.relative_to(self.folder))
            for p in self.folder.rglob("*")
            if not p.name.startswith("log.db-") and "__pycache__" not in p.parts
        )
        streams = {}
        for stream in self.admin.list_streams():
            count = self.admin.describe(stream).partitions
            ssps = [SystemStreamPartition("local", stream, number) for number in range(count)]
            streams[stream] = self.admin.offsets(ssps)
        return files, streams


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGGED_STORE_BASE_DIR", raising=False)
    made = Workplace(tmp_path)
    yield made
    made.admin.close()


@pytest.fixture
def refused(place):
    """Calls a command and checks that it wrote nothing; its exit code and error lines."""

    def call(command, changes=(), code=2):
        place.write(changes)
        before = place.contents()
        found, lines, _ = place.call(*COMMANDS[command], changes=changes)
        assert found == code, lines
        assert place.contents() == before
        assert not any("Traceback" in line for line in lines)
        return lines

    return call


#: One of each kind; `tests/unit/config` has the others.
CONFIGURATION = [
    ({"job.name": None}, "job.name: required, e.g. page-views"),
    (
        {"task.class": "no_such_module:MyTask"},
        "task.class: cannot import no_such_module (ModuleNotFoundError: No module",
    ),
    ({"task.class": "bad_tasks:NOT_A_CLASS"}, "task.class: bad_tasks.NOT_A_CLASS is not a class"),
    ({"task.class": "bad_tasks:NoTask"}, "task.class: NoTask must be a StreamTask that defines process("),
    ({"task.class": "bad_tasks:Abstract"}, "task.class: Abstract must define process("),
    ({"systems.local.synchronous": "off"}, "systems.local.synchronous: normal or full, got 'off'"),
]


@both_commands
@pytest.mark.parametrize(("changes", "message"), CONFIGURATION)
def test_a_wrong_job_file_is_refused_with_key_value_and_what_is_allowed(refused, command, changes, message):
    lines = [line for line in refused(command, changes) if line.startswith("error: ")]
    assert [line for line in lines if line.startswith(f"error: {message}")], lines


def test_an_unknown_key_warns_and_strict_refuses(place):
    changes = {"task.comit.ms": "1000"}
    code, lines, _ = place.call(*COMMANDS["check"], changes=changes)
    assert (code, lines) == (0, ["warning: task.comit.ms: unknown key; did you mean task.commit.ms?"])
    for command in COMMANDS.values():
        code, lines, _ = place.call(*command, "--strict", changes=changes)
        assert (code, lines) == (2, ["error: task.comit.ms: unknown key; did you mean task.commit.ms?"])


def test_what_a_module_prints_does_not_mix_with_the_output(place, monkeypatch, tmp_path):
    (tmp_path / "module_that_prints.py").write_text("print('noise')\nfrom bad_tasks import Idle\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, lines, output = place.call(*COMMANDS["check"], changes={"task.class": "module_that_prints:Idle"})
    assert (code, lines) == (0, ["noise"])
    assert "noise" not in output


FAILING_TASKS = [
    ("UnknownStore", "sessions"),
    ("Raising", "ValueError: no such airline"),
    ("Interrupting", "KeyboardInterrupt"),
]


@pytest.mark.parametrize(("name", "message"), FAILING_TASKS)
def test_a_task_that_fails_ends_the_run_with_its_cause_and_commits_nothing(place, name, message):
    place.call("topic", "write", "local.in", "--path", "log.db", stdin="k\tv\n")
    changes = {**STORE, "task.class": f"bad_tasks:{name}"}
    found, lines, _ = place.call(*COMMANDS["run"], changes=changes)
    assert found == 1, lines
    assert any(line.startswith("error: ") and message in line for line in lines), lines
    changelog = [SystemStreamPartition("local", "s-changes", number) for number in range(4)]
    assert all(ends.upcoming == 0 for ends in place.admin.offsets(changelog).values())


def samzapy(*arguments, **options):
    """A process of the command."""
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("samzapy")), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        **options,
    )


def test_a_reader_that_goes_away_is_no_error(place):
    place.call("topic", "write", "local.in", "--path", "log.db", stdin="k\tv\n" * 50_000)
    process = samzapy("topic", "read", "local.in", "--path", "log.db")
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


@pytest.fixture
def interruptible():
    """A shell starts background commands with interrupts ignored, and their children inherit it: not these."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_quietly_with_130(place, interruptible):
    place.call("topic", "write", "local.in", "--path", "log.db", stdin="k\tv\n")
    process = samzapy("topic", "read", "local.in", "--path", "log.db", "--follow")
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1].strip() == b""
    assert process.returncode == 130


def test_debug_shows_the_traceback_wherever_it_stands(place):
    for arguments in (["--debug", "check", "none.properties"], ["check", "none.properties", "--debug"]):
        code, lines, _ = place.call(*arguments)
        assert code == 2
        assert "Traceback (most recent call last):" in lines
        assert lines[-1] == "error: config: file not found: none.properties"
