"""Runs a job again when one of its files changes. A run commits before it ends, so the next one has its state."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from samzapy.errors import SamzapyError
from samzapy.plugins import is_installed
from samzapy.runner.stopping import StopSwitch

#: Seconds between two looks at the files.
_PACE_S = 0.3


class JobFiles:
    """The job file, the modules next to it, and those next to what this process has imported, but from installed
    packages."""

    def __init__(self, job: Path) -> None:
        self._job = job
        self._since_ns, self._seen = time.time_ns(), self._times()
        self._changed = threading.Event()
        #: The first file that has changed.
        self.changed: Path | None = None

    def _times(self) -> dict[Path, int]:
        modules, result = list(sys.modules.values()), {}
        files = [Path(file) for item in modules if (file := getattr(item, "__file__", None)) and not is_installed(file)]
        packages = [str(place) for item in modules for place in getattr(item, "__path__", None) or ()]
        folders = {self._job.absolute().parent, *(file.parent for file in files)}
        folders |= {Path(place) for place in packages if not is_installed(f"{place}/")}
        for path in {self._job.absolute(), *files, *(path for folder in folders for path in folder.glob("*.py"))}:
            with suppress(OSError):  # an editor may replace it just now
                result[path] = path.stat().st_mtime_ns
        return result

    def _look(self) -> Path | None:
        now, folders = self._times(), {path.parent for path in self._seen}
        for path, time_ns in now.items():
            # What has just been imported is not new, unless it has changed since then.
            is_new = path.parent in folders or time_ns > self._since_ns
            if self._seen.setdefault(path, -1 if is_new else time_ns) != time_ns:
                return path
        return None

    @contextmanager
    def watched(self, on_change: Callable[[], object]) -> Iterator[None]:
        """Call `on_change` after the first change."""
        over = threading.Event()

        def look() -> None:
            while self.changed is None and not over.wait(_PACE_S):
                self.changed = self._look()
            if self.changed is not None:
                self._changed.set()
                on_change()

        threading.Thread(target=look, name="samzapy-reload", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def wait(self) -> None:
        """Wait for the first change."""
        self._changed.wait()


def reloading(job: Path, run: Callable[[StopSwitch], str | None]) -> str | None:
    """Call `run` with the switch that stops it after a change of a file; returns what it returns, and an empty text if
    the job has to start again for a change: one during the run, or one after its end or failure."""
    files, stop = JobFiles(job), StopSwitch()
    with files.watched(stop.ask):
        try:
            restart = run(stop)
        except SamzapyError as error:
            restart = None
            for line in str(error).splitlines():
                click.echo(f"error: {line}", err=True)
        if restart is not None or (stop.asked and files.changed is None):
            return restart
        if files.changed is None:
            click.echo("waiting for a change of a file", err=True)
            files.wait()
    click.echo(f"{files.changed} has changed: starting again", err=True)
    return ""
