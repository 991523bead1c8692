"""Writes files atomically and durably, even if several processes write the same one.

A superseded process may be suspended in a write, and go on after its successor has written the file. So each write has
its own temporary file, which is synced and renamed to the file's name; then the folder is synced.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from samzapy.clock import Clock

_SUFFIX = ".tmp"
#: The age in seconds after which no process still writes a temporary file.
_LEFT_S = 86_400.0


def _nothing() -> None:
    return


class WholeFiles:
    """Writes the files of one folder, in one thread."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._tidied = False

    def write(self, name: str, *parts: bytes, check: Callable[[], None] = _nothing) -> None:
        """Replace the file `name`, durably on return. `check` is called just before the rename; if it raises, the file
        stays as it was. Raises OSError."""
        # Not named after the file: the longest possible name leaves no room for a suffix.
        beside = self._folder / f".{secrets.token_hex(16)}{_SUFFIX}"
        try:
            with beside.open("xb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            check()
            beside.replace(self._folder / name)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise
        self._sync_folder()
        if not self._tidied:
            self._tidied = True
            self._tidy()

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _tidy(self) -> None:
        """Remove the temporary files that killed processes have left."""
        now_s = self._clock.wall_ms() / 1000
        with suppress(OSError):
            for path in self._folder.iterdir():
                with suppress(OSError):
                    if path.suffix == _SUFFIX and now_s - path.stat().st_mtime > _LEFT_S:
                        path.unlink()
