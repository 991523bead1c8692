"""`samzapy run` as a process of its own, looked at from outside: its coordinator, its Spark processes, its output."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from samzapy.verify.spark_processes import below, end, executors, workers
from samzapy.verify.status_page import StatusPage

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
