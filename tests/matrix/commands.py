"""Runs a command of the matrix to its end or its limit, and nothing of it is left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: The exit code of a command that ran into its limit.
TIMED_OUT = -1


class NotAvailable(Exception):
    """A cell that cannot be tried on this machine; one line with the reason."""


@dataclass(frozen=True)
class Done:
    """A command that has ended. `output`: both of its outputs."""

    code: int
    output: str
    seconds: float

    @property
    def last_line(self) -> str:
        """The last line with anything in it."""
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "no output")


def run(command: Sequence[str], folder: Path, environ: Mapping[str, str], limit_s: float) -> Done:
    """Run a command in a session of its own, which is killed at the limit."""
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code = TIMED_OUT
    return Done(code, output, time.monotonic() - began)
