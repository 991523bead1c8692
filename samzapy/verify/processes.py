"""The fault harness: runs `samzapy run` as a separate process, watches it from outside, and ends or stops its
processes.

The soak, the integration tests and the torture tests share it. It touches only its own processes, by their ids:

1. `JobProcess` starts a job, reads its output and its coordinator's status, and finds the processes of Spark below it.
2. `end`, `suspend` and `resume` send signals to processes; `gone` checks whether one has ended.
3. `until` waits for an action of another process, never longer than a deadline.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import psutil

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.coordinator.client import CoordinatorClient
from samzapy.errors import SamzapyError

#: Seconds between two checks.
PACE_S = 0.05

_SAMZAPY = (sys.executable, "-c", "from samzapy.cli.main import main; main()")
#: The module that forks Python workers.
_DAEMON = "pyspark.daemon"
_PAGE = re.compile(r"^status page: (https?://\S+)/\?token=([^\s#]+)(?:#(\S+))?$", re.MULTILINE)

Found = TypeVar("Found")


def command_in(folder: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run `samzapy COMMAND...` in `folder` to its end."""
    return subprocess.run([*_SAMZAPY, *command], cwd=folder, capture_output=True, text=True, check=False)


class JobProcess:
    """Runs `samzapy run ARGUMENTS...` in `folder`.

    Its output goes to `run-N.out`, its errors to `run-N.log`. A process that is `tied` ends with the thread that made
    it.
    """

    #: The command line before `run`.
    samzapy: ClassVar[tuple[str, ...]] = _SAMZAPY
    tied: ClassVar[bool] = True

    def __init__(self, folder: Path, *arguments: str, **environ: str) -> None:
        """`environ`: variables on top of this process's."""
        number = len(list(folder.glob("run-*.log")))
        self._log, self._out = folder / f"run-{number}.log", folder / f"run-{number}.out"
        tie = shutil.which("setpriv") if self.tied else None
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*((tie, "--pdeathsig", "KILL") if tie else ()), *self.samzapy, "run", *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env={**os.environ, **environ},
                start_new_session=True,
            )
        self._client: CoordinatorClient | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while it runs."""
        return self.process.poll()

    @property
    def errors(self) -> str:
        """Its standard error so far."""
        return self._log.read_text(errors="replace")

    @property
    def output(self) -> str:
        """Its standard output so far."""
        return self._out.read_text(errors="replace")

    @property
    def last_words(self) -> str:
        """The last error that it has printed, else its last line."""
        lines = f"{self.output}\n{self.errors}".strip().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        return (errors or lines or ["nothing"])[-1].removeprefix("error: ")

    def status(self) -> dict[str, Any] | None:
        """The coordinator's status; None while the coordinator does not answer."""
        if self._client is None:
            pages = _PAGE.findall(self.errors)
            if not pages:
                return None
            self._client = CoordinatorClient(*pages[-1])
        try:
            return self._client.status()
        except SamzapyError:
            # A command that has executed itself anew has another page.
            self._client = None
            return None

    def below(self) -> list[psutil.Process]:
        """The running processes that it has started."""
        return below(self.process.pid)

    def workers(self) -> list[psutil.Process]:
        """The Python workers, forked by a daemon of Spark's."""
        return workers(self.below())

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return [process for process in self.below() if "CoarseGrainedExecutorBackend" in command_line(process)]

    def terminate(self) -> None:
        """Ask it to commit and stop."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to the driver alone; returns the processes below it, which must end by themselves."""
        left = self.below()
        self.process.kill()
        self.process.wait()
        return left

    def suspend(self) -> list[psutil.Process]:
        """SIGSTOP to the driver and everything below it; returns the stopped processes."""
        stopped = with_children(self.process.pid)
        suspend(stopped)
        return stopped

    def close(self) -> None:
        """End it and everything below it."""
        left = self.below()
        if self.process.poll() is None:
            self.process.kill()
        end(left)
        self.process.wait()


def below(pid: int) -> list[psutil.Process]:
    """The processes below a driver: its JVM, executors, Python daemons and workers."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def with_children(pid: int) -> list[psutil.Process]:
    """A process and everything below it. Raises psutil.NoSuchProcess."""
    return [psutil.Process(pid), *below(pid)]


def workers(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The Python workers among them, forked by a daemon of Spark's."""
    return [process for process in processes if _is_daemon(process) and _is_daemon(_parent(process))]


def end(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to the running ones."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def suspend(processes: Iterable[psutil.Process]) -> None:
    """Send SIGSTOP to the running ones."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()


def resume(processes: Iterable[psutil.Process]) -> None:
    """Send SIGCONT to the running ones."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def command_line(process: psutil.Process) -> str:
    """The words of its command line, joined; empty if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class NoProgress(SamzapyError):
    """Raised when an awaited event did not happen in time: a job that hangs breaks its promise."""


def until(
    check: Callable[[], Found | None],
    awaited: Callable[[], str] | str,
    timeout_s: float = 60.0,
    clock: Clock = SYSTEM_CLOCK,
) -> Found:
    """The first true answer of `check`. Raises NoProgress, which names the `awaited` event, after `timeout_s`
    seconds."""
    deadline = clock.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        answer = check()
        if answer:
            return answer
        if clock.monotonic() > deadline:
            raise NoProgress(f"not within {timeout_s:g} s: {awaited if isinstance(awaited, str) else awaited()}")
        pause.wait(PACE_S)


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def _is_daemon(process: psutil.Process | None) -> bool:
    return process is not None and _DAEMON in command_line(process)
