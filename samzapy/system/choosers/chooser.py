"""What the choosers of this package are to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import Choice, WaitingRecords

#: What waits by partition, the longest unserved first.
Waiting = Mapping[SystemStreamPartition, WaitingRecords]


class Chooser(Protocol):
    """Chooses among partitions that have something waiting."""

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The next choice, of `most` records at most; None for nothing now. `waiting` is not empty."""
        ...
