"""Fail points of a process that is stopped: it goes on exactly there."""

import signal
import subprocess
import sys

import psutil

from samzapy.verify.processes import until

ROUNDS = 30
#: A thread beside the main one, as a container has, passes the point and says so.
PASSES = """
import sys, threading
from samzapy import failpoints
def passes():
    for number in range(int(sys.argv[1])):
        failpoints.arm("here", 1, "stop")
        failpoints.reach("here")
        print(number, flush=True)
thread = threading.Thread(target=passes)
thread.start()
thread.join()
"""


def test_a_thread_that_reaches_a_stop_does_nothing_more_until_the_process_goes_on(tmp_path):
    said = tmp_path / "said"
    with said.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", PASSES, str(ROUNDS)], stdout=output)
    try:
        for number in range(ROUNDS):
            until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, said.read_text, 30)
            assert said.read_text().split() == [str(passed) for passed in range(number)]
            process.send_signal(signal.SIGCONT)
            # A process that has not gone on yet would be taken for stopped again.
            until(lambda passed=number: len(said.read_text().split()) > passed, said.read_text, 30)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
