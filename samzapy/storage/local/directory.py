"""The files of a task's local stores: opens them, and names, creates, renames and deletes their directories.

An opening finds the files to use:

1. A copy that a standby has left, and that is further than the store, replaces the store.
2. Other files are used if they pass the check, else set aside. None is deleted because it does not open.
3. Without files, the store starts from a snapshot if there is one, else empty.

A task that has moved to another machine, or has lost its partition, leaves its stores behind. Their changelogs hold the
same entries. The sweep of the stores that no task uses has two steps, as in Samza's monitor, so that an operator can
recover a store in between: it sets old ones aside, and deletes them at a later start.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import reprlib
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Literal, get_args

from samzapy.api.engine import StorageEngine
from samzapy.api.serde import Serde, hinted
from samzapy.clock import Clock
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, EnvironmentFailure, StoreCorrupted, StoreDiskFailed, StoreError, StoreLocked
from samzapy.storage.kv.expiring import unstamped
from samzapy.storage.local.marker import Marker
from samzapy.storage.spec import StoreSpec

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


def standbys_in(folder: Path) -> dict[Path, list[Path]]:
    """The copies that standbys have left or keep, by store: one look serves all tasks. Raises StoreError."""
    found: dict[Path, list[Path]] = {}
    for name in _names(folder):
        if (ending := _STANDBY.search(name)) is not None:
            found.setdefault(folder / name[: ending.start()], []).append(folder / name)
    return found


def set_asides(path: Path) -> list[Path]:
    """The directories that `set_aside` has made of this store, grouped by kind, oldest first. Raises StoreError."""
    return _beside(path, REFUSED)


def checkpoints_beside(path: Path) -> list[Path]:
    """The checkpoints of the store at `path` that killed processes have left. Raises StoreError."""
    return _beside(path, _CHECKPOINT)


def _beside(path: Path, ending: re.Pattern[str]) -> list[Path]:
    names = [name for name in _names(path.parent) if name.startswith(path.name)]
    return [path.with_name(name) for name in names if ending.fullmatch(name, len(path.name))]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as cause:
        raise StoreDiskFailed(f"{folder}: cannot look for stores here: {cause.strerror or cause}") from cause


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


_LOCK_RETRY_S = 0.1
_NO_MARKER = "it holds data without a marker, so their owner and age are unknown"

#: Gives the reason (a clause) why files with this marker must not be used; None if they may.
Refuse = Callable[[Marker], "str | None"]


@dataclass(frozen=True)
class OpenedFiles:
    """An open engine, and the directory of its files, if it keeps any. `source`: the origin of its entries (`local
    store`, `standby`, `snapshot`), empty if it has none; `marker` is None then. `reason`: why earlier files were set
    aside, if any were."""

    engine: StorageEngine
    path: Path | None
    marker: Marker | None = None
    source: str = ""
    reason: str = ""


class LocalFiles:
    """The files of one task's part of a store, in the directory `path`; without one if its engine keeps none."""

    def __init__(
        self, spec: StoreSpec, path: Path | None, clock: Clock, tasks: int = 1, lock_wait_s: float = 10.0
    ) -> None:
        """`tasks` of a container share the engine's memory. `lock_wait_s`: seconds to wait for a locked store."""
        self.path = path if spec.persistent else None
        self._spec = spec
        self._clock = clock
        self._tasks = tasks
        self._lock_wait_s = lock_wait_s

    def open_kept(self, refuse: Refuse, source: str = "local store") -> OpenedFiles:
        """The store as an earlier attempt left it, with that `source`. It is set aside and a new one is opened, if it
        is damaged, has data without a marker, or `refuse` gives a reason. An error of `refuse` passes through, and
        nothing is set aside."""
        if self.path is None:
            return OpenedFiles(self._spec.open(None, self._tasks), None)
        engine: StorageEngine | None = None
        kind: RefusedAs = "stale"
        try:
            engine = self._open(self.path)
            data = engine.marker()
            if data is None and is_empty(engine):
                return OpenedFiles(engine, self.path)
            marker = None if data is None else Marker.from_bytes(data)
            reason = _NO_MARKER if marker is None else refuse(marker) or ""
            if not reason:
                return OpenedFiles(engine, self.path, marker, source)
        except StoreCorrupted as damage:
            kind, reason = "corrupt", f"it is damaged ({damage})"
        except ValueError as cause:
            reason = f"its marker cannot be read ({cause})"
        except BaseException:
            if engine is not None:
                engine.close()
            raise
        if engine is not None:
            engine.close()
        aside = set_aside(self.path, kind, self._clock.wall_ms())
        _LOG.warning("The local store %s is not used: %s. It was set aside as %s.", self.path, reason, aside.name)
        return OpenedFiles(self._open(self.path), self.path, reason=reason)

    def open_empty(self) -> OpenedFiles:
        """An empty store. Files that an earlier attempt left are deleted; files that are damaged or have no marker are
        set aside."""
        if self.path is None:
            return OpenedFiles(self._spec.open(None, self._tasks), None)
        # Opened before it is deleted: another process that has it open holds its lock.
        opened = self.open_kept(lambda _: None)
        if opened.marker is None:
            return OpenedFiles(opened.engine, self.path)
        opened.engine.close()
        wipe(self.path)
        return OpenedFiles(self._open(self.path), self.path)

    def fetch(self, empty: OpenedFiles, fetch: Callable[[Path], Marker | None]) -> OpenedFiles:
        """Replace an `empty` store by the store that `fetch` puts into its directory. If `fetch` puts nothing there, or
        the store does not open with the marker that `fetch` returned, open an empty one again."""
        path = self.path
        if path is None:
            return empty
        empty.engine.close()
        wipe(path)
        marker = fetch(path)
        if marker is None:
            return replace(empty, engine=self._open(path))
        try:
            engine = self._open(path)
            if engine.marker() == marker.to_bytes():
                return OpenedFiles(engine, path, marker, "snapshot", empty.reason)
            engine.close()
            damage = "its contents differ from its index"
        except StoreCorrupted as cause:
            damage = str(cause)
        _LOG.warning("The snapshot in %s is not used: %s", path, damage)
        wipe(path)
        return replace(empty, engine=self._open(path))

    def take_over_standby(self, standbys: Mapping[Path, Sequence[Path]], refuse: Refuse) -> bool:
        """Replace the store by its furthest usable copy, if that is further. Returns whether it did.

        The store that was there is set aside. A copy or store that is open elsewhere is left alone. Raises StoreError.
        """
        path = self.path
        if path is None or not (copies := [copy for copy in standbys.get(path, ()) if copy.exists()]):
            return False
        offsets = {copy: self._usable_offset(copy, refuse) for copy in copies}
        best = max(copies, key=offsets.__getitem__)
        try:
            own = self._offset(path, refuse) if path.exists() else -1
        except StoreLocked:
            return False
        if offsets[best] <= own:
            return False
        if path.exists():
            set_aside(path, "stale", self._clock.wall_ms())
        try:
            best.rename(path)
        except OSError as cause:
            raise StoreDiskFailed(f"{path}: cannot take over {best.name}: {cause.strerror or cause}") from cause
        _LOG.info("The local store %s was the standby %s, at changelog offset %d", path, best.name, offsets[best])
        return True

    def _usable_offset(self, copy: Path, refuse: Refuse) -> int:
        try:
            return self._offset(copy, refuse)
        except StoreLocked as cause:
            _LOG.info("The standby %s is not taken over: %s", copy.name, cause)
            return -1

    def _offset(self, path: Path, refuse: Refuse) -> int:
        """The changelog offset of the store there, -1 if it cannot be used. Raises StoreLocked."""
        try:
            # A close may find damage as well.
            with closing(self._spec.open(path, self._tasks)) as engine:
                data = engine.marker()
            marker = None if data is None else Marker.from_bytes(data)
        except (StoreCorrupted, ValueError):
            return -1
        return -1 if marker is None or refuse(marker) else marker.changelog_offset

    def _open(self, path: Path) -> StorageEngine:
        make_private(path)
        pause = Event()
        for _ in range(int(self._lock_wait_s / _LOCK_RETRY_S)):
            try:
                return self._spec.open(path, self._tasks)
            except StoreLocked:
                pause.wait(_LOCK_RETRY_S)
        return self._spec.open(path, self._tasks)


def is_empty(engine: StorageEngine) -> bool:
    """Whether the engine has no entries; the marker does not count. Raises StoreCorrupted."""
    with engine.iterate(None, None) as pairs:
        return next(pairs, None) is None


#: Entries that a start reads with the classes of a store.
_SAMPLE = 1_000


def check_sample(config: StoreConfig, engine: StorageEngine, key_serde: Serde, value_serde: Serde) -> None:
    """Raise ConfigError if a class of the store does not read one of its first entries, or writes a key in other bytes:
    without the check it would fail, or miss entries, in the middle of a run. Nothing is read without classes."""
    if key_serde.object_type is None and value_serde.object_type is None:
        return
    with engine.iterate(None, None) as pairs:
        for key, value in islice(pairs, _SAMPLE):
            data = value if config.ttl_ms is None else unstamped(value)
            _try("key", config.name, config.key_type, key_serde, key, key)
            _try("msg", config.name, config.msg_type, value_serde, data, _shown(key_serde, key))


def _try(part: str, store: str, path: str | None, serde: Serde, data: bytes, key: object) -> None:
    if serde.object_type is None:
        return
    cause: Exception | None = None
    try:
        value = serde.from_bytes(data)
        if part == "msg" or (now := serde.to_bytes(value)) == data:
            return
        reason = f"the class writes it as {reprlib.repr(now)}, so it would not be found"
    except EnvironmentFailure:
        raise
    except Exception as failure:  # noqa: BLE001  # whatever a serde raises is about this entry
        cause, reason = failure, hinted(serde).misfit(failure)
    message = (
        f"does not read what the store holds: key {reprlib.repr(key)}: {reason}; give new fields defaults and old ones "
        "their types, or copy the store to another changelog (samzapy store copy)"
    )
    raise ConfigError.of(f"stores.{store}.{part}.type", path, message) from cause


def _shown(serde: Serde, key: bytes) -> object:
    try:
        return serde.from_bytes(key)
    except Exception:  # noqa: BLE001  # a serde may refuse in any way; the bytes are shown then
        return key
