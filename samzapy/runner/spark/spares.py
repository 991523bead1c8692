"""Gets spare executors ready, so that a container that has lost its executor starts in one as quickly as in its own.

The first task of an executor is slow: its JVM loads the classes of tasks, and the daemon of its Python workers imports the
modules of a container. So in each executor that has run no task yet, a task runs once that does nothing.

1. It runs only while every container and every standby has a slot, so it takes none from them.
2. All of it is best effort: a failure costs time only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, final

from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.wire import Place
from samzapy.runner.checks import Checks, Row

logger = logging.getLogger(__name__)

#: Seconds between two checks for new executors.
_PACE_S = 2.0
#: The states of a container that needs no slot.
_SETTLED = (ContainerState.RUNNING.value, ContainerState.DONE.value)


class Executors(Protocol):
    """The executors of a Spark application."""

    def executor_ids(self) -> frozenset[str]:
        """The ids of the present ones, by one quick call; raises Spark's own errors."""
        ...

    def unused(self, executor_id: str) -> Place | None:
        """The place of this one if it has run no task yet. Raises Spark's own errors."""
        ...


@final
class Spares:
    """Prepares the unused executors, one after the other."""

    def __init__(self, executors: Executors, coordinator: Coordinator, warm: Callable[[Place], object]) -> None:
        """`warm` runs a task there; it may raise anything."""
        self._executors = executors
        self._coordinator = coordinator
        self._warm = warm
        self._ready: frozenset[str] = frozenset()

    def watch(self, checks: Checks) -> None:
        """Look for them from now on; the end of Spark ends the task that may run."""
        checks.add(Row("spares", _PACE_S, self.look), asks=False)

    def look(self) -> bool:
        """Get the new executors ready; returns whether to go on."""
        try:
            present = self._executors.executor_ids()
            self._ready &= present
            for executor in sorted(present - self._ready):
                if not self._is_settled():
                    break
                place = self._executors.unused(executor)
                if place is not None:
                    self._warm(place)
                self._ready |= {executor}
        except Exception as cause:  # noqa: BLE001  # py4j raises many errors after the JVM has ended
            logger.info("A spare executor could not be made ready: %s", cause)
        return True

    def _is_settled(self) -> bool:
        return all(each.state in _SETTLED for each in self._coordinator.status().everyone)
