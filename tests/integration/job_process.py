"""`samzapy run` as a process of its own, looked at from outside: its coordinator, its Spark processes, its output."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from samzapy.verify.processes import StatusPage, below, end, executors, workers

_PAUSE = threading.Event()


def until(condition: Callable[[], Any], what: Callable[[], str] | str, timeout_s: float = 60.0) -> Any:
    """The first true value of `condition`, asked again and again; fails with `what` after `timeout_s`."""
    rounds = int(timeout_s / 0.05)
    for _ in range(rounds):
        found = condition()
        if found:
            return found
        _PAUSE.wait(0.05)
    raise AssertionError(f"not within {timeout_s:g} s: {what if isinstance(what, str) else what()}")


class JobProcess:
    """Starts `samzapy run` with `arguments` in `folder`; its temporary files stay below the folder, too."""

    def __init__(self, folder: Path, *arguments: str, **environ: str) -> None:
        self._number = len(list(folder.glob("run-*.err")))
        self._err = folder / f"run-{self._number}.err"
        self._out = folder / f"run-{self._number}.out"
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        command = [str(Path(sys.executable).with_name("samzapy")), "run", *arguments]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(temporary), **environ},
            )
        self._page = StatusPage()

    @property
    def errors(self) -> str:
        """Everything it has said on standard error."""
        return self._err.read_text()

    @property
    def output(self) -> str:
        """Everything it has said on standard output."""
        return self._out.read_text()

    def wait(self, timeout_s: float = 90.0) -> int:
        """Its exit code."""
        return self.process.wait(timeout_s)

    def terminate(self) -> None:
        """Ask it to stop."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to the driver alone; returns what it has left behind at that moment."""
        left = self.descendants()
        self.process.kill()
        self.process.wait()
        return left

    def close(self) -> None:
        """End the driver and everything below it."""
        left = self.descendants()
        if self.process.poll() is None:
            self.process.kill()
        end(left)
        self.process.wait()

    def status(self) -> dict[str, Any] | None:
        """The coordinator's status; None while there is none to be had. Fails if the process has ended."""
        assert self.process.poll() is None, f"exit code {self.process.returncode}: {self.errors}"
        return self._page.status(self.errors)

    def until_status(self, condition: Callable[[dict[str, Any]], Any], timeout_s: float = 60.0) -> dict[str, Any]:
        """The first status of which `condition` is true."""

        def look() -> dict[str, Any] | None:
            status = self.status()
            return status if status is not None and condition(status) else None

        found: dict[str, Any] = until(look, lambda: f"status {self.status()}; {self.errors}", timeout_s)
        return found

    def descendants(self) -> list[psutil.Process]:
        """The driver's JVM, executors, Python daemons and workers."""
        return below(self.process.pid)

    def workers(self) -> list[psutil.Process]:
        """The Python workers that run containers: forked by a daemon, with files open below `folder`."""
        return workers(self.descendants())

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return executors(self.descendants())


def open_store_folders(process: psutil.Process, base: Path) -> set[Path]:
    """The store directories below `base` that a process (or one below it) has open."""
    found = set()
    try:
        for each in [process, *process.children(recursive=True)]:
            found |= {Path(file.path).parent for file in each.open_files() if file.path.startswith(f"{base}/")}
    except psutil.NoSuchProcess:
        return set()
    return found
