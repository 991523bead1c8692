"""The folders of a job, before it starts."""

import os
import pwd
import subprocess
from contextlib import contextmanager

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.runner.folders import STORE_BYTES, check_folders, refusal
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


def test_the_nearest_folder_that_exists_counts(tmp_path):
    assert refusal(tmp_path / "a" / "b", 1) is None
    assert refusal(tmp_path / "a" / "b", 1 << 62).startswith(f"{tmp_path} has ")


@pytest.mark.parametrize("owner", [os.geteuid(), 99_999])
def test_a_folder_without_rights_is_named_with_its_owner(tmp_path, monkeypatch, owner):
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    os.chown(tmp_path, owner, -1)
    user = pwd.getpwuid(os.geteuid()).pw_name
    belongs = "" if owner == os.geteuid() else ", it belongs to user 99999"
    assert refusal(tmp_path, 1) == f"user {user} may not write to {tmp_path}{belongs}"
