"""Memory for librdkafka's threads."""

from __future__ import annotations

import ctypes
import os
from functools import cache

#: mallopt's number for the greatest number of arenas.
_M_ARENA_MAX = -8
_MOST = 256


@cache
def give_threads_arenas() -> bool:
    """Let every thread have an arena of its own of glibc's malloc; False where that is not glibc's, or the user's to say.

    By default there are eight for each core, and a client has three threads or more: on two cores a handful of clients
    share arenas with one another and with the thread that runs the tasks, which then waits for them and gets memory in
    pieces. That cost a pass-through job 13 % more CPU. Only in force before there are more than eight.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        # musl has none.
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MOST))
    except (OSError, AttributeError):
        return False
