"""`samzapy demo` in a folder that another demo uses."""

import subprocess
import sys

HOLDER = """
import sys
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("delays"))
print("open", flush=True)
sys.stdin.readline()
"""


def test_the_files_of_a_demo_that_runs_are_not_removed(samzapy, tmp_path):
    folder = tmp_path / "demo"
    store = folder / "state" / "flights-1" / "delays" / "Partition_0"
    store.mkdir(parents=True)
    (folder / ".samzapy-demo").touch()
    command = [sys.executable, "-c", HOLDER, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "open\n"
        code, _, errors = samzapy("demo", "--folder", str(folder), "--runner", "local")
        holder.stdin.close()
    assert (code, f"pid {holder.pid} has the store" in errors) == (3, True), errors
    assert (store / "LOCK").is_file()
