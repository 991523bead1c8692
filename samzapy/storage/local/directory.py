"""Names, creates, renames and deletes the directory of a task's local store."""

from __future__ import annotations

import os
import re
import shutil
import uuid
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


def make_private(path: Path, base: Path) -> None:
    """Create the directory and its parents below `base`, for this user only. Raises StoreError."""
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in (path.parent.parent, path.parent, path):
            part.mkdir(mode=0o700, exist_ok=True)
    except OSError as cause:
        raise StoreDiskFailed(f"{path}: cannot make the store's directory: {cause.strerror or cause}") from cause


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
        with os.scandir(path.parent) as found:
            names = sorted(
                each.name for each in found if each.name.startswith(path.name) and ending.fullmatch(each.name, length)
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

    None for none, and if the kernel does not name it (0 and absent entries occur in containers with their own pid space).
    """
    try:
        found = (path / "LOCK").stat()
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    # `1: POSIX  ADVISORY  WRITE 4711 08:01:131 0 EOF`: the device in hexadecimal, the inode in decimal digits.
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[5] == file and int(words[4]) > 0:
            return int(words[4])
    return None
