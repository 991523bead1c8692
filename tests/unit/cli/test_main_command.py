"""The command as a whole: help, version, what becomes of errors."""

import json
import os
import shutil
import subprocess
import sys

import click
import pytest

from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, StoreLocked, TaskFailed


def test_help_needs_none_of_what_commands_run():
    script = (
        "import sys\n"
        "from samzapy.cli.main import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'confluent_kafka', 'rocksdict', 'uvicorn', 'starlette'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FAILURES = [
    (
        ConfigError([ConfigProblem("a", "1", "x"), ConfigProblem("b", None, "y")]),
        2,
        "error: a: x, got '1'\nerror: b: y\n",
    ),
    (EnvironmentFailure("no broker"), 3, "error: no broker\n"),
    (StoreLocked("held by 7"), 3, "error: held by 7\n"),
    (TaskFailed("k.s[0]@1: ValueError"), 1, "error: k.s[0]@1: ValueError\n"),
    (ValueError("two\nlines"), 1, "error: internal: ValueError: two lines (--debug shows where)\n"),
    (FileNotFoundError(2, "No such file or directory", "a/b"), 3, "error: a/b: No such file or directory\n"),
    (FileNotFoundError(2, "No such file or directory"), 3, "error: the current folder: No such file or directory\n"),
    (OSError("nothing known"), 1, "error: internal: OSError: nothing known (--debug shows where)\n"),
    (KeyboardInterrupt(), 130, ""),
    (click.Abort(), 130, ""),
    (click.UsageError("no"), 2, "error: no (samzapy check --help)\n"),
]


@pytest.fixture
def failing(monkeypatch):
    """Makes `samzapy check` raise."""

    def set_up(error):
        @click.command()
        def check():
            raise error

        monkeypatch.setattr("samzapy.cli.commands.check.check", check)

    return set_up


@pytest.mark.parametrize(("error", "code", "said"), FAILURES)
def test_an_error_becomes_a_line_each_and_the_exit_code_of_its_class(samzapy, failing, error, code, said):
    failing(error)
    found, output, errors = samzapy("check")
    assert (found, output) == (code, "")
    assert errors.strip() == said.strip()


@pytest.mark.parametrize("arguments", [["--debug", "check"], ["check", "--debug"]])
def test_debug_shows_where(samzapy, failing, arguments):
    failing(TaskFailed("k.s[0]@1: ValueError"))
    code, _, errors = samzapy(*arguments)
    assert code == 1
    assert errors.startswith("Traceback (most recent call last):")
    assert errors.endswith("error: k.s[0]@1: ValueError\n")


def test_a_completion_after_a_misspelt_command_shows_no_error(samzapy, monkeypatch):
    for name, value in {"_SAMZAPY_COMPLETE": "bash_complete", "COMP_WORDS": "samzapy chekc", "COMP_CWORD": "2"}.items():
        monkeypatch.setenv(name, value)
    assert samzapy()[::2] == (0, "")


PRINTING = """\
import sys, samzapy
print("imported")

class Printing(samzapy.StreamTask):
    def process(self, envelope, collector, coordinator):
        print("processed")
        sys.stdout.close()
        sys.__stdout__.close()
"""


def test_a_run_whose_task_prints_and_closes_has_its_outcome_alone_on_output(ran, tmp_path):
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    (tmp_path / "printing.py").write_text(PRINTING)
    keys = ("job.name=printing", "task.class=printing:Printing", "stores.counts.changelog=local.printing-changes")
    program = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "run", "job.properties", "--json"]
    options = ["--runner", "local", "--until-end", *(part for key in keys for part in ("-c", key))]
    done = subprocess.run([*program, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["processed"] > 0, done.stderr
    assert {"imported", "processed"} <= {*done.stderr.splitlines()}


def keys_with(**streams):
    """Run `samzapy keys task.commit.ms` as a process with these streams and variables."""
    program = "from samzapy.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", program, "keys", "task.commit.ms"], check=False, **streams)


def test_without_standard_output_a_command_does_its_work():
    closed = "exec >&-; exec \"$0\" -c 'from samzapy.cli.main import main; main()' keys task.commit.ms"
    done = subprocess.run(["sh", "-c", closed, sys.executable], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_below_standard_output_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123  # a device
        done = keys_with(stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (3, "error: standard output: No space left on device\n")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_without_room_for_its_outcome_ends_with_the_outcome(ran, tmp_path, form):
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    program = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "run", "job.properties", *form]
    with open("/dev/full", "w") as full:  # noqa: PTH123  # a device
        done = subprocess.run(
            [*program, "--runner", "local", "--until-end"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "warning: standard output: No space left on device" in done.stderr.splitlines()


def test_the_exit_code_does_not_depend_on_who_reads_the_error():
    program = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "check", "nope.properties"]
    with open("/dev/full", "w") as full:  # noqa: PTH123  # a device
        assert subprocess.run(program, stderr=full, check=False).returncode == 2
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as unread:
        assert subprocess.run(program, stderr=unread, check=False).returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("drain", "job.properties", "--timeout", "nan"),
        ("verify", "--soak", "NaN"),
        ("bench", "store", "f", "--scale", "nan"),
        ("bench", "events", "f", "--exponent", "nan"),
    ],
)
def test_a_number_that_is_none_is_refused(samzapy, arguments):
    code, _, errors = samzapy(*arguments)
    assert code == 2
    assert "expected a number, got " in errors
