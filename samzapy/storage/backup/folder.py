"""Opens and accesses a task's folder of snapshots, on any file system that fsspec knows. The only importer of
fsspec."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samzapy.errors import StoreError

_FILES, _INDEXES, _UNFINISHED = "files", "index", ".part"
#: fsspec's generic `mv` takes a name with one of these for a pattern. Names of tasks and folders may contain them.
_OF_PATTERNS = set("*?[")


class BackupUnavailable(StoreError):
    """Raised when the place of the snapshots cannot be used: a library or a right is missing, or the network is
    down."""


class BackupFolder:
    """Reads and writes whole files by name. Every failure is a BackupUnavailable that names the place."""

    def __init__(self, file_system: Any, root: str) -> None:
        """`file_system`: fsspec's; `root`: the folder, as that file system names it."""
        self._fs = file_system
        self._root = root.rstrip("/")
        # Object stores have no rename: their `mv` is, or ends in, fsspec's generic one, which copies and removes.
        of_all, of_stores = (importlib.import_module(f"fsspec.{name}") for name in ("spec", "asyn"))
        generic = type(file_system).mv is of_all.AbstractFileSystem.mv
        self._renames = not generic and not isinstance(file_system, of_stores.AsyncFileSystem)

    def put_file(self, name: str, source: Path) -> None:
        """Upload a file of a snapshot. A listing does not show it before it is whole."""
        path = f"{self._root}/{_FILES}/{name}"
        with self._named("writing", path):
            self._fs.makedirs(f"{self._root}/{_FILES}", exist_ok=True)
            self._fs.put_file(str(source), path + _UNFINISHED)
            self._finish(path)

    def get_file(self, name: str, target: Path) -> None:
        """Download a file of a snapshot."""
        path = f"{self._root}/{_FILES}/{name}"
        with self._named("reading", path):
            self._fs.get_file(path, str(target))

    def files(self) -> dict[str, int]:
        """The names and sizes of all files of snapshots, including unfinished ones."""
        return self._listed(_FILES)

    def remove_file(self, name: str) -> None:
        """Remove a file of a snapshot; no error if it is gone."""
        self._remove(f"{self._root}/{_FILES}/{name}")

    def put_index(self, name: str, data: bytes) -> None:
        """Add an index, atomically."""
        path = f"{self._root}/{_INDEXES}/{name}"
        with self._named("writing", path):
            self._fs.makedirs(f"{self._root}/{_INDEXES}", exist_ok=True)
            self._fs.pipe_file(path + _UNFINISHED, data)
            self._finish(path)

    def get_index(self, name: str) -> bytes:
        """The contents of an index."""
        path = f"{self._root}/{_INDEXES}/{name}"
        with self._named("reading", path):
            return bytes(self._fs.cat_file(path))

    def indexes(self) -> list[str]:
        """The names of the indexes, oldest snapshot first."""
        return sorted(name for name in self._listed(_INDEXES) if not name.endswith(_UNFINISHED))

    def remove_index(self, name: str) -> None:
        """Remove an index; no error if it is gone."""
        self._remove(f"{self._root}/{_INDEXES}/{name}")

    def __str__(self) -> str:
        return self._root

    def _finish(self, path: str) -> None:
        unfinished = path + _UNFINISHED
        if self._renames or not _OF_PATTERNS & set(path):
            self._fs.mv(unfinished, path)
        else:
            self._fs.cp_file(unfinished, path)
            self._fs.rm_file(unfinished)

    def _listed(self, folder: str) -> dict[str, int]:
        path = f"{self._root}/{folder}"
        with self._named("listing", path):
            self._fs.invalidate_cache(path)
            try:
                entries = self._fs.ls(path, detail=True)
            except FileNotFoundError:
                return {}
            return {
                str(entry["name"]).rstrip("/").rpartition("/")[2]: int(entry.get("size") or 0)
                for entry in entries
                if entry["type"] == "file"
            }

    def _remove(self, path: str) -> None:
        with self._named("removing", path):
            try:
                self._fs.rm_file(path)
            except FileNotFoundError:
                return

    @contextmanager
    def _named(self, doing: str, path: str) -> Iterator[None]:
        try:
            yield
        except Exception as cause:
            reason = str(cause) or type(cause).__name__
            raise BackupUnavailable(f"{path}: {doing} a snapshot failed: {' '.join(reason.split())}") from cause


def check_folder(path: str) -> None:
    """Raise BackupUnavailable if fsspec, or a library that it needs for the URL `path`, is not installed. Connects to
    nothing."""
    fsspec = _fsspec(path)
    try:
        fsspec.get_filesystem_class(fsspec.core.split_protocol(path)[0] or "file")
    except (ImportError, ValueError) as cause:
        raise BackupUnavailable(f"{path}: {' '.join(str(cause).split())}") from cause


def open_folder(path: str, options: Mapping[str, str], *below: str) -> BackupFolder:
    """The folder `path` (a URL of fsspec's), and `below` it. Raises BackupUnavailable."""
    fsspec = _fsspec(path)
    try:
        file_system, root = fsspec.core.url_to_fs(path, **options)
    except Exception as cause:
        raise BackupUnavailable(f"{path}: no folder for snapshots: {' '.join(str(cause).split())}") from cause
    return BackupFolder(file_system, "/".join([str(root).rstrip("/"), *below]))


def _fsspec(path: str) -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError as cause:
        raise BackupUnavailable(f"{path}: snapshots need fsspec: pip install 'samzapy[backup]'") from cause
