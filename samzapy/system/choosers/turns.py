"""Choosers at the bottom: turns, and the job's own."""

from __future__ import annotations

from samzapy.api.system import Choice, MessageChooser
from samzapy.errors import SamzapyError, TaskFailed
from samzapy.system.choosers.chooser import Waiting


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
