"""The processes that a driver of Spark has started, found from outside."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def below(pid: int) -> list[psutil.Process]:
    """The driver's JVM, executors, Python daemons and workers."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def workers(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The Python workers among them: forked by a daemon of Spark's."""
    return [process for process in processes if _is_daemon(process) and _is_daemon(_parent(process))]


def executors(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The executors' JVMs among them."""
    return [process for process in processes if "CoarseGrainedExecutorBackend" in command_line(process)]


def end(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to those that are left."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def command_line(process: psutil.Process) -> str:
    """Its words, joined; empty if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def _is_daemon(process: psutil.Process | None) -> bool:
    return process is not None and "pyspark.daemon" in command_line(process)
