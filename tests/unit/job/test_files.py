"""Temporary folders of processes that were killed, and of those that go on."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from samzapy.job.files import TemporaryFolder

#: A process that is killed.
KILLED = """
import os, signal
from samzapy.job.files import TemporaryFolder
print(TemporaryFolder("copies").path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_of_a_killed_process_is_removed_by_the_next(place):
    environ = {**os.environ, "TMPDIR": str(place)}
    run = subprocess.run([sys.executable, "-c", KILLED], env=environ, stdout=subprocess.PIPE, text=True, check=False)
    killed = Path(run.stdout.strip())
    assert (killed.parent, killed.is_dir()) == (place, True)
    others = place / "samzapy-copies-notes-abc"
    others.mkdir()
    with TemporaryFolder("notes"):
        assert killed.exists()
    with TemporaryFolder("copies") as going_on:
        assert not killed.exists()
        with TemporaryFolder("copies"):
            assert going_on.path.exists()
    assert not going_on.path.exists()
    assert others.exists()


def test_the_folder_of_a_process_in_another_container_stays(place):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with TemporaryFolder("copies") as elsewhere:
        seen_from_here = elsewhere.path.rename(place / f"samzapy-copies-{ended.pid}-abc")
        with TemporaryFolder("copies"):
            assert seen_from_here.exists()
