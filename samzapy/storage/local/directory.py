"""Names, creates, renames and deletes the directories of a task's local stores; sweeps the ones that no task uses.

A task that has moved to another machine, or has lost its partition, leaves its stores behind. Their changelogs hold the
same entries. The sweep has two steps, as in Samza's monitor, so that an operator can recover a store in between: it
sets old ones aside, and deletes them at a later start.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Literal, get_args

from samzapy.errors import StoreDiskFailed, StoreError

#: Brackets and commas are in the names of tasks of one partition: `SystemStreamPartition_[kafka,_orders,_0]`.
_SAFE = re.compile(r"^[A-Za-z0-9._,~\[\]\-]{1,200}$")

#: Why a store must not be used: it is damaged, it is useless now, or another writer has written to its changelog.
RefusedAs = Literal["corrupt", "stale", "foreign"]

#: The suffixes of the directories beside a store, after the store's name. Only a whole suffix counts: task names may
#: contain dots, too.
#: `.<RefusedAs>-<time>`: the store must not be used.
REFUSED = re.compile(rf"\.(?:{'|'.join(get_args(RefusedAs))})-([0-9]+)\Z")
#: `.orphaned-<time>`: no task has used the store for a long time.
ORPHANED = re.compile(r"\.orphaned-([0-9]+)\Z")
#: `.standby-<replica>`: a standby's copy.
_STANDBY = re.compile(r"\.standby-[0-9]+\Z")
#: `.checkpoint-<id>`, `.downloading`: files of a snapshot during its upload or download. A killed process leaves them.
_CHECKPOINT = re.compile(r"\.checkpoint-[0-9a-f]{32}\Z")
TEMPORARY = re.compile(rf"{_CHECKPOINT.pattern}|\.downloading\Z")
_REMEDY = (
    "set job.logged.store.base.dir (job.non-logged.store.base.dir for a store without a changelog) to a folder that "
    "can be written"
)
_BESIDE = (REFUSED, ORPHANED, _STANDBY, TEMPORARY)


def store_directory(base: Path, job: str, store: str, task: str) -> Path:
    """`<base>/<job>/<store>/<task>` (spaces as `_`) as a real path below the real `base`.

    Raises StoreError for names that are not safe as directory names, and for links that lead out of `base`.
    """
    root = base.resolve()
    names = (job, store, task.replace(" ", "_"))
    for name in names:
        if not _SAFE.match(name) or name in {".", ".."}:
            raise StoreError(f"{name!r} cannot name a directory: only A-Za-z0-9._,~[]- and up to 200 characters")
    path = root.joinpath(*names).resolve()
    if root not in path.parents:
        raise StoreError(f"{root.joinpath(*names)} leads out of {root}, to {path}")
    return path


def check_writable(base: Path) -> None:
    """Raise StoreDiskFailed if `base` is no folder that this user can make or write to; creates nothing."""
    there = next(folder for folder in (base, *base.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        reason = f"{there} is {'not writable for this user' if there.is_dir() else 'a file'}"
        raise StoreDiskFailed(f"{base}: cannot keep stores here: {reason}; {_REMEDY}")


def make_private(path: Path) -> None:
    """Create a `store_directory` and its parents, those below the base for this user only. Raises StoreError."""
    try:
        path.parents[2].mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in (path.parent.parent, path.parent, path):
            part.mkdir(mode=0o700, exist_ok=True)
    except OSError as cause:
        reason = f"{cause.strerror or cause}; {_REMEDY}"
        raise StoreDiskFailed(f"{path}: cannot make the store's directory: {reason}") from cause


def set_aside(path: Path, kind: RefusedAs, now_ms: int) -> Path:
    """Rename a store that must not be used to `<name>.<kind>-<time>`, and delete the previous one. Returns the name.

    The directory must not be open. Raises StoreError.
    """
    aside = path.with_name(f"{path.name}.{kind}-{now_ms}")
    try:
        for older in set_asides(path):
            shutil.rmtree(older)
        path.rename(aside)
    except OSError as cause:
        raise StoreDiskFailed(f"{path}: cannot set the store aside: {cause.strerror or cause}") from cause
    return aside


def lies_beside(path: Path) -> bool:
    """Whether the directory is no active store: it was set aside, is a standby's copy, or holds files of a snapshot."""
    return any(ending.search(path.name) for ending in _BESIDE)


def standby_name(task: str, replica: int) -> str:
    """The name that replaces the task's name in the path of its `replica`-th standby's copies."""
    return f"{task}.standby-{replica}"


def orphaned(path: Path, now_ms: int) -> Path:
    """The new path of the store at `path` once it is set aside as unused."""
    return path.with_name(f"{path.name}.orphaned-{now_ms}")


def new_checkpoint(path: Path) -> Path:
    """A new path for a checkpoint of the store at `path`."""
    return path.with_name(f"{path.name}.checkpoint-{uuid.uuid4().hex}")


def download_of(path: Path) -> Path:
    """The path of a snapshot's files during their download to the store at `path`."""
    return path.with_name(f"{path.name}.downloading")


def standbys_beside(path: Path) -> list[Path]:
    """The copies of the store at `path` that standbys have left or keep on this machine. Raises StoreError."""
    return _beside(path, _STANDBY)


def set_asides(path: Path) -> list[Path]:
    """The directories that `set_aside` has made of this store, grouped by kind, oldest first. Raises StoreError."""
    return _beside(path, REFUSED)


def checkpoints_beside(path: Path) -> list[Path]:
    """The checkpoints of the store at `path` that killed processes have left. Raises StoreError."""
    return _beside(path, _CHECKPOINT)


def _beside(path: Path, ending: re.Pattern[str]) -> list[Path]:
    length = len(path.name)
    try:
        # `startswith` comes first, because it is cheap: every task of a container scans the names of all tasks.
        with os.scandir(path.parent) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.startswith(path.name) and ending.fullmatch(entry.name, length)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as cause:
        raise StoreDiskFailed(f"{path}: cannot look for the store: {cause.strerror or cause}") from cause
    return [path.with_name(name) for name in names]


def wipe(path: Path) -> None:
    """Delete the directory with all that is in it; it must not be open. Raises StoreError."""
    try:
        shutil.rmtree(path)
    except OSError as cause:
        raise StoreDiskFailed(f"{path}: cannot delete the store: {cause.strerror or cause}") from cause


def locking_pid(path: Path) -> int | None:
    """The process that has the store at `path` open, since it holds the lock on the file `LOCK` there.

    None for none, and if the kernel does not name it (0 and absent entries occur in containers with their own pid
    space).
    """
    try:
        lock = (path / "LOCK").stat()
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    # `1: POSIX  ADVISORY  WRITE 4711 08:01:131 0 EOF`: the device in hexadecimal, the inode in decimal digits.
    file = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[5] == file and int(words[4]) > 0:
            return int(words[4])
    return None


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
