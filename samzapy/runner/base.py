"""Defines the interface of runners: a prepared job and options in, an outcome or an error out."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamDescription
from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.config.job import JobConfig
from samzapy.coordinator.clocks import KeptClocks
from samzapy.coordinator.status import JobStatus
from samzapy.errors import EnvironmentFailure
from samzapy.job.planner import JobModel
from samzapy.runner.stopping import StopSwitch

#: The environment variable with the token that acts, for the driver and its executors. Without it, the driver draws a
#: random one. Spark redacts variables with such names wherever it shows them.
TOKEN = "SAMZAPY_TOKEN"  # noqa: S105  # a name, not a secret


def given_token() -> str:
    """The token that acts, of the environment; empty for none. The line end of a file around it does not count. Raises
    EnvironmentFailure for a text that no header takes."""
    given = os.environ.get(TOKEN, "").strip()
    if not given.isascii() or not given.isprintable():
        raise EnvironmentFailure(f"{TOKEN}: expected one line of ASCII characters, e.g. that of `openssl rand -hex 32`")
    return given


def run_token() -> str:
    """The token that acts, for a run that starts now."""
    return given_token() or secrets.token_urlsafe(32)


class StartableJob(ABC):
    """A job that was checked, and that a runner claims when it is ready to run it.

    - `config`: its file. `model`: its containers, as known before the claim.
    - `endless`: no input has an end.
    """

    config: JobConfig
    model: JobModel

    @property
    @abstractmethod
    def endless(self) -> bool: ...

    @abstractmethod
    def announce(self) -> bool:
        """Ask the job's present run, if one may be active, to get ready for a handover; returns whether there is one.

        It goes on until the claim, so the runner first gets everything ready that needs no ownership. Without such a
        run, the runner claims at once."""

    @abstractmethod
    def claim(self) -> PreparedJob:
        """Make this run the owner of the job. Raises ConfigError, EnvironmentFailure."""


@dataclass(frozen=True, kw_only=True)
class PreparedJob(StartableJob):
    """A job that this run owns: everything that it needs was checked or created.

    - `ends`: the offset at which each partition ends; None for an endless run.
    - `run_id`, `epoch`: the run as recorded next to the checkpoints, None without a record. The epochs of its attempts
      are greater than `epoch`.
    - `guarantee_warnings`: the reasons why its guarantee is weakened.
    - `clocks`: the event-time clocks of earlier runs.
    - `transactions`: False if a system refused the job's transactional ids.
    - `lease_ms`: the time that a lost container may go on writing; 0 if transactions fence it.
    - `given`: the job file with the patterns of its inputs, if `config` has streams in their place.
    - `inputs`: the input streams as they were at the start.
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
    given: JobConfig | None = None
    inputs: Mapping[SystemStream, StreamDescription] = field(default_factory=dict)

    @property
    def endless(self) -> bool:
        return self.ends is None

    def announce(self) -> bool:
        """Do nothing: no run is left to ask, since an earlier one has lost the job already."""
        return False

    def claim(self) -> PreparedJob:
        return self


def _ignore(_: object) -> None:
    """The default of all listeners."""


@dataclass(frozen=True)
class RunOptions:
    """The listeners of a run. `on_page` gets the address of its status page, with the token that reads, if it has a
    page.

    `on_status` gets the job's status a few times a second, `on_event` one line for each event that concerns an operator
    (`status page: ...`, `container 0 failed: ...`). Any thread may call them, and they must not block. `verbose` shows
    Spark's own log lines. `on_claimed` gets the job once this run owns it. `stop` asks the run to stop. `safe`: a
    run that hands the job over to this one takes it back if this one fails before it polls its inputs.
    """

    on_status: Callable[[JobStatus], None] = _ignore
    on_event: Callable[[str], None] = _ignore
    verbose: bool = False
    on_page: Callable[[str], None] = _ignore
    on_claimed: Callable[[PreparedJob], None] = _ignore
    stop: StopSwitch = field(default_factory=StopSwitch)
    safe: bool = False


@dataclass(frozen=True)
class JobOutcome:
    """A run that ended well: at the ends of its inputs, because its tasks asked for a shutdown, by a stop (`stopped`),
    or because the job has to start again: its inputs have changed, or a run that it was handed over to has failed.
    `restart` is then the id of the run that has ended, empty without a record of it: if another run owns the job by
    then, the next start gives way."""

    status: JobStatus
    stopped: bool
    restart: str | None = None

    @property
    def rate(self) -> float:
        """Messages a second, from the start of the first container, restores included, to the end of the last."""
        return self.status.processed / self.status.seconds if self.status.seconds else 0.0


class Runner(ABC):
    """Runs a job to its end."""

    def fit(self, config: JobConfig) -> JobConfig:
        """Check, before anything is created, that this runner can run the job; returns the job as it runs it, for
        example on the master of a Spark that is there already, with its warnings. Raises ConfigError,
        EnvironmentFailure."""
        return config

    @abstractmethod
    def run(self, job: StartableJob, options: RunOptions) -> JobOutcome:
        """Claim the job, and run it; blocks.

        At SIGTERM, SIGINT and SIGHUP the containers commit and stop; a second SIGTERM or SIGINT ends the process at
        once, with 128 + its number. Raises SamzapyError if the job fails; its `exit_code` is the process's."""


#: After a run of this many times the longest delay, failures are counted from the start again.
SOUND = 10
#: Seconds of the first pause and of the longest.
_FIRST_S, _LONGEST_S = 1.0, 30.0


class Backoff:
    """No delay, and then delays that double from `first_s` to `longest_s`, at most `limit` in a row.

    A run of ten times the longest delay resets the count. Progress does not reset it: if one partition has a message
    that cannot be processed, the other partitions still advance with every attempt."""

    def __init__(self, limit: int, first_s: float = _FIRST_S, longest_s: float = _LONGEST_S) -> None:
        self.limit = limit
        self._first_s = first_s
        self._longest_s = longest_s
        self.failures = 0

    def after(self, lasted_s: float, *, outage: bool = False) -> float | None:
        """Seconds to wait after a run that failed after `lasted_s` seconds; None to give up. An `outage` is not
        counted."""
        if outage:
            return self._longest_s
        if lasted_s >= SOUND * self._longest_s:
            self.failures = 0
        if self.failures >= self.limit:
            return None
        self.failures += 1
        return 0.0 if self.failures == 1 else float(min(self._longest_s, self._first_s * 2 ** (self.failures - 2)))


def starts(delay_s: float) -> str:
    """A delay in the words of an event."""
    return f"in {delay_s:g} s" if delay_s else "at once"
