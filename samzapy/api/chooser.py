"""The SPI of choosers: which partition's messages come next.

A chooser is asked a few times a poll, about partitions and how much of each waits; never once a message. Within a
partition the order is always kept: a choice takes from its front.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from samzapy.api.context import JobContext
from samzapy.api.stream import SystemStreamPartition


class WaitingRecords(ABC):
    """What one partition has waiting: records that were polled and not chosen yet, at least one."""

    @abstractmethod
    def __len__(self) -> int:
        """How many wait."""

    @property
    @abstractmethod
    def offset(self) -> int:
        """The offset of the first."""

    @property
    @abstractmethod
    def timestamps(self) -> Sequence[int]:
        """The times of the first ones in milliseconds since 1970 (-1: none), those that were polled in one batch."""


class Choice(NamedTuple):
    """The first `records` of what waits in `ssp`, or as many of them as the container takes in one go."""

    ssp: SystemStreamPartition
    records: int


class MessageChooser(ABC):
    """Named by `task.chooser.class`; made without arguments, one a container and priority."""

    def init(self, job: JobContext, ssps: frozenset[SystemStreamPartition]) -> None:
        """Called once, before the first choice; `ssps` are the partitions it will choose among."""
        return

    @abstractmethod
    def choose(self, waiting: Mapping[SystemStreamPartition, WaitingRecords]) -> Choice | None:
        """What comes next, None for nothing until more has arrived.

        `waiting` holds the partitions that have something, those first whose turn is the longest ago; never empty.
        """
