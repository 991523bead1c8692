"""State checkpoints in files: `TASK/1700000010000.state`, each the CRC-32 of what follows (4 bytes, big-endian), then it.

Written beside, synced, renamed, the folder synced: a file that has its name is whole.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection
from pathlib import Path

from samzapy.api.event_time import CheckpointStore
from samzapy.errors import EnvironmentFailure, RestoreError

_SUFFIX = ".state"


class FileCheckpointStore(CheckpointStore):
    """Those of one task, in a folder of its own on a file system that every container sees."""

    def __init__(self, folder: Path) -> None:
        """The folder is made with the first checkpoint."""
        self._folder = folder

    def persist(self, time_ms: int, value: bytes) -> None:
        path = self._path(time_ms)
        beside = path.with_suffix(".tmp")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(zlib.crc32(value).to_bytes(4, "big"))
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            self._sync_folder()
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot write the state ({cause.strerror})") from cause

    def times(self) -> list[int]:
        try:
            names = [path.stem for path in self._folder.iterdir() if path.suffix == _SUFFIX]
        except FileNotFoundError:
            return []
        except OSError as cause:
            raise EnvironmentFailure(f"{self._folder}: cannot read the states ({cause.strerror})") from cause
        return sorted(int(name) for name in names if name.isdecimal())

    def recover(self, time_ms: int) -> bytes:
        path = self._path(time_ms)
        try:
            data = path.read_bytes()
        except FileNotFoundError as cause:
            raise RestoreError(f"{path}: there is no such state") from cause
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot read the state ({cause.strerror})") from cause
        value = data[4:]
        if data[:4] != zlib.crc32(value).to_bytes(4, "big"):
            raise RestoreError(f"{path}: the state is damaged (its checksum is another)")
        return value

    def remove(self, times: Collection[int]) -> None:
        for time_ms in times:
            path = self._path(time_ms)
            try:
                path.unlink(missing_ok=True)
            except OSError as cause:
                raise EnvironmentFailure(f"{path}: cannot remove the state ({cause.strerror})") from cause

    def place(self, time_ms: int) -> str:
        return str(self._path(time_ms))

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, time_ms: int) -> Path:
        return self._folder / f"{time_ms}{_SUFFIX}"

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
