"""Snapshots of a store: their index, upload and download, and the thread that makes them.

1. The index names the files of the snapshot by their contents, and holds the store's marker. It is written last.
2. An upload sends only the files that are not there yet, then removes old snapshots.
3. A download takes the newest snapshot that is whole and fits, and checks every file against the index.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from samzapy.api.engine import StorageEngine
from samzapy.clock import Clock
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.store import BackupConfig
from samzapy.errors import StoreDiskFailed, StoreError
from samzapy.failpoints import reach
from samzapy.storage.backup.folder import BackupFolder, BackupUnavailable, open_folder
from samzapy.storage.local.directory import checkpoints_beside, download_of, new_checkpoint
from samzapy.storage.local.marker import Marker
from samzapy.storage.spec import MakesCheckpoints, StoreSpec
from samzapy.strict_json import Natural, decode, encode

_LOG = logging.getLogger(__name__)

FORMAT = 1
_CHUNK_BYTES = 1_048_576


@dataclass(frozen=True)
class SnapshotFile:
    """A file of a store: the hash of its contents, and its size in bytes."""

    digest: str
    size: int

    @property
    def name(self) -> str:
        """The name among the files of all snapshots."""
        return f"{self.digest}-{self.size}"

    @classmethod
    def of(cls, path: Path) -> SnapshotFile:
        """Describe the present contents of a file."""
        digest, size = hashlib.blake2b(digest_size=20), 0
        with path.open("rb") as data:
            while chunk := data.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        return cls(digest.hexdigest(), size)


class _Record(msgspec.Struct):
    format: int
    marker: str
    files: dict[str, tuple[str, Natural]]


@dataclass(frozen=True)
class SnapshotIndex:
    """One snapshot: the store's position, and its files by their names in the store's directory."""

    marker: Marker
    files: Mapping[str, SnapshotFile]

    @property
    def name(self) -> str:
        """Names sort by time, not by offset, since the offsets of a recreated changelog begin at 0 again."""
        return f"{self.marker.time_ms:015d}-{self.marker.changelog_offset}.json"

    def to_bytes(self) -> bytes:
        """The JSON form, on the line below its own hash."""
        files = {name: (file.digest, file.size) for name, file in self.files.items()}
        body = encode(_Record(FORMAT, self.marker.to_bytes().decode(), files))
        return hashlib.blake2b(body, digest_size=20).hexdigest().encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes) -> SnapshotIndex:
        """The inverse of `to_bytes`. Raises ValueError for anything else, a part of an index included."""
        digest, _, body = data.partition(b"\n")
        if hashlib.blake2b(body, digest_size=20).hexdigest().encode() != digest:
            raise ValueError("not a whole index")
        read = decode(_Record, body, FORMAT)
        files = {_plain(name): SnapshotFile(*entry) for name, entry in read.files.items()}
        return cls(Marker.from_bytes(read.marker.encode()), files)


def _plain(name: str) -> str:
    """A name that stays in the store's directory."""
    if not name or "/" in name or "\\" in name or name in {".", ".."}:
        raise ValueError(f"{name!r} is no name of a store's file")
    return name


class UploadStopped(StoreError):
    """Raised when an upload has to stop; the next one uses the files that are there already."""


class SnapshotUploader:
    """Uploads checkpoints of one store, one after the other. One thread at a time."""

    def __init__(self, folder: BackupFolder, kept: int, should_stop: Callable[[], bool] = lambda: False) -> None:
        """`kept`: the number of snapshots left after a new one."""
        self._folder = folder
        self._kept = kept
        self._should_stop = should_stop
        self._hashed: dict[tuple[int, int, int], SnapshotFile] = {}
        self._unused: frozenset[str] = frozenset()

    def upload(self, directory: Path, marker: Marker) -> tuple[int, int]:
        """Make a snapshot of the files in `directory`, which do not change meanwhile, then collect old ones. Returns
        how many files, and bytes, were uploaded for it.

        Raises UploadStopped or BackupUnavailable; earlier snapshots are then unchanged.
        """
        files = self._described(directory)
        there = self._folder.files()
        count = size = 0
        for name, file in files.items():
            if there.get(file.name) == file.size:
                continue
            if self._should_stop():
                raise UploadStopped(f"{self._folder}: the upload was stopped after {count} files")
            if file.name in there:
                self._folder.remove_file(file.name)
            self._folder.put_file(file.name, directory / name)
            there[file.name] = file.size
            count, size = count + 1, size + file.size
            reach("backup.file")
        index = SnapshotIndex(marker, files)
        reach("backup.index")
        self._folder.put_index(index.name, index.to_bytes())
        reach("backup.collect")
        self._collect(index.name, set(there))
        return count, size

    def _described(self, directory: Path) -> dict[str, SnapshotFile]:
        """The files by name; a file of the last upload is not read again, even under another name."""
        files, hashed = {}, {}
        for path in sorted(directory.iterdir()):
            status = path.stat()
            identity = (status.st_ino, status.st_size, status.st_mtime_ns)
            file = self._hashed.get(identity) or SnapshotFile.of(path)
            files[path.name] = hashed[identity] = file
        self._hashed = hashed
        return files

    def _collect(self, newest: str, there: set[str]) -> None:
        """Remove the snapshots that are older than `newest` and the ones kept with it, then files without a snapshot.

        A file that no index names may belong to a snapshot that a successor of this task is making: it is removed when
        no index named it at the last collection either.
        """
        others = [name for name in self._folder.indexes() if name != newest]
        first_kept = max(len(others) - (self._kept - 1), 0)
        used = self._named([newest, *others[first_kept:]])
        dropped = self._named(others[:first_kept])
        for name in others[:first_kept]:
            self._folder.remove_index(name)
        unused = there - used
        for name in sorted(unused & (dropped | self._unused)):
            self._folder.remove_file(name)
        self._unused = frozenset(unused)

    def _named(self, indexes: Iterable[str]) -> set[str]:
        """The files of these snapshots. A damaged index names none."""
        names: set[str] = set()
        for name in indexes:
            with suppress(ValueError):
                index = SnapshotIndex.from_bytes(self._folder.get_index(name))
                names.update(file.name for file in index.files.values())
        return names


def newest_snapshot(folder: BackupFolder, directory: Path, refuse: Callable[[Marker], str | None]) -> Marker | None:
    """Download the newest complete snapshot that `refuse` accepts into `directory`.

    `directory` does not exist before, nor afterwards if there was no such snapshot: then None is returned, else its
    marker. A snapshot with a fault is logged, and the previous one is tried. A folder that cannot be read counts as
    empty. Raises StoreError if the directory cannot be written.
    """
    for name, index in _usable(folder, refuse):
        try:
            _download(folder, index, directory, refuse)
        except (BackupUnavailable, ValueError) as cause:
            _not_used(folder, name, str(cause))
        else:
            return index.marker
    return None


def _usable(folder: BackupFolder, refuse: Callable[[Marker], str | None]) -> list[tuple[str, SnapshotIndex]]:
    """The snapshots that are not refused by their index, the furthest first."""
    usable = []
    try:
        for name in folder.indexes():
            try:
                index = SnapshotIndex.from_bytes(folder.get_index(name))
            except ValueError as cause:
                _not_used(folder, name, str(cause))
                continue
            reason = refuse(index.marker)
            if reason is None:
                usable.append((name, index))
            else:
                _not_used(folder, name, reason)
    except BackupUnavailable as cause:
        _LOG.warning("Snapshots cannot be read: %s", cause)
    return sorted(usable, key=lambda pair: pair[1].marker.changelog_offset, reverse=True)


def _not_used(folder: BackupFolder, name: str, reason: str) -> None:
    _LOG.warning("The snapshot %s in %s is not used: %s", name, folder, reason)


def _download(
    folder: BackupFolder, index: SnapshotIndex, directory: Path, refuse: Callable[[Marker], str | None]
) -> None:
    """Download all files and check them against the index. Raises ValueError for a file that differs from the index,
    and for a snapshot that `refuse` rejects afterwards: it may have become too old during the download."""
    part = download_of(directory)
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700, parents=True)
        for name, file in index.files.items():
            folder.get_file(file.name, part / name)
            downloaded = SnapshotFile.of(part / name)
            if downloaded != file:
                raise ValueError(f"its file {name} is {downloaded.size} B instead of {file.size} B, or damaged")
            reach("backup.download")
        reason = refuse(index.marker)
        if reason is not None:
            raise ValueError(reason)
        part.rename(directory)
    except OSError as cause:
        raise StoreDiskFailed(f"{directory}: cannot take a snapshot: {cause.strerror or cause}") from cause
    finally:
        shutil.rmtree(part, ignore_errors=True)


#: Limits the uploads of a process: it may have many tasks, but has one network.
_UPLOADS_AT_ONCE = threading.Semaphore(2)
_TURN_S = 0.2
#: Seconds that a stop waits for an upload. After one that took longer, the process waits for no other.
_PATIENCE_S = 10.0
_HANGING = threading.Event()


class StoreBackup:
    """Makes snapshots of one store in a thread: the run loop only looks at the time.

    A snapshot that fails is logged, counted, and made again when the next one is due; it never ends the attempt.
    """

    def __init__(
        self,
        checkpoint: Callable[[Path], None],
        directory: Path,
        marker_of: Callable[[Path], bytes | None],
        open_folder: Callable[[], BackupFolder],
        config: BackupConfig,
        clock: Clock,
    ) -> None:
        """`checkpoint` copies the store's committed files, `marker_of` reads the marker of a copy. The copies are next
        to the store's `directory` for a time. `open_folder` is called by the thread, once."""
        self._checkpoint = checkpoint
        self._directory = directory
        self._marker_of = marker_of
        self._open_folder = open_folder
        self._config = config
        self._clock = clock
        self._uploader: SnapshotUploader | None = None
        self._begun_s = clock.monotonic()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._engine_in_use = threading.Lock()
        self._counts = {"snapshots": 0, "snapshot-failures": 0, "snapshot-files": 0, "snapshot-bytes": 0}

    def committed(self) -> None:
        """The store has changed: start a snapshot if one is due and none is being made."""
        due = (self._clock.monotonic() - self._begun_s) * 1000.0 >= self._config.interval_ms
        if due and (self._thread is None or not self._thread.is_alive()):
            self._begun_s = self._clock.monotonic()
            thread = threading.Thread(target=self._make, name="samzapy-backup", daemon=True)
            try:
                thread.start()
            except RuntimeError as cause:  # the system has no thread left
                self._failed(cause)
            else:
                self._thread = thread

    def settle(self) -> None:
        """Wait some seconds for a snapshot that is being made."""
        if self._thread is not None and not _HANGING.is_set():
            self._thread.join(_PATIENCE_S)
            if self._thread.is_alive():
                _HANGING.set()

    def close(self) -> None:
        """End the snapshot that is being made, at its next file. Afterwards no thread uses the engine. An upload that
        hangs is abandoned."""
        self._stopped.set()
        with self._engine_in_use:
            pass
        self.settle()

    def metrics(self) -> dict[str, float]:
        """Snapshots, failures, uploaded files and bytes since the start."""
        return {name: float(count) for name, count in self._counts.items()}

    def _make(self) -> None:
        while not _UPLOADS_AT_ONCE.acquire(timeout=_TURN_S):
            if self._stopped.is_set():
                return
        try:
            self._upload()
        except UploadStopped as stopped:
            _LOG.info("%s", stopped)
        except Exception as cause:  # noqa: BLE001  # a job does not depend on its snapshots
            self._failed(cause)
        else:
            _HANGING.clear()
        finally:
            _UPLOADS_AT_ONCE.release()

    def _failed(self, cause: Exception) -> None:
        self._counts["snapshot-failures"] += 1
        _LOG.warning("No snapshot of %s: %s", self._directory, cause)

    def _upload(self) -> None:
        if self._uploader is None:
            self._uploader = SnapshotUploader(self._open_folder(), self._config.kept, self._stopped.is_set)
            for left in checkpoints_beside(self._directory):
                shutil.rmtree(left, ignore_errors=True)
        checkpoint = new_checkpoint(self._directory)
        try:
            if (data := self._made(checkpoint)) is None:
                return
            files, size = self._uploader.upload(checkpoint, Marker.from_bytes(data))
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
        self._counts["snapshots"] += 1
        self._counts["snapshot-files"] += files
        self._counts["snapshot-bytes"] += size

    def _made(self, checkpoint: Path) -> bytes | None:
        """The marker of a new checkpoint, None if the store was closed before. The task commits meanwhile, so the
        marker inside the checkpoint gives its position."""
        with self._engine_in_use:
            if self._stopped.is_set():
                return None
            self._checkpoint(checkpoint)
        data = self._marker_of(checkpoint)
        if data is None:
            raise StoreError(f"{checkpoint}: the checkpoint has no marker")
        return data


def snapshot_reader(
    job: str, task: str, config: StoreConfig, refuse: Callable[[Marker], str | None]
) -> Callable[[Path], Marker | None] | None:
    """A function that downloads the store's newest snapshot into a directory; None if the store has no snapshots, or
    their folder cannot be opened."""
    if config.backup is None:
        return None
    try:
        folder = _folder(job, task, config, config.backup)
    except BackupUnavailable as cause:
        _LOG.warning("Snapshots cannot be read: %s", cause)
        return None
    return lambda directory: newest_snapshot(folder, directory, refuse)


def open_backup(
    job: str, task: str, spec: StoreSpec, engine: StorageEngine, directory: Path, clock: Clock
) -> StoreBackup | None:
    """The maker of the snapshots of a task's part of a store; None if the job file asks for none."""
    backup = spec.config.backup
    if backup is None or not isinstance(spec.factory, MakesCheckpoints):
        return None

    def marker_of(checkpoint: Path) -> bytes | None:
        with closing(spec.open(checkpoint, read_only=True)) as opened:
            return opened.marker()

    make = partial(spec.factory.checkpoint, engine)
    return StoreBackup(make, directory, marker_of, partial(_folder, job, task, spec.config, backup), backup, clock)


def _folder(job: str, task: str, config: StoreConfig, backup: BackupConfig) -> BackupFolder:
    return open_folder(backup.path, backup.options, job, config.name, task.replace(" ", "_"))
