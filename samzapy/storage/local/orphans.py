"""Removes local stores that no task here uses: sets them aside when they are old, deletes them at a later start.

A task that has moved to another machine, or has lost its partition, leaves its stores behind. Their changelogs hold the same
entries. There are two steps, as in Samza's monitor, so that an operator can recover a store in between.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from samzapy.storage.local.directory import ORPHANED, REFUSED, TEMPORARY, locking_pid, orphaned

_LOG = logging.getLogger(__name__)

#: The least time that an orphan stays after it was set aside, in milliseconds.
GRACE_MS = 3_600_000
#: The least time that the files of an unfinished snapshot stay after the last write, in milliseconds.
TRANSFER_MS = 86_400_000


def sweep_orphans(base: Path, job: str, current: Collection[str], ttl_ms: int, now_ms: int) -> list[Path]:
    """Look through the job's folder below `base`, and return the stores that were set aside or deleted.

    1. The stores of the `current` tasks, locked stores, and stores that were written to less than `ttl_ms` milliseconds
       ago are not touched. A negative `ttl_ms` disables the sweep.
    2. The files of unfinished snapshots, even of the `current` tasks, are copies of other files. They are deleted
       without being set aside first, `ttl_ms` milliseconds, but at least a day, after the last write.
    3. A failure to list, rename or delete is logged.
    """
    if ttl_ms < 0:
        return []
    kept = {task.replace(" ", "_") for task in current}
    touched = []
    for store in _folders(base.resolve() / job):
        for path in _folders(store):
            try:
                if path.name not in kept and _sweep(path, ttl_ms, now_ms):
                    touched.append(path)
            except OSError as cause:
                _LOG.warning("The unused store %s stays: %s", path, cause.strerror or cause)
    return touched


def _folders(parent: Path) -> list[Path]:
    """The folders in `parent`, without links; an empty list if it is gone or cannot be listed, which is logged."""
    try:
        return [path for path in sorted(parent.iterdir()) if path.is_dir() and not path.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as cause:
        _LOG.warning("Unused stores in %s stay: %s", parent, cause.strerror or cause)
        return []


def _sweep(path: Path, ttl_ms: int, now_ms: int) -> bool:
    for aside, least_ms in ((ORPHANED, GRACE_MS), (REFUSED, ttl_ms)):
        if since := aside.search(path.name):
            return now_ms - int(since[1]) >= least_ms and _delete(path)
    if TEMPORARY.search(path.name):
        # These files have no lock: only their age shows that no process uploads or downloads them any more.
        return now_ms - _last_written_ms(path) >= max(ttl_ms, TRANSFER_MS) and _delete(path)
    return now_ms - _last_written_ms(path) >= ttl_ms and _set_aside(path, now_ms)


def _delete(path: Path) -> bool:
    shutil.rmtree(path)
    _LOG.info("Deleted the unused store %s", path)
    return True


def _last_written_ms(path: Path) -> int:
    return max(int(file.stat().st_mtime * 1000) for file in (path, *path.iterdir()))


def _set_aside(path: Path, now_ms: int) -> bool:
    """Rename it while holding its lock, so that no process has it open or opens it meanwhile."""
    if not (path / "LOCK").exists() or locking_pid(path) is not None:
        return False
    lock = os.open(path / "LOCK", os.O_RDWR)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.rename(orphaned(path, now_ms))
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    _LOG.info("Set aside the unused store %s; it is deleted with a later start", path)
    return True
