"""The holder of a store's lock is found by the device and the inode of the lock's file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samzapy.storage.local.directory import locking_pid

#: Locks a file as RocksDB does, says so, and waits for the end of its input.
HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def stores(tmp_path):
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "LOCK").touch()
        made.append(tmp_path / name)
    return made


def test_the_process_that_holds_a_lock_is_named_for_its_own_store_only(stores):
    held, free = stores
    command = [sys.executable, "-c", HOLD, str(held / "LOCK")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        assert locking_pid(held) == holder.pid
        assert locking_pid(free) is None
        holder.stdin.close()
    assert locking_pid(held) is None


def test_the_same_inode_on_another_device_and_a_waiter_are_no_holders(stores, monkeypatch):
    store, _ = stores
    found = (store / "LOCK").stat()
    major, minor = os.major(found.st_dev), os.minor(found.st_dev)
    lines = [
        f"1: POSIX  ADVISORY  WRITE 11 {major:02x}:{minor + 1:02x}:{found.st_ino} 0 EOF",
        f"2: POSIX  ADVISORY  WRITE 12 {major:02x}:{minor:02x}:{found.st_ino + 1} 0 EOF",
        f"3: -> POSIX  ADVISORY  WRITE 13 {major:02x}:{minor:02x}:{found.st_ino} 0 EOF",
    ]
    own = f"4: POSIX  ADVISORY  WRITE 14 {major:02x}:{minor:02x}:{found.st_ino} 0 EOF"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "\n".join(lines))
    assert locking_pid(store) is None
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "\n".join([*lines, own]))
    assert locking_pid(store) == 14
