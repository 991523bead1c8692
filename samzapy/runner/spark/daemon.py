"""Forks an executor's Python workers: Spark's own daemon, with the modules of containers imported before the fork.

Without it, each attempt spends about a second on imports. Spark's own daemon imports nothing: a thread that an import
has started does not exist in the forked worker, and its locks stay locked there (pandas and pyarrow start threads). So:

1. This daemon imports only modules of samzapy, Spark's worker and their libraries, and opens nothing.
2. If there is a second thread after the imports, Spark's own daemon runs instead.
3. It imports nothing from the executor's current folder, which `python -m` puts first on the import path: the driver
   may not have that folder on its path. From Python 3.11 on, PYTHONSAFEPATH keeps the folder off the path.

Nothing may be printed, because the daemon writes its port to standard output.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

#: The modules that most containers need. One that cannot be imported is skipped; a worker that needs it reports that.
PRELOADED = (
    "pyspark.worker",
    "samzapy.runner.spark.worker",
    "samzapy.serializers",
    "samzapy.system.kafka",
    "samzapy.storage.rocksdb",
)


def preload() -> None:
    """Import the modules."""
    for name in PRELOADED:
        with suppress(Exception):
            import_module(name)


def may_fork() -> bool:
    """Whether this process has one thread only; True outside Linux, where the kernel does not report it."""
    tasks = Path("/proc/self/task")
    return not tasks.exists() or len(list(tasks.iterdir())) == 1


def main() -> None:
    """Take the place of Spark's daemon, which has the same command line."""
    preload()
    if not may_fork():
        command = [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]]
        os.execv(command[0], command)  # noqa: S606  # as Spark starts it
    # These objects stay for good: a collection in a worker would only copy their pages.
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    main()
