"""A store that is opened for reading beside its owner: what may happen meanwhile, and what is said of a failure."""

from contextlib import contextmanager

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.storage import rocksdb
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory


@pytest.mark.parametrize("wal", ["true", "false"])
def test_a_log_that_is_the_only_file_a_flush_changes_during_the_opening_is_looked_for_again(tmp_path, monkeypatch, wal):
    stores, linked, gone = RocksDbStorageEngineFactory(), rocksdb.links_to, {}
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

    monkeypatch.setattr(rocksdb, "links_to", beside_the_end_of_a_flush)
    reader = stores.open(tmp_path / "s", EngineSettings("s"), read_only=True)
    assert gone
    assert reader.marker() == (b"m" if wal == "true" else None)
    reader.close()
    owner.close()
