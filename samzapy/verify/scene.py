"""One job on its way: started, watched, restarted when it has ended, stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import SamzapyError
from samzapy.verify.feeder import Feeder
from samzapy.verify.job_process import JobProcess
from samzapy.verify.spark_processes import end, gone
from samzapy.verify.waiting import NoProgress, until

#: Seconds; a loaded machine takes its time, a hung job takes for ever.
LONGEST_START_S = 180.0
LONGEST_RECOVERY_S = 180.0
LONGEST_STOP_S = 90.0
#: A job that ends by itself is started again, as a supervisor would, up to so many times.
MOST_RESTARTS = 10


class JobRefused(SamzapyError):
    """Raised when the job does not start at all; `exit_code` is the job's."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code or 1
        super().__init__(message)


class Scene:
    """The run that is going on, and the feeder whose events it gets."""

    def __init__(self, folder: Path, job_file: Path, feeder: Feeder, clock: Clock = SYSTEM_CLOCK) -> None:
        self._folder = folder
        self._name = job_file.name
        self._clock = clock
        self._started = self._stopping = False
        self._left: list[psutil.Process] = []
        self._environ = dict(os.environ)
        self.feeder = feeder
        self.gave_up: list[str] = []
        self.run = self._new_run()

    def kill_driver(self) -> None:
        """SIGKILL, and a new driver at once: the old one's workers may still be ending."""
        self._left += self.run.kill()
        self.run = self._new_run()

    def status(self) -> dict[str, Any] | None:
        """The job's status; None while there is none. A job that has ended is started again. Raises JobRefused."""
        self.feeder.check()
        code = self.run.exit_code
        if code is None or self._stopping:
            return self.run.status() if code is None else None
        if code == 2 or not self._started or len(self.gave_up) >= MOST_RESTARTS:
            raise JobRefused(f"the job ended: {self.run.last_words}", code)
        self.gave_up.append(self.run.last_words)
        self.run = self._new_run()
        return None

    def epochs(self) -> set[int]:
        """The epochs of the attempts that hold the containers now."""
        status = self.status()
        return set() if status is None else {container["epoch"] for container in status["containers"]}

    def until(self, look: Callable[[], Any], what: str, timeout_s: float) -> None:
        """Wait until `look` is true. Raises NoProgress with the job's status, whatever ended the feeder, JobRefused."""
        until(look, lambda: f"{what}; {self._described()}", timeout_s, self._clock)

    def caught_up(self, ends: tuple[int, ...]) -> bool:
        """Whether every container runs and all of them together have processed the input up to `ends`."""
        status = self.status()
        if status is None or any(container["phase"] != "running" for container in status["containers"]):
            return False
        self._started = True
        positions = _positions(status)
        return len(positions) == len(ends) and all(positions[n] >= end for n, end in enumerate(ends))

    def recovered(self, ends: tuple[int, ...], timeout_s: float = LONGEST_RECOVERY_S) -> None:
        """Wait until everything up to `ends` is processed. Raises as `until` does."""
        self.until(lambda: self.caught_up(ends), f"processed up to {list(ends)}", timeout_s)

    def fed(self, number: int) -> None:
        """Wait until so many events are in the log."""

        def look() -> bool:
            self.status()
            return self.feeder.acknowledged >= number

        self.until(look, f"{number} events written", LONGEST_RECOVERY_S)

    def stop(self) -> None:
        """Let it commit and stop. Raises NoProgress if it does not, or says that it could not commit."""
        self._stopping = True
        self.run.terminate()
        self.until(lambda: self.run.exit_code is not None, "stopped", LONGEST_STOP_S)
        if self.run.exit_code:
            raise NoProgress(f"the job stopped with exit code {self.run.exit_code}: {self.run.last_words}")
        # The last word of a driver that was killed is the end of its workers.
        self.until(lambda: all(map(gone, self._left)), "what killed drivers had started ended", LONGEST_STOP_S)

    def close(self) -> None:
        """End everything."""
        self.run.close()
        end(self._left)

    def _new_run(self) -> JobProcess:
        return JobProcess(self._folder, self._name, self._environ)

    def _described(self) -> str:
        status = self.run.status() if self.run.exit_code is None else None
        if status is None:
            return f"the job says: {self.run.last_words}"
        phases = ", ".join(f"{c['id']} {c['state']}/{c['phase']}" for c in status["containers"])
        return f"containers {phases}; positions {_positions(status)}; the job says: {self.run.last_words}"


def _positions(status: dict[str, Any]) -> dict[int, int]:
    found = [item for container in status["containers"] for item in container["positions"].items()]
    return {int(ssp.rpartition("[")[2].rstrip("]")): offset for ssp, offset in found}
