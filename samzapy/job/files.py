"""The files of a process: the limit of open ones, and temporary folders.

1. A container holds many files open, its stores, and a driver many connections: `raise_limit`.
2. A temporary folder may hold much, as a copy of a store. A SIGKILL leaves it, and the next process with the same
   purpose removes it. A process holds a lock in its folder, so that no other process removes it. A process id would not
   do: a process in another container or on another machine may share the folder for temporary files.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

#: The highest limit to set, even if the system grants more: some programs iterate over all possible descriptors.
MOST = 1_048_576


def raise_limit(most: int) -> int | None:
    """Raise the soft limit to `most`, or to the hard limit if that is lower.

    Returns the new limit; None for no limit. A limit that the system does not let us raise stays unchanged.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


_LOCK = "lock"


class TemporaryFolder:
    """A temporary folder that only its owner can read. It is removed on exit, or, after a SIGKILL, when the next one
    for the same `purpose` is made."""

    def __init__(self, purpose: str) -> None:
        prefix = f"samzapy-{purpose}-"
        _sweep(Path(tempfile.gettempdir()), prefix)
        self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))
        self._lock = _locked(self.path)

    def __enter__(self) -> TemporaryFolder:  # noqa: PYI034  # typing has no Self in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _locked(folder: Path) -> int:
    """Lock a new folder; returns the open file, which holds the lock until it is closed or the process ends."""
    built = folder / "lock.new"
    lock = os.open(built, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with suppress(OSError):  # a file system without locks: then no process removes the folder of another one
        fcntl.flock(lock, fcntl.LOCK_EX)
    # Renamed last, so that a file with this name is always locked.
    built.rename(folder / _LOCK)
    return lock


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of this user's processes that have ended."""
    for path in parent.glob(f"{prefix}*-*"):
        # An OSError means that there is no lock (a new folder, or one of another version), that a process holds the
        # lock, or that the folder is gone.
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
