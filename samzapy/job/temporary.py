"""Temporary folders that may hold much, as a copy of a store: a SIGKILL leaves them, and the next process removes them.

A process holds a lock in its folder, so that no other process removes it. A process id would not do: a process in another
container or on another machine may share the folder for temporary files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_LOCK = "lock"


class TemporaryFolder:
    """A temporary folder that only its owner can read. It is removed on exit, or, after a SIGKILL, when the next one for the
    same `purpose` is made."""

    def __init__(self, purpose: str) -> None:
        prefix = f"samzapy-{purpose}-"
        _sweep(Path(tempfile.gettempdir()), prefix)
        self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))
        self._lock = _locked(self.path)

    def __enter__(self) -> TemporaryFolder:  # noqa: PYI034  # typing has no Self in Python 3.10
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _locked(folder: Path) -> int:
    """Lock a new folder; returns the open file, which holds the lock until it is closed or the process ends."""
    made = folder / "lock.new"
    lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with suppress(OSError):  # a file system without locks: then no process removes the folder of another one
        fcntl.flock(lock, fcntl.LOCK_EX)
    # Renamed last, so that a file with this name is always locked.
    made.rename(folder / _LOCK)
    return lock


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of this user's processes that have ended."""
    for path in parent.glob(f"{prefix}*-*"):
        # An OSError means that there is no lock (a new folder, or one of another version), that a process holds the lock,
        # or that the folder is gone.
        with suppress(OSError):
            if path.lstat().st_uid == os.getuid():
                _remove_ended(path)


def _remove_ended(folder: Path) -> None:
    """Remove the folder, unless its process holds the lock. Raises OSError."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
