"""The folder of a demonstration: made new each time, and only if it is one of ours."""

from __future__ import annotations

import shutil
from pathlib import Path

from samzapy.errors import EnvironmentFailure

_MARK = ".samzapy-demo"


def fresh_folder(path: Path) -> Path:
    """An empty folder at `path`; what an earlier demonstration left there is removed.

    Raises EnvironmentFailure for a folder that holds anything else, or that cannot be written.
    """
    try:
        if path.is_dir() and any(path.iterdir()):
            if not (path / _MARK).is_file():
                raise EnvironmentFailure(f"{path} is not empty and not a demo's folder; name another one with --folder")
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        (path / _MARK).touch()
    except OSError as cause:
        raise EnvironmentFailure(f"{path}: cannot be used for the demo ({cause.strerror})") from cause
    return path
