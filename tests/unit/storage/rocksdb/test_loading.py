"""What a restore loads into RocksDB: whole or not at all, and on disk."""

import shutil
import signal
import subprocess
import sys

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.errors import StoreError
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.storage.rocksdb.engine import MARKER_KEY

FACTORY = RocksDbStorageEngineFactory()
SETTINGS = EngineSettings("s")
MANY = 25_000


def many(value: bytes, count: int = MANY) -> dict[bytes, bytes | None]:
    return {b"k%06d" % n: value for n in range(count)}


def part(changes):
    keys = sorted(changes)
    return keys, [changes[key] for key in keys]


def contents(path, settings=SETTINGS):
    engine = FACTORY.open(path, settings)
    try:
        with engine.iterate(None, None) as pairs:
            return dict(pairs), engine.marker()
    finally:
        engine.close()


@pytest.mark.parametrize("count", [10, MANY])
def test_what_is_loaded_survives_a_kill_from_the_moment_the_call_returns(tmp_path, count):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    engine.write({b"a": b"1"}, b"first")
    engine.load([part(many(b"v", count))], b"second")
    engine.write({b"a": b"2"}, b"third")
    shutil.copytree(tmp_path / "store", tmp_path / "image")
    engine.close()
    assert contents(tmp_path / "image") == ({b"a": b"1"} | many(b"v", count), b"second")


KILLED = """
import sys
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.failpoints import arm
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s"))
keys = [b"k%06d" % n for n in range(25_000)]
engine.load([(keys, [b"old"] * 25_000)], b"first")
arm(sys.argv[2], action="kill")
engine.load([(keys, [b"new" if n % 2 else None for n in range(25_000)])], b"second")
"""


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("restore.file", (many(b"old"), b"first")),
        ("restore.loaded", ({b"k%06d" % n: b"new" for n in range(1, MANY, 2)}, b"second")),
    ],
)
def test_a_load_that_is_killed_is_there_whole_or_not_at_all(tmp_path, point, expected):
    path = tmp_path / "store"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), point], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert contents(path) == expected
    assert not list(path.glob("loading*"))


def test_the_reserved_key_is_refused_in_a_load(tmp_path):
    engine = FACTORY.open(tmp_path, SETTINGS)
    with pytest.raises(StoreError, match="is reserved"):
        engine.load([part({**many(b"v"), MARKER_KEY: b"mine"})], b"first")
    assert engine.marker() is None
    engine.close()
