"""The folders of a job, before it starts."""

import os
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.runner.folders import STORE_BYTES, FolderState, check_folders, look_at, refusal
from samzapy.storage.engines import load_engines

JOB = {
    "job.name": "folders",
    "task.class": "a:B",
    "task.inputs": "memory.in",
    "systems.memory.samza.factory": "memory",
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "string",
    "stores.s.changelog": "memory.s",
}


def check(**keys):
    config = load_job(JOB | {key.replace("__", "."): str(value) for key, value in keys.items()}, environ={})
    check_folders(config, load_engines(config))


@contextmanager
def full_disk(folder):
    """A file system with hardly any room at `folder`."""
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_every_folder_that_is_a_file_is_named_with_its_key(tmp_path):
    (tmp_path / "file").write_text("")
    at = tmp_path / "file"
    with pytest.raises(EnvironmentFailure) as caught:
        check(
            **{
                "job.logged.store.base.dir": at,
                "job.non-logged.store.base.dir": at / "below",
                "stores.t.factory": "rocksdb",
                "stores.t.key.serde": "string",
                "stores.t.msg.serde": "string",
                "task.checkpoint.factory": "file",
                "task.checkpoint.path": at,
            }
        )
    assert str(caught.value).splitlines() == [
        f"job.logged.store.base.dir: expected a folder, {at} is not one, got '{at}'",
        f"job.non-logged.store.base.dir: expected a folder, {at} is not one, got '{at}/below'",
        f"task.checkpoint.path: expected a folder, {at} is not one, got '{at}'",
    ]


def test_a_folder_that_nothing_is_written_to_does_not_matter(tmp_path):
    (tmp_path / "file").write_text("")
    check(**{"job.logged.store.base.dir": tmp_path / "file", "stores.s.factory": "inmemory"})
    check(**{"job.non-logged.store.base.dir": tmp_path / "file", "job.logged.store.base.dir": tmp_path / "new" / "er"})
    check(**{"job.logged.store.base.dir": tmp_path / "file", "job.spark.master": "spark://elsewhere:7077"})


def test_a_folder_without_room_is_named_with_what_there_is(tmp_path):
    with full_disk(tmp_path), pytest.raises(EnvironmentFailure) as caught:
        check(**{"job.logged.store.base.dir": tmp_path})
    assert str(caught.value).startswith(f"job.logged.store.base.dir: {tmp_path} has ")
    assert f" B free, expected at least {STORE_BYTES:,}, got '{tmp_path}'" in str(caught.value)


def test_what_is_refused_says_why(tmp_path):
    place = FolderState(tmp_path, is_folder=True, writable=True, owner=0, free_bytes=STORE_BYTES, files=None)
    assert refusal(place, 0, STORE_BYTES) is None
    assert refusal(replace(place, files=0), 0, STORE_BYTES) == f"{tmp_path} is on a file system without free inodes"
    assert refusal(replace(place, free_bytes=None), 0, STORE_BYTES) is None
    closed = replace(place, writable=False)
    assert refusal(closed, 0, STORE_BYTES) == f"user root may not write to {tmp_path}"
    assert refusal(closed, 99_999, STORE_BYTES) == f"user 99999 may not write to {tmp_path}, it belongs to user root"


def test_the_nearest_folder_that_exists_is_looked_at(tmp_path):
    place = look_at(tmp_path / "a" / "b")
    assert (place.there, place.is_folder, place.writable, place.owner) == (tmp_path, True, True, os.geteuid())
