"""Python workers must not outlive the process that forked them: an orphan would go on writing."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; returns only if the parent is still there.

    Linux only; elsewhere the lease alone ends an orphan, later.
    """
    parent = os.getppid()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        refused = libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if not refused and (os.getppid() != parent or parent == 1):
        os.kill(os.getpid(), signal.SIGKILL)
