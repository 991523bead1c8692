"""The lease of a container: its reports to the coordinator, and the directives that answer them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from samzapy.errors import TaskMigrated
from samzapy.job.facts import NO_FACTS, Facts


class Directive(Enum):
    """The coordinator's answer to a report."""

    CONTINUE = "continue"
    STOP = "stop"
    """Commit and stop, on the operator's request."""
    DRAIN = "drain"
    """Process the messages that are there now, call `on_drain`, commit and stop."""
    ABANDON = "abandon"
    """Stop without a commit: a newer attempt owns the container."""


class TaskProgress(msgspec.Struct, frozen=True, gc=False):
    """The progress of a task in event time.

    `clock`: milliseconds since 1970, None before it has a value. `held_by`: the partition that holds the clock back,
    empty for none. `idle`: all its inputs are idle. `checkpoints`: the times of the checkpoints of its private state,
    ascending, None if it keeps none. `open`: it has processed nothing since the last of them, so that one stands for
    every later time. The garbage collector does not look at it: a driver has twenty thousand.
    """

    clock: int | None = None
    held_by: str = ""
    idle: bool = False
    checkpoints: tuple[int, ...] | None = None
    open: bool = False


@dataclass(frozen=True)
class ContainerReport:
    """The state of a container.

    `phase` is one of starting, restoring, running, restarting, waiting (for a broker), stopping, done. `positions` and
    `ends` are offsets by SSP as text. `restored` is (records, seconds, source) by `task/store`. `metrics` is a
    registry's snapshot. `clocks` has the progress of the tasks by name, `facts` the details for operators.
    """

    container_id: str
    epoch: int
    phase: str
    processed: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    restored: Mapping[str, tuple[int, float, str]] = field(default_factory=dict)
    restoring: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    commits: int = 0
    clocks: Mapping[str, TaskProgress] = field(default_factory=dict)
    facts: Facts = NO_FACTS


class ContainerLease(ABC):
    """The right of one attempt to run a container; reports keep it. Used by the heartbeat thread and the run loop."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The number of this attempt, greater than every earlier one's."""

    @property
    @abstractmethod
    def duration_s(self) -> float:
        """The time without an answer after which the container must stop itself. It reports three times as often."""

    @property
    def resumes(self) -> bool:
        """Whether an earlier attempt of this run has run the container: then its systems were reached."""
        return False

    @property
    def checkpoint_clock(self) -> int | None:
        """The greatest checkpoint time that every task of the job has durably reached; None before the first."""
        return None

    def outgrow(self, newest: int) -> None:
        """Take an epoch greater than `newest`, an epoch that a sink outside the job's systems has seen.

        Raises TaskMigrated if another attempt has the container.
        """
        raise TaskMigrated(f"this attempt has epoch {self.epoch}, epoch {newest} was seen")

    @property
    def pace_s(self) -> float:
        """Seconds between two reports, unless a third of the lease is shorter."""
        return 1.0

    @abstractmethod
    def report(self, report: ContainerReport) -> Directive:
        """Renew the lease, and return the directive. Raises RetriableError if the coordinator does not answer.

        A coordinator that is far away takes the phase and the counters only; the rest goes by `details`.
        """

    def details(self, report: ContainerReport) -> None:  # noqa: B027  # a lease in the same process has nothing to send
        """Send the rest of the report, if it is time and anything has changed. Raises nothing: no lease depends on
        it."""
