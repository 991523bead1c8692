"""Ctrl-C while something is being imported: the command ends without a word, with what a shell calls an interrupt."""

import os
import signal
import subprocess
import sys

import pytest

JOB = """\
job.name=slow
task.class=slow_tasks:Idle
task.inputs=local.in
systems.local.samza.factory=local
"""
#: Says that it is being imported, and waits for ever.
SLOW = """\
import os
with open(os.environ["SLOW_IMPORT"], "w") as told:
    told.write("here")
os.read(int(os.environ["NEVER"]), 1)
"""


@pytest.fixture
def interrupted(tmp_path):
    """Starts a command line, waits until it imports what is slow, interrupts it; (exit code, standard error)."""
    # A shell starts background commands with interrupts ignored, and their children inherit it: not these.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    told, never = tmp_path / "told", os.pipe()
    os.mkfifo(told)

    def call(*arguments):
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            pass_fds=[never[0]],
            env={**os.environ, "SLOW_IMPORT": str(told), "NEVER": str(never[0]), "PYTHONPATH": str(tmp_path)},
        )
        try:
            assert told.read_text() == "here"
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=30)[1]
        finally:
            process.kill()
            process.wait()
        return process.returncode, errors.decode()

    yield call
    signal.signal(signal.SIGINT, before)
    for end in never:
        os.close(end)


SCRIPT = ["-c", "from samzapy.__main__ import main; main()"]
COMMANDS = {"module": ["-m", "samzapy"], "script": SCRIPT}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", [["check"], ["run", "--runner", "local"]], ids=["check", "run"])
def test_the_import_of_a_task_can_be_interrupted(interrupted, tmp_path, command, what):
    (tmp_path / "slow_tasks.py").write_text(SLOW)
    (tmp_path / "job.properties").write_text(JOB)
    code, errors = interrupted(*COMMANDS[command], *what, "job.properties")
    assert (code, errors.strip()) == (130, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_import_of_the_command_itself_can_be_interrupted(interrupted, tmp_path, command):
    (tmp_path / "click.py").write_text(SLOW)
    code, errors = interrupted(*COMMANDS[command], "keys")
    assert (code, errors.strip()) == (130, "")
