"""The daemon that forks an executor's Python workers: Spark's own, with what containers need imported before the fork.

A worker imports for about a second otherwise, in each attempt. Spark's daemon imports nothing, because a thread that an import
has started would not exist in the fork, and what it holds would stay locked (pandas and pyarrow start some). So does this one:

1. Only modules of samzapy, Spark's worker and their libraries are imported, and of them nothing is opened.
2. If there is a second thread after that, Spark's daemon takes the place of this one.

Nothing may be printed: the daemon says its port on standard output.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

#: What most containers need; what cannot be imported is not needed, or says so in the worker.
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
    """Whether there is one thread only; True where the kernel does not say (not Linux)."""
    tasks = Path("/proc/self/task")
    return not tasks.exists() or len(list(tasks.iterdir())) == 1


def main() -> None:
    """Take the place of Spark's daemon, which has the same command line."""
    preload()
    if not may_fork():
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])  # noqa: S606  # as Spark starts it
    # What is there now stays; a collection in a worker would only copy its pages.
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
