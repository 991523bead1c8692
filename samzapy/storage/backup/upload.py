"""A checkpoint of a store to its folder of snapshots: only what is not there yet, the index last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from samzapy.errors import StoreError
from samzapy.failpoints import reach
from samzapy.storage.backup.folder import BackupFolder
from samzapy.storage.backup.index import SnapshotFile, SnapshotIndex
from samzapy.storage.marker import Marker


class UploadStopped(StoreError):
    """Raised when an upload was told to stop; what is there already is used by the next one."""


@dataclass(frozen=True)
class Uploaded:
    """One snapshot that was made: its index, and what had to be uploaded for it."""

    index: SnapshotIndex
    files: int
    bytes: int


class SnapshotUploader:
    """Uploads checkpoints of one store, one after the other. One thread at a time."""

    def __init__(self, folder: BackupFolder, kept: int, should_stop: Callable[[], bool] = lambda: False) -> None:
        """`kept`: how many snapshots are left when a new one is there."""
        self._folder = folder
        self._kept = kept
        self._should_stop = should_stop
        self._hashed: dict[tuple[int, int, int], SnapshotFile] = {}
        self._unused: frozenset[str] = frozenset()

    def upload(self, directory: Path, marker: Marker) -> Uploaded:
        """Make a snapshot of the files in `directory`, which do not change meanwhile, then collect old ones.

        Raises UploadStopped or BackupUnavailable; the snapshots from before are then as they were.
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
        return Uploaded(index, count, size)

    def _described(self, directory: Path) -> dict[str, SnapshotFile]:
        """The files by name; one that was there at the last upload, under whatever name, is not read again."""
        files, hashed = {}, {}
        for path in sorted(directory.iterdir()):
            status = path.stat()
            identity = (status.st_ino, status.st_size, status.st_mtime_ns)
            file = self._hashed.get(identity) or SnapshotFile.of(path)
            files[path.name] = hashed[identity] = file
        self._hashed = hashed
        return files

    def _collect(self, newest: str, there: set[str]) -> None:
        """Remove older snapshots than `newest` and what is kept beside it, then the files of none.

        A file that no index names may belong to a snapshot that a successor of this task is making: it is removed when
        it was of no use at the last collection either.
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
        """The files of these snapshots; none of one whose index is damaged."""
        found: set[str] = set()
        for name in indexes:
            with suppress(ValueError):
                index = SnapshotIndex.from_bytes(self._folder.get_index(name))
                found.update(file.name for file in index.files.values())
        return found
