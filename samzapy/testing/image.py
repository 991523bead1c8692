"""Copies a folder as a killed process would leave it, and puts the copy back."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

_ATTEMPTS = 1_000

_State = dict[Path, tuple[int, int, int]]


def take_image(folder: Path) -> Path:
    """Copy `folder` as it is at one instant, also if an engine's threads are changing it; returns the copy, which lies
    beside it. Files that change under a copy are no instant's, so it is made again. Raises RuntimeError if that never ends."""
    image = folder.with_name(f"{folder.name}.image")
    for _ in range(_ATTEMPTS):
        shutil.rmtree(image, ignore_errors=True)
        # A file that vanishes is a change, too.
        with suppress(shutil.Error, FileNotFoundError):
            before = _state(folder)
            shutil.copytree(folder, image)
            if _state(folder) == before:
                return image
    raise RuntimeError(f"{folder}: its files changed during each of {_ATTEMPTS} copies")


def _state(folder: Path) -> _State:
    found = {path: path.stat() for path in folder.rglob("*")}
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}


def put_back(image: Path, folder: Path) -> None:
    """Replace `folder` by its `image`; no process may have it open."""
    shutil.rmtree(folder)
    image.rename(folder)
