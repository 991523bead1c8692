"""Limits of the process, lowered for a while; root cannot go beyond them either."""

import os
import resource
from contextlib import contextmanager
from pathlib import Path

import psutil

_NOBODY = 65_534


@contextmanager
def restored_afterwards(limit):
    """What the block, or whatever it starts, does to the soft limit is undone at its end."""
    before = resource.getrlimit(limit)
    try:
        yield
    finally:
        resource.setrlimit(limit, before)


def lower(limit, soft):
    """Lower the soft limit of this process."""
    resource.setrlimit(limit, (soft, resource.getrlimit(limit)[1]))


def no_more_files():
    """Let no further file be opened by this process."""
    highest = max(int(handle.name) for handle in Path("/proc/self/fd").iterdir())
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest + 1 - psutil.Process().num_fds())]
    lower(resource.RLIMIT_NOFILE, highest + 1)
    return held


@contextmanager
def without_rights():
    """The rights of nobody in particular, where this process has those of root, which no permission binds."""
    if os.geteuid():
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
