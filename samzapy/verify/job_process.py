"""`samzapy run` as a process of its own, looked at from outside: its coordinator, its Spark processes, its output."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from samzapy.coordinator.client import CoordinatorClient
from samzapy.errors import SamzapyError

_PAGE = re.compile(r"^status page: (http://\S+)/\?token=(\S+)$", re.MULTILINE)
_COMMAND = (sys.executable, "-c", "from samzapy.cli.main import main; main()", "run")


class JobProcess:
    """Runs the job file `name` in `folder`; ends with the thread that made it.

    Everything that is found below it (`workers`, `executors`) was started by it.
    """

    def __init__(self, folder: Path, name: str, environ: Mapping[str, str]) -> None:
        self._log = folder / f"run-{len(list(folder.glob('run-*.log')))}.log"
        tie = shutil.which("setpriv")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*((tie, "--pdeathsig", "KILL") if tie else ()), *_COMMAND, name],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environ),
                start_new_session=True,
            )
        self._client: CoordinatorClient | None = None

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
        if self._client is None:
            page = _PAGE.search(self._log.read_text(errors="replace"))
            if page is None:
                return None
            self._client = CoordinatorClient(page[1], page[2])
        try:
            return self._client.status()
        except SamzapyError:
            return None

    def workers(self) -> list[psutil.Process]:
        """The Python workers: forked by a daemon of Spark's."""
        return [process for process in self._below() if _is_daemon(process) and _is_daemon(_parent(process))]

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return [process for process in self._below() if "CoarseGrainedExecutorBackend" in _command_line(process)]

    def terminate(self) -> None:
        """Ask it to commit and stop."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to the driver alone; returns what it had started, which must end by itself."""
        below = self._below()
        self._process.kill()
        self._process.wait()
        return below

    def close(self) -> None:
        """End it and everything below it."""
        below = self._below()
        if self._process.poll() is None:
            self._process.kill()
        end(below)
        self._process.wait()

    def _below(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


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


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def _is_daemon(process: psutil.Process | None) -> bool:
    return process is not None and "pyspark.daemon" in _command_line(process)


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
