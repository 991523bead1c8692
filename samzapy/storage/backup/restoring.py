"""From the newest snapshot that fits to a store's directory."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from samzapy.errors import StoreError
from samzapy.failpoints import reach
from samzapy.storage.backup.folder import BackupFolder, BackupUnavailable
from samzapy.storage.backup.index import SnapshotFile, SnapshotIndex
from samzapy.storage.marker import Marker

_LOG = logging.getLogger(__name__)


def newest_snapshot(folder: BackupFolder, directory: Path, refuse: Callable[[Marker], str | None]) -> Marker | None:
    """Download the newest snapshot that is whole and that `refuse` gives no reason against into `directory`.

    `directory` does not exist before, nor afterwards if there was no such snapshot: then None is returned, else its
    marker. What is wrong with a snapshot is logged, and the one before is tried; a folder that cannot be read has none.
    Raises StoreError for the directory's own sake.
    """
    for name, index in _usable(folder, refuse):
        try:
            _download(folder, index, directory)
        except (BackupUnavailable, ValueError) as cause:
            _not_used(folder, name, str(cause))
        else:
            return index.marker
    return None


def _usable(folder: BackupFolder, refuse: Callable[[Marker], str | None]) -> list[tuple[str, SnapshotIndex]]:
    """The snapshots with nothing against them yet, those that are furthest first."""
    found = []
    try:
        for name in folder.indexes():
            try:
                index = SnapshotIndex.from_bytes(folder.get_index(name))
            except ValueError as cause:
                _not_used(folder, name, str(cause))
                continue
            reason = refuse(index.marker)
            if reason is None:
                found.append((name, index))
            else:
                _not_used(folder, name, reason)
    except BackupUnavailable as cause:
        _LOG.warning("Snapshots cannot be read: %s", cause)
    return sorted(found, key=lambda pair: pair[1].marker.changelog_offset, reverse=True)


def _not_used(folder: BackupFolder, name: str, reason: str) -> None:
    _LOG.warning("The snapshot %s in %s is not used: %s", name, folder, reason)


def _download(folder: BackupFolder, index: SnapshotIndex, directory: Path) -> None:
    """All files, checked against the index. Raises ValueError for a file that is not what the index says."""
    part = directory.with_name(f"{directory.name}.downloading")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700, parents=True)
        for name, file in index.files.items():
            folder.get_file(file.name, part / name)
            found = SnapshotFile.of(part / name)
            if found != file:
                raise ValueError(f"its file {name} is {found.size} B instead of {file.size} B, or damaged")
            reach("backup.download")
        part.rename(directory)
    except OSError as cause:
        raise StoreError(f"{directory}: cannot take a snapshot: {cause.strerror or cause}") from cause
    finally:
        shutil.rmtree(part, ignore_errors=True)
