"""Ends the process of the attempt before, where it runs beside us.

A superseded attempt lets go by itself, unless it is stopped: then it holds its local stores' locks, and what it has handed
to its producer, until somebody lets it go on. The coordinator knows each attempt's process, so on the same machine the
new attempt kills the old one before it takes anything over. It is killed only if it is provably the one: the same boot
of the same kernel, the same scope of process numbers, and the start that was told. On another machine there is no lock
of ours to hold, and the lease and the fence have to do.
"""

from __future__ import annotations

import logging
import os
import select
import signal
from pathlib import Path

from samzapy.coordinator.wire import AttemptProcess
from samzapy.runner.spark.place import this_place

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
