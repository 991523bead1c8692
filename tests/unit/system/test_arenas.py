"""Memory for librdkafka's threads, in a process of its own: the setting is for good."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")

#: Starts many threads, and counts the arenas while all of them are there.
PROGRAM = """
import ctypes, sys, threading
from samzapy.system.kafka.client import give_threads_arenas
given = give_threads_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
here = threading.Barrier(101)
def allocate():
    libc.malloc(ctypes.c_size_t(10_000))
    here.wait()
    here.wait()
threads = [threading.Thread(target=allocate) for _ in range(100)]
for thread in threads: thread.start()
here.wait()
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
here.wait()
print(given, open(sys.argv[1]).read().count("<heap nr="))
"""


def arenas(tmp_path, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | variables
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "malloc.xml")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    given, count = done.stdout.split()
    return given == "True", int(count)


def test_each_of_a_hundred_threads_has_an_arena(tmp_path):
    given, count = arenas(tmp_path)
    assert given
    assert count > 100


def test_the_user_may_say_how_many_arenas_there_are(tmp_path):
    given, count = arenas(tmp_path, MALLOC_ARENA_MAX="3")
    assert not given
    assert count <= 3
