"""Runs one job under faults: starts it, watches it, starts it again when it has ended, stops it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import SamzapyError
from samzapy.verify.processes import JobProcess, NoProgress, command_in, end, gone, resume, until
from samzapy.verify.target import STATE
from samzapy.verify.traffic import Feeder

#: Seconds: a loaded machine is slow, a hung job never ends. For a start or a recovery, unless told otherwise, and for a
#: stop.
PATIENCE_S, LONGEST_STOP_S = 180.0, 90.0
#: Seconds: a job with uncommitted work commits much sooner.
_SOON_S = 5.0
#: The number of restarts of a job that ends by itself, as by a supervisor.
MOST_RESTARTS = 10


class JobRefused(SamzapyError):
    """Raised when the job does not start; `exit_code` is the job's."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code or 1
        super().__init__(message)


class Scene:
    """The run of the moment, and the feeder that writes its events."""

    def __init__(
        self,
        folder: Path,
        job_file: Path,
        feeder: Feeder,
        clock: Clock = SYSTEM_CLOCK,
        containers: int = 2,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`containers`: the number in the job file, and the most that a run may have. `patience_s`: seconds for a start
        or a recovery."""
        self._patience_s = patience_s
        self._folder = folder
        self._most = self._containers = containers
        self._overlaps = 0
        self._earlier: list[JobProcess] = []
        self._name = job_file.name
        self._clock = clock
        self._started = self._stopping = False
        self._left: list[psutil.Process] = []
        self.feeder = feeder
        self.gave_up: list[str] = []
        self.run = self._new_run()

    def kill_driver(self) -> None:
        """SIGKILL to the driver, and a new driver at once: workers of the old one may still run."""
        self._left += self.run.kill()
        self.run = self._new_run()

    def upgrade(self, meanwhile: Callable[[], object]) -> None:
        """Start a second run on the same local state, as for a new version of the job; the first one hands the job
        over.

        `meanwhile` is called again and again. Returns when the second run is at work, and the first has ended. Raises
        NoProgress if it does not."""
        first = self.run
        self._earlier.append(first)
        self._left += first.below()
        self.run = self._new_run()

        def check() -> bool:
            meanwhile()
            return self._running()

        self.until(check, "the new run at work")
        self.until(lambda: first.exit_code is not None, "the previous run has let go", LONGEST_STOP_S)
        if "has taken over" not in first.errors:
            raise NoProgress(f"the previous run ended with exit code {first.exit_code}: {first.last_words}")

    def overlap(self, *, stopped: bool) -> None:
        """Start a second run with another number of containers and its own local state, which asks for no handover.

        The first run goes on, or is `stopped` until the second one works. Returns when the first has ended because it
        was superseded. Raises NoProgress if it does not."""
        first = self.run
        self._earlier.append(first)
        self._left += first.below()
        frozen = first.suspend() if stopped else []
        self._overlaps += 1
        self._containers = 1 if self._containers > 1 else self._most
        try:
            self.run = self._new_run("--config", "job.handover.ms=0")
            self.until(self._running, "a second run at work")
        finally:
            resume(frozen)
        self.until(lambda: first.exit_code is not None, "the previous run has let go", LONGEST_STOP_S)
        if "has taken over" not in first.last_words:
            raise NoProgress(f"the previous run ended with exit code {first.exit_code}: {first.last_words}")

    @property
    def state(self) -> Path:
        """The folder with the local stores of the newest run."""
        return self._folder / self._state

    def refuse(self, words: str) -> None:
        """Wait until the job has ended with an error that contains `words`; a job with nothing to commit is asked to
        stop.

        Then start it again, which must end in the same way. Raises NoProgress if the job goes on, or ends well."""
        self._end_refused(words, _SOON_S)
        self.run = self._new_run()
        self._end_refused(words, self._patience_s)

    def go_on(self, *command: str) -> None:
        """Run `samzapy COMMAND...`, then start the job again. Raises NoProgress if the command keeps failing."""
        said = [""]

        def done() -> bool:
            ran = command_in(self._folder, command)
            said[0] = ran.stderr.strip()
            return ran.returncode == 0

        # A process that has just ended may still hold the stores.
        until(done, lambda: f"samzapy {' '.join(command)}: {said[0]}", LONGEST_STOP_S, self._clock)
        self.run = self._new_run()

    def status(self) -> dict[str, Any] | None:
        """The job's status; None while no coordinator answers. Starts a job again that has ended. Raises JobRefused."""
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

    def until(self, check: Callable[[], Any], what: str, timeout_s: float | None = None) -> None:
        """Wait until `check` is true, as long as for a recovery if nothing else is said. Raises NoProgress with the
        job's status, JobRefused, and the feeder's failure."""
        until(check, lambda: f"{what}; {self._described()}", timeout_s or self._patience_s, self._clock)

    def caught_up(self, ends: tuple[int, ...]) -> bool:
        """Whether every container runs and all of them together have processed the input up to `ends`."""
        status = self.status()
        if status is None or any(container["phase"] != "running" for container in status["containers"]):
            return False
        self._started = True
        positions = _positions(status)
        return len(positions) == len(ends) and all(positions[n] >= end for n, end in enumerate(ends))

    def recovered(self, ends: tuple[int, ...]) -> None:
        """Wait until everything up to `ends` is processed. Raises as `until` does."""
        self.until(lambda: self.caught_up(ends), f"processed up to {list(ends)}")

    def fed(self, number: int) -> None:
        """Wait until the log holds this number of events."""

        def check() -> bool:
            self.status()
            return self.feeder.acknowledged >= number

        self.until(check, f"{number} events written")

    def stop(self) -> None:
        """Make it commit and stop. Raises NoProgress if it does not stop, or fails to commit."""
        self._stopping = True
        self.run.terminate()
        self.until(lambda: self.run.exit_code is not None, "stopped", LONGEST_STOP_S)
        if self.run.exit_code:
            raise NoProgress(f"the job stopped with exit code {self.run.exit_code}: {self.run.last_words}")
        # Workers of a killed driver must end by themselves.
        self.until(lambda: all(map(gone, self._left)), "the end of what killed drivers had started", LONGEST_STOP_S)

    def close(self) -> None:
        """End everything."""
        for run in (*self._earlier, self.run):
            run.close()
        end(self._left)

    def _new_run(self, *arguments: str) -> JobProcess:
        given = {"job.container.count": str(self._containers), "job.logged.store.base.dir": self._state}
        more = (
            [part for key, value in given.items() for part in ("--config", f"{key}={value}")] if self._overlaps else []
        )
        return JobProcess(self._folder, self._name, *more, *arguments)

    @property
    def _state(self) -> str:
        return f"{STATE}-{self._overlaps}" if self._overlaps else STATE

    def _running(self) -> bool:
        status = self.status()
        return status is not None and all(container["phase"] == "running" for container in status["containers"])

    def _end_refused(self, words: str, patience_s: float) -> None:
        run = self.run
        with suppress(NoProgress):
            until(lambda: run.exit_code is not None, lambda: "refused", patience_s, self._clock)
        if run.exit_code is None:
            run.terminate()
            until(lambda: run.exit_code is not None, lambda: "the job goes on", LONGEST_STOP_S, self._clock)
        if run.exit_code == 0 or words not in run.last_words:
            raise NoProgress(f"the job ended with exit code {run.exit_code}, and did not refuse: {run.last_words}")

    def _described(self) -> str:
        status = self.run.status() if self.run.exit_code is None else None
        if status is None:
            return f"the job says: {self.run.last_words}"
        phases = ", ".join(f"{c['id']} {c['state']}/{c['phase']}" for c in status["containers"])
        return f"containers {phases}; positions {_positions(status)}; the job says: {self.run.last_words}"


def _positions(status: dict[str, Any]) -> dict[int, int]:
    found = [item for container in status["containers"] for item in container["positions"].items()]
    return {int(ssp.rpartition("[")[2].rstrip("]")): offset for ssp, offset in found}
