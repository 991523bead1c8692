"""Deals with the Python worker as a process: where it runs, its end with its parent, the end of its predecessor.

1. Spark does not tell its Python workers their executor. Every executor of a cluster is started with `--executor-id` and
   `--hostname`, and the worker descends from it.
2. A worker must not outlive the process that forked it: an orphan would go on writing.
3. A superseded attempt lets go by itself, unless it is stopped: then it holds the locks of its local stores, and what it
   has handed to its producer, until it is continued. The coordinator knows the process of each attempt, so on the same
   machine the new attempt kills the old one before it takes anything over. It kills only a process that is provably the
   one: the same boot of the same kernel, the same scope of process numbers, the same start. On another machine there is
   no lock of ours to hold, and the lease and the fence have to do.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil

from samzapy.coordinator.wire import AttemptProcess, Place

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


logger = logging.getLogger(__name__)

#: How long a killed process may take to be gone, in seconds: it may be writing a core, or wait for a disk.
_GONE_S = 10.0


def this_process(spark_task: int | None) -> AttemptProcess | None:
    """This process as an attempt; None where the kernel does not tell (not Linux)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        scope = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no path, a name
        started = _started(os.getpid())
    except OSError:
        return None
    return (
        None if started is None else AttemptProcess(f"{boot} {scope}", os.getpid(), started, spark_task, this_place())
    )


def end_predecessor(predecessor: AttemptProcess) -> bool:
    """Kill it if it still runs here, and wait until it is gone; whether there was anything to kill."""
    here = this_process(None)
    if here is None or here.machine != predecessor.machine or here.pid == predecessor.pid:
        return False
    try:
        handle = os.pidfd_open(predecessor.pid)
    except OSError:
        return False
    try:
        # From here on the number cannot be given to another process unnoticed: the handle stands for this one.
        if _started(predecessor.pid) != predecessor.started:
            return False
        return _kill(handle, predecessor.pid)
    finally:
        os.close(handle)


def _kill(handle: int, pid: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError as cause:
        logger.warning("Pid %d runs this container under an older epoch, and cannot be killed: %s", pid, cause)
        return False
    logger.warning("Killed pid %d: it ran this container under an older epoch", pid)
    if not select.select([handle], [], [], _GONE_S)[0]:
        logger.warning("Pid %d has not ended %g s after it was killed", pid, _GONE_S)
    return True


def _started(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; None if there is no such process."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name, in parentheses, may hold anything; after it, the 20th field is the start.
    return int(line.rpartition(")")[2].split()[19])
