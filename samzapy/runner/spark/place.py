"""The executor that this process belongs to, and where Spark takes it to be.

Spark does not tell its Python workers. Every executor of a cluster is started with `--executor-id` and `--hostname`, and
the worker descends from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import psutil

from samzapy.coordinator.wire import Place

_HOST, _EXECUTOR = "--hostname", "--executor-id"


def this_place() -> Place | None:
    """Where this process runs; None if it descends from no executor, as with a `local` master."""
    try:
        for parent in psutil.Process().parents():
            found = place_of(parent.cmdline())
            if found is not None:
                return found
    except psutil.Error:
        return None
    return None


def place_of(command: Sequence[str]) -> Place | None:
    """The executor that is started by this command; None for any other."""
    words = list(command)
    if _HOST not in words or _EXECUTOR not in words:
        return None
    host, executor = (words[words.index(name) + 1 : words.index(name) + 2] for name in (_HOST, _EXECUTOR))
    return Place(host[0], executor[0]) if host and executor else None
