"""macOS has no /proc, parent-death signal, handles of processes or mallopt: what uses them goes on without."""

import subprocess
import sys

MACHINE = """
import ctypes, os, pathlib, types

def without_proc(method):
    def call(path, *arguments, **options):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return method(path, *arguments, **options)
    return call

# Not of `os.listdir`: psutil reads /proc, too, and has another way on macOS.
for name in ("read_text", "read_bytes", "iterdir"):
    setattr(pathlib.Path, name, without_proc(getattr(pathlib.Path, name)))
os.readlink = without_proc(os.readlink)
del os.pidfd_open
library = ctypes.CDLL
ctypes.CDLL = lambda name, *more, **options: library(name, *more, **options) if name else types.SimpleNamespace()
"""
JOB = """
from click.testing import CliRunner
from samzapy.cli.main import cli

def call(*arguments):
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout

call("init", "hello")
os.chdir("hello")
first = call("run", "hello.properties", "--runner", "local", "--until-end")
again = call("run", "hello.properties", "--runner", "local", "--until-end")
assert "restored" in again, again
call("ps")
"""
WORKER = """
from samzapy.clock import boot_id, process_start
from samzapy.coordinator.wire import AttemptProcess
from samzapy.runner.spark.worker import die_with_parent, end_predecessor, this_process
from samzapy.system.kafka.client import give_threads_arenas

die_with_parent()
assert (boot_id(), process_start(os.getpid()), this_process(None)) == ("", 0, None)
assert not end_predecessor(AttemptProcess("machine", 1, 1, None, None))
assert not give_threads_arenas()
"""


def run(program, folder):
    done = subprocess.run(
        [sys.executable, "-c", MACHINE + program], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_local_job_runs_and_keeps_its_state_without_linux(tmp_path):
    run(JOB, tmp_path)


def test_a_worker_goes_on_without_what_only_linux_has(tmp_path):
    run(WORKER, tmp_path)
