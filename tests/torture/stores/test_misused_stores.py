"""Stores used when and where they must not be: typed errors, and never the end of the process."""

import subprocess
import sys

import pytest
from outcomes import ANY

#: Threads read and write while the store is closed under them, ten times over; each must end with StoreClosed.
CLOSED_UNDER_THREADS = """
import sys, threading
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.errors import StoreClosed
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

ROWS = {b"%05d" % n: b"v" * 100 for n in range(5_000)}
USES = {
    "get": lambda engine: engine.get(b"00001"),
    "get_all": lambda engine: engine.get_all(list(ROWS)[:100]),
    "write": lambda engine: engine.write({b"00001": b"w" * 100}, b"marker"),
    "range": lambda engine: read(engine),
    "flush": lambda engine: engine.flush(),
}

def read(engine):
    with engine.iterate(None, None) as pairs:
        count = sum(1 for _ in pairs)
    assert count == len(ROWS), f"a range of {count}"

def use(call, engine, ended, begun):
    try:
        while True:
            call(engine)
            begun.set()
    except StoreClosed:
        ended.append(None)
    except BaseException as failure:
        ended.append(f"{type(failure).__name__}: {failure}")

for round in range(10):
    engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s"))
    engine.write(ROWS, b"marker")
    call, ended, begun = USES[sys.argv[2]], [], threading.Event()
    threads = [threading.Thread(target=use, args=(call, engine, ended, begun)) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    engine.close()
    for thread in threads:
        thread.join()
    assert ended == [None] * 3, ended
"""


@pytest.mark.parametrize("use", ["get", "get_all", "write", "range", "flush"])
def test_a_store_closed_under_other_threads_is_a_typed_error_for_each(use, tmp_path, outcome):
    command = [sys.executable, "-c", CLOSED_UNDER_THREADS, str(tmp_path / "store"), use]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    outcome(
        "store closed under threads",
        guarantee=ANY,
        system="rocksdb",
        events=50_000,
        faults=10,
        lost=0,
        duplicated=0,
        mismatches=0,
    )
