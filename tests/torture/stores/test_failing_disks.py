"""A disk that is full, forbidden, slow, or without file handles; too little memory; a directory somebody else holds."""

import os
import resource
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from limits import lower, no_more_files, restored_afterwards, without_rights
from outcomes import GUARANTEES

from samzapy.errors import SamzapyError, StoreError
from samzapy.failpoints import arm

#: So small that a commit reaches the disk.
SMALL_MEMTABLE = {"stores.ledger.container.write.buffer.size.bytes": "65536"}


def fail_at(job, point, action, limit):
    """Run once with `action` at the point; what the run failed with."""
    arm(point, nth=1, action=action)
    with restored_afterwards(limit), pytest.raises(SamzapyError) as failed:
        job.run()
    return str(failed.value)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("point", ["start.2", "start.6", "commit.2", "commit.5"])
def test_a_full_disk_ends_the_attempt_and_a_free_one_brings_all_back(ledger, guarantee, point, outcome):
    job = ledger(guarantee, SMALL_MEMTABLE)
    job.send(200)
    job.run()
    job.send(200)
    failure = fail_at(job, point, lambda name: lower(resource.RLIMIT_FSIZE, 100), resource.RLIMIT_FSIZE)
    assert str(job.state_folder.parent) in failure
    assert not job.recover()
    outcome("disk full", **job.numbers(faults=1))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_without_file_handles_no_store_is_opened_and_later_all_is_there(ledger, guarantee, outcome):
    job = ledger(guarantee)
    job.send(200)
    job.run()
    job.send(200)
    held = []
    failure = fail_at(job, "start.2", lambda name: held.extend(no_more_files()), resource.RLIMIT_NOFILE)
    for handle in held:
        os.close(handle)
    assert "Too many open files" in failure or "unable to open" in failure
    assert not job.recover()
    outcome("no file handles left", **job.numbers(faults=1))


@pytest.fixture
def open_folder():
    """A folder that everybody may enter, as the temporary folders of tests are private."""
    folder = Path(tempfile.mkdtemp(prefix="samzapy-torture-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("begun", [False, True])
def test_a_directory_without_the_right_to_write_is_named(ledger, guarantee, begun, open_folder, outcome):
    job = ledger(guarantee, folder=open_folder / "state")
    job.state_folder.mkdir(mode=0o755)
    job.send(50)
    if begun:
        job.run()
        job.send(50)
    before = job.store_files()
    job.state_folder.chmod(0o555)
    rights = ExitStack()
    # Only the state is out of reach, not the system's own file.
    arm("start.3", nth=1, action=lambda name: rights.enter_context(without_rights()))
    with rights, pytest.raises(StoreError, match=str(job.state_folder)):
        job.run()
    job.state_folder.chmod(0o755)
    assert job.store_files() == before
    assert not job.recover()
    outcome("no right to write the state", **job.numbers(faults=1))
