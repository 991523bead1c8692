import os
import subprocess
import sys

_PARENT = """
import os, signal
from samzapy.runner.spark.orphan import die_with_parent
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
