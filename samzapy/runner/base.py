"""What every runner is given, gives back, and raises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from samzapy.api.stream import SystemStreamPartition
from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.config.job import JobConfig
from samzapy.coordinator.clocks import KeptClocks
from samzapy.coordinator.progress import JobStatus
from samzapy.errors import SamzapyError
from samzapy.job.model import JobModel


class JobFailed(SamzapyError):
    """Raised when a job was given up. `exit_code` is that of the failure that made it so."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        self.exit_code = exit_code
        super().__init__(message)


@dataclass(frozen=True)
class PreparedJob:
    """A job whose surroundings were checked and created. `ends`: where each partition ends, None for an endless run.
    `run_id`: what the run is written down as beside the checkpoints, None where it is not. `guarantee_warnings`: what makes its
    guarantee mean less than it says. `clocks`: how far earlier runs have come in event time. `transactions`: False where a
    system has refused the job's transactional ids. `epoch`: those of the run's attempts are greater; None where it is not
    written down. `lease_ms`: how long its containers may go on unseen where nothing fences them, 0 where it is fenced."""

    config: JobConfig
    model: JobModel
    ends: Mapping[SystemStreamPartition, int] | None = None
    warnings: tuple[str, ...] = ()
    run_id: str | None = None
    guarantee_warnings: tuple[GuaranteeWarning, ...] = ()
    clocks: KeptClocks = field(default_factory=KeptClocks)
    transactions: bool = True
    epoch: int | None = None
    lease_ms: int = 0


def _ignore(_: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class RunOptions:
    """How a run is watched. `on_status` hears the job's status a few times a second, `on_event` one line per event
    worth telling an operator (`the status page is at ...`, `container 0 failed ...`); both on any thread, and neither
    may block. `verbose` lets Spark's own log lines through."""

    on_status: Callable[[JobStatus], None] = _ignore
    on_event: Callable[[str], None] = _ignore
    verbose: bool = False


@dataclass(frozen=True)
class JobOutcome:
    """A run that ended as it should: at the ends of its inputs, by the tasks' vote, or by a stop (`stopped`)."""

    status: JobStatus
    stopped: bool

    @property
    def rate(self) -> float:
        """Messages a second, from the first container's start (restores included) to the last one's end."""
        return self.status.processed / self.status.seconds if self.status.seconds else 0.0


class Runner(ABC):
    """Runs a prepared job to its end."""

    def check(self, config: JobConfig) -> tuple[str, ...]:
        """Before anything of the job is made ready: raise ConfigError for what cannot run here; warnings."""
        return ()

    @abstractmethod
    def run(self, prepared: PreparedJob, options: RunOptions) -> JobOutcome:
        """Run the job; blocks. SIGTERM and SIGINT make the containers commit and stop, a second one exits at once with
        128 + its number. Raises SamzapyError, whose `exit_code` is the process's, when the job did not end well."""
