"""Snapshots: uploaded file by file, used only when whole, collected when old."""

from pathlib import Path

import pytest

from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.storage.backup.folder import BackupUnavailable, check_folder, open_folder
from samzapy.storage.backup.snapshot import SnapshotIndex, SnapshotUploader, newest_snapshot
from samzapy.storage.local.marker import Marker, StoreIdentity

IDENTITY = StoreIdentity("job-1", "s", 0, "t")


@pytest.fixture(autouse=True)
def nothing_armed():
    yield
    disarm()


@pytest.fixture
def folder(tmp_path):
    return open_folder((tmp_path / "backup").as_uri(), {}, "job-1", "s", "Partition_0")


@pytest.fixture
def checkpoint(tmp_path):
    """Make a directory with these files."""

    def made(**files):
        directory = tmp_path / "checkpoint"
        directory.mkdir(exist_ok=True)
        for path in directory.iterdir():
            if path.name not in files:
                path.unlink()
        for name, text in files.items():
            path = directory / name
            if not path.exists() or path.read_text() != text:
                path.unlink(missing_ok=True)
                path.write_text(text)
        return directory

    return made


def marker(offset, time_ms=0):
    return Marker(IDENTITY, offset, time_ms or offset)


def restored(folder, tmp_path, refuse=lambda marker: None):
    """The offset and the files of what a restore gets, None for nothing."""
    target = tmp_path / "store"
    found = newest_snapshot(folder, target, refuse)
    if found is None:
        assert not target.exists()
        return None
    files = {path.name: path.read_text() for path in target.iterdir()}
    for path in target.iterdir():
        path.unlink()
    target.rmdir()
    return found.changelog_offset, files


def stored(tmp_path):
    """The files of snapshots as they lie in the folder."""
    return sorted((tmp_path / "backup").rglob("files/*"))


def indexes(tmp_path):
    return sorted((tmp_path / "backup").rglob("index/*"))


def test_only_new_files_are_uploaded_whoever_has_uploaded_the_others(folder, checkpoint):
    SnapshotUploader(folder, 2).upload(checkpoint(a="1", b="22"), marker(1))
    uploaded = SnapshotUploader(folder, 2).upload(checkpoint(a="1", renamed="22", c="333"), marker(2))
    assert uploaded == (1, 3)


def test_one_that_does_not_fit_is_passed_over(folder, checkpoint, tmp_path):
    uploader = SnapshotUploader(folder, 2)
    uploader.upload(checkpoint(a="1"), marker(1))
    uploader.upload(checkpoint(a="2"), marker(2))
    assert restored(folder, tmp_path, lambda found: "too far" if found.changelog_offset == 2 else None)[0] == 1
    assert restored(folder, tmp_path, lambda found: "no") is None


def flip(path: Path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [flip, lambda path: path.write_bytes(path.read_bytes()[:-1]), Path.unlink])
@pytest.mark.parametrize("what", ["file", "index"])
def test_a_damaged_snapshot_is_passed_over(folder, checkpoint, tmp_path, damage, what):
    uploader = SnapshotUploader(folder, 2)
    uploader.upload(checkpoint(a="first"), marker(1))
    first = {*stored(tmp_path), *indexes(tmp_path)}
    uploader.upload(checkpoint(a="second"), marker(2))
    found = stored(tmp_path) if what == "file" else indexes(tmp_path)
    (newest,) = set(found) - first
    damage(newest)
    assert restored(folder, tmp_path) == (1, {"a": "first"})


def test_an_index_that_leads_out_of_the_directory_is_no_index(folder, checkpoint):
    SnapshotUploader(folder, 2).upload(checkpoint(a="1"), marker(1))
    uploaded = SnapshotIndex.from_bytes(folder.get_index(*folder.indexes()))
    evil = SnapshotIndex(uploaded.marker, {"../a": uploaded.files["a"]})
    with pytest.raises(ValueError, match=r"'\.\./a' is no name"):
        SnapshotIndex.from_bytes(evil.to_bytes())


def test_as_many_snapshots_are_kept_as_are_asked_for_and_their_files_alone(folder, checkpoint, tmp_path):
    uploader = SnapshotUploader(folder, 2)
    for number in range(1, 6):
        uploader.upload(checkpoint(always="same", changing=str(number)), marker(number))
    assert len(indexes(tmp_path)) == 2
    assert sorted(path.read_text() for path in stored(tmp_path)) == ["4", "5", "same"]


def test_snapshots_of_an_earlier_changelog_give_way_to_new_ones(folder, checkpoint, tmp_path):
    SnapshotUploader(folder, 1).upload(checkpoint(a="old"), marker(1_000, time_ms=5))
    SnapshotUploader(folder, 1).upload(checkpoint(a="new"), marker(3, time_ms=9))
    assert restored(folder, tmp_path) == (3, {"a": "new"})
    assert len(indexes(tmp_path)) == 1


def test_files_of_no_snapshot_are_removed_at_the_second_sight(folder, checkpoint, tmp_path):
    arm("backup.index")
    with pytest.raises(FailPointReached):
        SnapshotUploader(folder, 2).upload(checkpoint(a="torn"), marker(1))
    uploader = SnapshotUploader(folder, 2)
    uploader.upload(checkpoint(a="1"), marker(1))
    assert "torn" in {path.read_text() for path in stored(tmp_path)}, "a successor may be uploading it just now"
    uploader.upload(checkpoint(a="2"), marker(2))
    assert sorted(path.read_text() for path in stored(tmp_path)) == ["1", "2"]


def test_a_place_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    blocked = open_folder((tmp_path / "file").as_uri(), {}, "job-1")
    with pytest.raises(BackupUnavailable, match=r"file/job-1/index/x: writing a snapshot failed: "):
        blocked.put_index("x", b"")


def test_a_file_system_that_is_not_installed_is_refused_by_name():
    with pytest.raises(BackupUnavailable, match=r"^nosuch://bucket: .*nosuch"):
        check_folder("nosuch://bucket")
