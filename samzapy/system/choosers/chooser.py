"""The choosers: each chooses among partitions that have records waiting.

Batching, tiers and turns follow Samza's choosers of these names; `JobsOwn` checks the answers of a job's chooser.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import Choice, MessageChooser, WaitingRecords
from samzapy.errors import SamzapyError, TaskFailed

#: What waits by partition, the longest unserved first.
Waiting = Mapping[SystemStreamPartition, WaitingRecords]


class Chooser(Protocol):
    """Chooses among partitions that have something waiting."""

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The next choice, of `most` records at most; None for nothing now. `waiting` is not empty."""
        ...


class RoundRobin:
    """The partition whose turn is the longest ago, with everything it has: Samza's RoundRobinChooser."""

    __slots__ = ()

    def choose(self, waiting: Waiting, most: int) -> Choice:
        """The first partition."""
        ssp = next(iter(waiting))
        return Choice(ssp, min(len(waiting[ssp]), most))


class JobsOwn:
    """A MessageChooser of the job, whose answers are checked. Raises TaskFailed, naming it."""

    __slots__ = ("_chooser", "_name")

    def __init__(self, chooser: MessageChooser) -> None:
        self._chooser = chooser
        self._name = type(chooser).__name__

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """As the chooser says."""
        try:
            choice = self._chooser.choose(waiting)
        except SamzapyError:
            raise
        except Exception as cause:
            raise TaskFailed(f"task.chooser.class: {self._name}: {type(cause).__name__}: {cause}") from cause
        if choice is None:
            return None
        if not isinstance(choice, Choice) or choice.ssp not in waiting or choice.records < 1:
            raise TaskFailed(
                f"task.chooser.class: {self._name} chose {choice!r}: expected a Choice of at least 1 record of a "
                "partition that waits"
            )
        return Choice(choice.ssp, min(choice.records, len(waiting[choice.ssp]), most))


class Tiered:
    """Asks the chooser of the highest priority that has something; a lower one only if that one chooses nothing.

    Samza's TieredPriorityChooser.
    """

    __slots__ = ("_choosers", "_priority_of")

    def __init__(self, priority_of: Mapping[SystemStreamPartition, int], choosers: Mapping[int, Chooser]) -> None:
        """`choosers` by priority, one for every value of `priority_of`."""
        self._priority_of = priority_of
        self._choosers = choosers

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The choice of the highest tier that makes one."""
        priority_of = self._priority_of
        for priority in sorted({priority_of[ssp] for ssp in waiting}, reverse=True):
            tier = {ssp: records for ssp, records in waiting.items() if priority_of[ssp] == priority}
            choice = self._choosers[priority].choose(tier, most)
            if choice is not None:
                return choice
        return None


class Batching:
    """Stays with the partition that was chosen for `size` messages, as long as it has any: Samza's BatchingChooser.

    When it has none left, the wrapped chooser is asked at once; nothing is waited for.
    """

    __slots__ = ("_left", "_preferred", "_size", "_wrapped")

    def __init__(self, wrapped: Chooser, size: int) -> None:
        self._wrapped = wrapped
        self._size = size
        self._preferred: SystemStreamPartition | None = None
        self._left = 0

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The preferred partition, or the one that is now preferred."""
        preferred = self._preferred
        if preferred is not None and self._left > 0 and preferred in waiting:
            records = min(self._left, len(waiting[preferred]), most)
            self._left -= records
            return Choice(preferred, records)
        choice = self._wrapped.choose(waiting, min(self._size, most))
        if choice is not None:
            self._preferred, self._left = choice.ssp, self._size - choice.records
        return choice
