"""`samzapy run` as a process of its own, looked at from outside: its coordinator, its Spark processes, its output."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.coordinator.client import CoordinatorClient
from samzapy.errors import SamzapyError

_SAMZAPY = (sys.executable, "-c", "from samzapy.cli.main import main; main()")


def command_in(folder: Path, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `samzapy COMMAND...` in `folder` to its end."""
    words = [*_SAMZAPY, *command]
    return subprocess.run(words, cwd=folder, env=dict(environ), capture_output=True, text=True, check=False)


class JobProcess:
    """Runs the job file `name` in `folder`; ends with the thread that made it.

    Everything that is found below it (`workers`, `executors`) was started by it.
    """

    def __init__(self, folder: Path, name: str, environ: Mapping[str, str], more: Sequence[str] = ()) -> None:
        """`more`: further arguments of the command."""
        self._log = folder / f"run-{len(list(folder.glob('run-*.log')))}.log"
        tie = shutil.which("setpriv")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*((tie, "--pdeathsig", "KILL") if tie else ()), *_SAMZAPY, "run", name, *more],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environ),
                start_new_session=True,
            )
        self._page = StatusPage()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The last line of its output that is an error, else the last one."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        return (errors or lines or ["nothing"])[-1].removeprefix("error: ")

    def status(self) -> dict[str, Any] | None:
        """The coordinator's status; None while there is none to be had."""
        return self._page.status(self._log.read_text(errors="replace"))

    def workers(self) -> list[psutil.Process]:
        """The Python workers: forked by a daemon of Spark's."""
        return workers(self.below())

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return executors(self.below())

    def terminate(self) -> None:
        """Ask it to commit and stop."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to the driver alone; returns what it had started, which must end by itself."""
        left = self.below()
        self._process.kill()
        self._process.wait()
        return left

    def suspend(self) -> list[psutil.Process]:
        """SIGSTOP to the driver and everything below it; returns what was stopped."""
        stopped = [psutil.Process(self._process.pid), *self.below()]
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        return stopped

    def close(self) -> None:
        """End it and everything below it."""
        left = self.below()
        if self._process.poll() is None:
            self._process.kill()
        end(left)
        self._process.wait()

    def below(self) -> list[psutil.Process]:
        """Everything it has started that goes on."""
        return below(self._process.pid)


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


_PAGE = re.compile(r"^status page: (http://\S+)/\?token=(\S+)$", re.MULTILINE)


class StatusPage:
    """The status of one run."""

    def __init__(self) -> None:
        self._client: CoordinatorClient | None = None

    def status(self, printed: str) -> dict[str, Any] | None:
        """The coordinator's status; None while there is none to be had. `printed`: what the run has said so far."""
        if self._client is None:
            page = _PAGE.search(printed)
            if page is None:
                return None
            self._client = CoordinatorClient(page[1], page[2])
        try:
            return self._client.status()
        except SamzapyError:
            return None


#: Seconds between two looks.
PACE_S = 0.05

Found = TypeVar("Found")


class NoProgress(SamzapyError):
    """Raised when something did not come about in time: a hung job breaks its promise, too."""


def until(
    look: Callable[[], Found | None], what: Callable[[], str], timeout_s: float, clock: Clock = SYSTEM_CLOCK
) -> Found:
    """The first true answer of `look`. Raises NoProgress, saying `what` was waited for, after `timeout_s` seconds."""
    deadline = clock.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        answer = look()
        if answer:
            return answer
        if clock.monotonic() > deadline:
            raise NoProgress(f"not within {timeout_s:g} s: {what()}")
        pause.wait(PACE_S)
