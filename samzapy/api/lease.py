"""A container's line to the coordinator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


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
class ContainerReport:
    """What a container tells about itself.

    `phase` is one of starting, restoring, running, stopping, done. `positions` and `ends` are offsets by SSP as text;
    `restored` is (records, seconds, source) by `task/store`; `metrics` is a registry's snapshot.
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

    @abstractmethod
    def report(self, report: ContainerReport) -> Directive:
        """Tell, and hear what to do. Raises RetriableError when the coordinator does not answer."""
