"""A container's line to the coordinator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from samzapy.errors import TaskMigrated


class Directive(Enum):
    """What the coordinator answers to a report."""

    CONTINUE = "continue"
    STOP = "stop"
    """Commit and stop: the operator asked for it."""
    DRAIN = "drain"
    """Process what there is now, tell the tasks, commit and stop."""
    ABANDON = "abandon"
    """Stop without a commit: a newer attempt owns the container."""


@dataclass(frozen=True)
class TaskProgress:
    """How far a task has come in event time: its clock (milliseconds since 1970, None before it has one), the partition
    that holds it as text (empty: none does), and whether nothing comes at all.

    `checkpoints`: the times of which its own state has a checkpoint, ascending, None if it keeps none; `open`: nothing was
    processed since the last of them, so that it stands for every later time.
    """

    clock: int | None = None
    held_by: str = ""
    idle: bool = False
    checkpoints: tuple[int, ...] | None = None
    open: bool = False


@dataclass(frozen=True)
class ContainerReport:
    """What a container tells about itself.

    `phase` is one of starting, restoring, running, stopping, done. `positions` and `ends` are offsets by SSP as text;
    `restored` is (records, seconds, source) by `task/store`; `metrics` is a registry's snapshot;
    `clocks` are those of the tasks, by name.
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


class ContainerLease(ABC):
    """One attempt's right to run a container, kept by reports; used from the heartbeat thread and the run loop."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """This attempt's number, larger than that of every earlier attempt."""

    @property
    @abstractmethod
    def duration_s(self) -> float:
        """Without an answer for this long the container must stop itself; report three times as often."""

    @property
    def checkpoint_clock(self) -> int | None:
        """The greatest checkpoint time that every task of the job has, as far as it is durably known; None before."""
        return None

    def outgrow(self, newest: int) -> None:
        """Have an epoch greater than `newest`, which something outside the job's systems has seen. Raises TaskMigrated when
        the container is another attempt's."""
        raise TaskMigrated(f"this attempt has epoch {self.epoch}, epoch {newest} was seen")

    @abstractmethod
    def report(self, report: ContainerReport) -> Directive:
        """Tell, and hear what to do. Raises RetriableError when the coordinator does not answer."""
