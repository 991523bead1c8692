"""The holder of a store's lock is found by the device and the inode of the lock's file. Other failures there have no
holder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samzapy.errors import StoreLocked
from samzapy.storage.local.directory import locking_pid
from samzapy.storage.rocksdb.ownership import OPENING, translated

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


@pytest.mark.parametrize(
    ("text", "locked"),
    [
        ("While lock file: {}/LOCK: Resource temporarily unavailable", True),
        ("lock hold by current process, acquire time 1 acquiring thread 2: {}/LOCK: No locks available", True),
        ("While open a file for lock: {}/LOCK: No such file or directory", True),
        ("While open a file for lock: {}/LOCK: Too many open files", False),
        ("While open a file for lock: {}/LOCK: Permission denied", False),
        ("While lock file: {}/LOCK: No locks available", False),
        ("While open a file for lock: {}/LOCK: No space left on device", False),
    ],
)
def test_only_a_lock_that_is_held_is_waited_for_and_every_other_failure_is_told(tmp_path, text, locked):
    failure = translated(Exception(f"IO error: {text.format(tmp_path)}"), tmp_path, OPENING)
    assert isinstance(failure, StoreLocked) == locked
    assert (text.format(tmp_path) in str(failure)) != locked
