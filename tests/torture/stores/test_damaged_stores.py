"""Local stores that were damaged or removed: found out, set aside and made again, and never a short scan."""

import random
import shutil

import pytest
from outcomes import ANY, GUARANTEES
from rigs.store_rig import local_files

from samzapy.api.engine import EngineSettings
from samzapy.errors import SamzapyError, StoreCorrupted
from samzapy.failpoints import arm
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

SEEDS = range(20)
MARKER = Marker(StoreIdentity("job-1", "s", 0, "t"), 5, 1)


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << position % 8
    path.write_bytes(data)


def truncate(path, position):
    path.write_bytes(path.read_bytes()[:position])


def empty(path, position):
    path.write_bytes(b"")


def remove(path, position):
    path.unlink()


FILES = ["MANIFEST-*", "CURRENT", "*.sst", "OPTIONS-*", "rocksdict-config.json"]
#: Every file with every harm, in the guarantees by turns.
DAMAGES = [
    (file, harm, GUARANTEES[(row + column) % 4])
    for row, file in enumerate(FILES)
    for column, harm in enumerate([flip, truncate, empty, remove])
]


@pytest.fixture(scope="module")
def sound_store(tmp_path_factory):
    """A closed store of several tables, and its rows; tests damage copies of it."""
    base = tmp_path_factory.mktemp("sound")
    rows = {b"%05d" % n: random.Random(n).randbytes(90) for n in range(3_000)}
    local = opened(base)
    for part in range(3):
        local.engine.write({key: rows[key] for key in sorted(rows)[part::3]}, MARKER.to_bytes())
        local.engine.flush()
    local.engine.close()
    return base, rows


def opened(base):
    return local_files(base).open_kept(lambda marker: None)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flipped_bit_in_a_table_is_found_or_harmless_and_no_short_scan(sound_store, tmp_path, seed, outcome):
    base, rows = sound_store
    shutil.copytree(base, tmp_path / "damaged")
    random_ = random.Random(seed)
    table = random_.choice(sorted((tmp_path / "damaged").rglob("*.sst")))
    flip(table, random_.randrange(table.stat().st_size))
    local = opened(tmp_path / "damaged")
    read = rows
    if local.marker is not None:
        try:
            with local.engine.iterate(None, None) as pairs:
                read = dict(pairs)
            assert local.engine.get_all(sorted(rows)) == [rows[key] for key in sorted(rows)]
        except StoreCorrupted:
            local.engine.close()
            local = opened(tmp_path / "damaged")
            assert "it is damaged" in local.reason
    local.engine.close()
    different = sum(1 for key in rows.keys() | read.keys() if rows.get(key) != read.get(key))
    lost = len(rows.keys() - read.keys())
    outcome(
        "bit flipped in a table, then read",
        guarantee=ANY,
        system="rocksdb",
        events=len(rows),
        faults=1,
        lost=lost,
        duplicated=0,
        mismatches=different,
    )


def with_local_stores(ledger, guarantee):
    """A job whose local stores have several tables each."""
    job = ledger(guarantee)
    for _ in range(2):
        job.send(300)
        job.run()
    return job


@pytest.mark.parametrize(("file", "harm", "guarantee"), DAMAGES)
def test_a_damaged_file_means_an_earlier_commit_or_a_rebuilt_store(ledger, file, harm, guarantee, outcome):
    job = with_local_stores(ledger, guarantee)
    for path in job.store_files(file):
        harm(path, path.stat().st_size // 2)
    job.send(50)
    job.recover()
    outcome("store file damaged while stopped", **job.numbers(faults=1))


@pytest.mark.parametrize(
    ("marker", "guarantee"), [*zip([b"", b"{", b"\xff" * 40, b'{"format":99}'], GUARANTEES, strict=True)]
)
def test_a_marker_that_says_nothing_means_a_rebuilt_store(ledger, guarantee, marker, outcome):
    job = with_local_stores(ledger, guarantee)
    engine = RocksDbStorageEngineFactory().open(job.store_files("CURRENT")[0].parent, EngineSettings("ledger"))
    engine.write({}, marker)
    engine.close()
    job.send(50)
    assert not job.recover()
    assert job.set_aside()
    outcome("marker of a store overwritten", **job.numbers(faults=1))


def remove(folder):
    """Delete what a store is working in: files of its own may go while this looks."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("point", "guarantee"), [*zip(["start.6", "commit.2", "commit.5", "commit.6"], GUARANTEES, strict=True)]
)
def test_a_state_directory_removed_under_a_job_costs_an_attempt_at_most(ledger, guarantee, point, outcome):
    job = with_local_stores(ledger, guarantee)
    job.send(50)
    arm(point, nth=1, action=lambda name: remove(job.state_folder))
    try:
        job.run()
    except SamzapyError as failure:
        assert str(job.state_folder) in str(failure)  # noqa: PT017  it may fail, and then says where
    job.send(50)
    assert not job.recover()
    outcome("state directory removed while running", **job.numbers(faults=1))
