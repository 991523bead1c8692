"""Higher priorities first."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import Choice
from samzapy.system.choosers.chooser import Chooser, Waiting


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
