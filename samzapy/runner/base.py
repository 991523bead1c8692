"""The interface of runners: the job and options that they get, the outcome that they return, the failure that they raise."""

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

#: The environment variable with the token that acts: of a driver's own, and of its executors. Without one, a driver draws it.
#: Spark blanks values of names like it wherever it shows them.
TOKEN = "SAMZAPY_TOKEN"  # noqa: S105  # a name, not a secret


class StartableJob(ABC):
    """A job that was checked, and that a runner claims when it is ready to run it.

    - `config`: its file. `model`: its containers, as far as they are known before the claim.
    - `endless`: no input has an end.
    """

    config: JobConfig
    model: JobModel

    @property
    @abstractmethod
    def endless(self) -> bool: ...

    @abstractmethod
    def announce(self) -> bool:
        """Ask a run of the job that may go on to get ready for a handover; returns whether there is one.

        It hands the job over at the claim, so a runner gets everything ready first that needs no ownership. Without one, a
        runner claims at once."""

    @abstractmethod
    def claim(self) -> PreparedJob:
        """Make this run the owner of the job. Raises ConfigError, EnvironmentFailure."""


class JobFailed(SamzapyError):
    """Raised when a job was given up. `exit_code` is that of the failure that made it so."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        self.exit_code = exit_code
        super().__init__(message)


@dataclass(frozen=True)
class PreparedJob(StartableJob):
    """A job that this run owns: its surroundings were checked and created.

    - `ends`: the offset at which each partition ends; None for an endless run.
    - `run_id`, `epoch`: the run as it is written down beside the checkpoints, None for both if it is not. The epochs of its
      attempts are greater than `epoch`.
    - `guarantee_warnings`: the reasons why its guarantee means less than it says.
    - `clocks`: how far earlier runs have come in event time.
    - `transactions`: False if a system has refused the job's transactional ids.
    - `lease_ms`: how long its containers may go on unseen if nothing fences them; 0 for a fenced run.
    """

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

    @property
    def endless(self) -> bool:
        return self.ends is None

    def announce(self) -> bool:
        """The run before, if there was one, has lost the job already."""
        return False

    def claim(self) -> PreparedJob:
        """The job itself."""
        return self


def _ignore(_: object) -> None:
    """The default of all listeners."""


@dataclass(frozen=True)
class RunOptions:
    """How a run is watched. `on_page` gets the address of its status page, with the token that reads, if it has one.

    `on_status` gets the job's status a few times a second, `on_event` one line for each event that concerns an operator
    (`status page: ...`, `container 0 failed: ...`). Both are called on any thread, and neither may block. `verbose` lets
    Spark's own log lines through. `on_claimed` gets the job once it is this run's.
    """

    on_status: Callable[[JobStatus], None] = _ignore
    on_event: Callable[[str], None] = _ignore
    verbose: bool = False
    on_page: Callable[[str], None] = _ignore
    on_claimed: Callable[[PreparedJob], None] = _ignore


@dataclass(frozen=True)
class JobOutcome:
    """A run that ended well: at the ends of its inputs, by the vote of its tasks, or by a stop (`stopped`)."""

    status: JobStatus
    stopped: bool

    @property
    def rate(self) -> float:
        """Messages a second, from the first container's start (restores included) to the last one's end."""
        return self.status.processed / self.status.seconds if self.status.seconds else 0.0


class Runner(ABC):
    """Runs a job to its end."""

    def check(self, config: JobConfig) -> tuple[str, ...]:
        """Raise ConfigError for a job that cannot run here, before anything of it is created. Returns warnings."""
        return ()

    @abstractmethod
    def run(self, job: StartableJob, options: RunOptions) -> JobOutcome:
        """Claim the job, and run it; blocks.

        SIGTERM and SIGINT make the containers commit and stop; a second one exits at once with 128 + its number. Raises
        SamzapyError when the job did not end well; its `exit_code` is that of the process.
        """
