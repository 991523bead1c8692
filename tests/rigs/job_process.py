"""`samzapy run` as users call it, in a process of its own that outlives nothing but its test."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from samzapy.verify import processes
from samzapy.verify.processes import until


class JobProcess(processes.JobProcess):
    """The installed command in `folder`; its temporary files stay below the folder, too."""

    samzapy = (str(Path(sys.executable).with_name("samzapy")),)
    tied = False

    def __init__(self, folder: Path, *arguments: str, **environ: str) -> None:
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        super().__init__(folder, *arguments, **{"TMPDIR": str(temporary), **environ})

    def wait(self, timeout_s: float = 90.0) -> int:
        """Its exit code."""
        return self.process.wait(timeout_s)

    def status(self) -> dict[str, Any] | None:
        """As its parent says; fails if the process has ended."""
        assert self.exit_code is None, f"exit code {self.exit_code}: {self.errors}"
        return super().status()

    def until_status(self, condition: Callable[[dict[str, Any]], Any], timeout_s: float = 60.0) -> dict[str, Any]:
        """The first status of which `condition` is true."""

        def look() -> dict[str, Any] | None:
            status = self.status()
            return status if status is not None and condition(status) else None

        return until(look, lambda: f"status {self.status()}; {self.errors}", timeout_s)


def open_store_folders(process: psutil.Process, base: Path) -> set[Path]:
    """The store directories below `base` that a process (or one below it) has open."""
    found = set()
    try:
        for each in [process, *process.children(recursive=True)]:
            found |= {Path(file.path).parent for file in each.open_files() if file.path.startswith(f"{base}/")}
    except psutil.NoSuchProcess:
        return set()
    return found
