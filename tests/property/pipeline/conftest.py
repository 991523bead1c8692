"""The files of these pipelines are in memory, if there is room: a kill of a driver loses nothing that was written."""

import shutil
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")  # tempfile makes folders for this user only


@pytest.fixture(scope="module", autouse=True)
def _files_in_memory():
    with pytest.MonkeyPatch.context() as patch:
        if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 1 << 30:
            patch.setattr("tempfile.tempdir", str(MEMORY))
        yield
