"""A store that is opened for reading beside its owner: what may happen meanwhile, and what is said of a failure."""

import errno
import os
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.errors import StoreError
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory, factory


@pytest.mark.parametrize("wal", ["true", "false"])
def test_a_log_that_is_the_only_file_a_flush_changes_during_the_opening_is_looked_for_again(tmp_path, monkeypatch, wal):
    stores, linked, gone = RocksDbStorageEngineFactory(), factory.links_to, {}
    owner = stores.open(tmp_path / "s", EngineSettings("s", {"rocksdb.wal.enabled": wal}))
    owner.write({b"a": b"1"}, b"m")

    @contextmanager
    def beside_the_end_of_a_flush(path):
        again = bool(gone)
        for away, log in gone.items():
            # The list of tables does without the log by now. Here it still needs it.
            away.rename(log)
        with linked(path) as links:
            if not again:
                gone.update({log.rename(log.with_suffix(".gone")): log for log in path.glob("*.log")})
            yield links

    monkeypatch.setattr(factory, "links_to", beside_the_end_of_a_flush)
    reader = stores.open(tmp_path / "s", EngineSettings("s"), read_only=True)
    assert gone
    assert reader.marker() == (b"m" if wal == "true" else None)
    reader.close()
    owner.close()


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ("write_bytes", errno.ENOSPC, "No space left on device: {file} (disk full: {free})"),
        ("write_text", errno.EDQUOT, "Disk quota exceeded: {file} (disk full: {free})"),
        ("symlink_to", errno.EFBIG, "File too large: {file} (file too large for this process or file system; {free})"),
    ],
)
def test_a_folder_of_temporary_files_without_room_is_named(tmp_path, monkeypatch, call, code, said):
    stores, temporary = RocksDbStorageEngineFactory(), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    stores.open(tmp_path / "s", EngineSettings("s")).close()

    def refused(file, *_):
        raise OSError(code, os.strerror(code), str(file))

    monkeypatch.setattr(Path, call, refused)
    with pytest.raises(StoreError) as caught:
        stores.open(tmp_path / "s", EngineSettings("s"), read_only=True)
    expected = re.escape(said).replace(r"\{file\}", f"'{temporary}/samzapy-read-.*'")
    expected = expected.replace(r"\{free\}", rf"[0-9,]+ B free in {temporary}")
    assert re.fullmatch(rf"{tmp_path}/s: opening for reading: \[Errno {code}\] {expected}", str(caught.value))
    assert list(temporary.iterdir()) == []
