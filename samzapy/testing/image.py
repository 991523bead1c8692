"""What a killed process leaves on its disk."""

from __future__ import annotations

import shutil
from pathlib import Path


def take_image(folder: Path) -> Path:
    """Copy `folder` as it is this instant, also if an engine is changing it; returns the copy, which lies beside it."""
    image = folder.with_name(f"{folder.name}.image")
    for attempts_left in range(9, -1, -1):
        shutil.rmtree(image, ignore_errors=True)
        try:
            shutil.copytree(folder, image)
        except shutil.Error:
            # A file has vanished under the copy.
            if not attempts_left:
                raise
        else:
            break
    return image


def put_back(image: Path, folder: Path) -> None:
    """Let `folder` be what `image` was taken of; whoever had it open has closed it."""
    shutil.rmtree(folder)
    image.rename(folder)
