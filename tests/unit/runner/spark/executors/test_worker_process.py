import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from samzapy.coordinator.wire import AttemptProcess
from samzapy.runner.spark.worker import end_predecessor, this_process
from samzapy.strict_json import decode

_ATTEMPT = """
import signal
from samzapy.runner.spark.worker import this_process
from samzapy.strict_json import encode
print(encode(this_process(7)).decode(), flush=True)
signal.pause()
"""


@pytest.fixture
def attempt():
    """A process that has told what it would register as, and goes on."""
    process = subprocess.Popen([sys.executable, "-c", _ATTEMPT], stdout=subprocess.PIPE, text=True)
    told = decode(AttemptProcess, process.stdout.readline().encode())
    yield process, told
    process.kill()
    process.communicate()


def test_a_stopped_predecessor_on_this_machine_is_killed(attempt):
    process, told = attempt
    assert told.pid == process.pid
    os.kill(process.pid, signal.SIGSTOP)
    assert end_predecessor(told)
    assert process.wait(60) == -signal.SIGKILL


def test_no_process_but_the_living_predecessor_is_killed(attempt):
    process, told = attempt
    assert not end_predecessor(replace(told, started=1))
    assert not end_predecessor(replace(told, machine="another boot pid:[1]"))
    assert process.poll() is None
    process.kill()
    process.wait()
    assert not end_predecessor(told)
    assert not end_predecessor(this_process(None))


_PARENT = """
import os, signal
from samzapy.runner.spark.worker import die_with_parent
ready, told = os.pipe()
if os.fork():
    os.read(ready, 1)
    os.kill(os.getpid(), signal.SIGKILL)
die_with_parent()
os.write(told, b"x")
signal.pause()
"""


def test_a_worker_ends_with_the_process_that_forked_it():
    alive, inherited = os.pipe()
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], pass_fds=(inherited,))
    os.close(inherited)
    parent.wait()
    # The read returns when nobody holds the pipe's other end any more: the forked worker did, until it ended.
    assert os.read(alive, 1) == b""
    os.close(alive)
