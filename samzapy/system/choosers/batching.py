"""Staying with a partition for some messages."""

from __future__ import annotations

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import Choice
from samzapy.system.choosers.chooser import Chooser, Waiting


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
