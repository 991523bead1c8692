"""Sees that the job is started again elsewhere, and gives it up here."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import final

from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_ownership import Ownership
from samzapy.coordinator.coordinator import Coordinator
from samzapy.errors import JobTakenOver, SamzapyError

logger = logging.getLogger(__name__)

#: How long the end of a run waits for a look that is going on; it changes nothing, so it may be left behind.
_PATIENCE_S = 2.0


@final
class OwnershipWatch:
    """While entered, looks three times a lease whether a newer run owns the job; then the coordinator abandons it. Or
    whether the run was asked to drain; then the coordinator has the containers do so.

    With transactions a container that is fenced finds the same thing out earlier; without them, and for a container
    that has nothing to do, this is all there is.
    """

    def __init__(
        self, config: JobConfig, run_id: str | None, coordinator: Coordinator, *, notes_end: bool = False
    ) -> None:
        """`run_id`: the run that owns the job now; with None nothing is watched. `notes_end`: a run that ends well is
        written down as ended, so that the next one need not wait until its lease has run out."""
        self._notes_end = notes_end
        self._ownership = Ownership(config, run_id)
        self._watched = run_id is not None and config.task.checkpoint is not None
        self._pace_s = config.spark.lease_ms / 3000
        self._coordinator = coordinator
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ownership", daemon=True)

    def __enter__(self) -> OwnershipWatch:
        if self._watched:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closed.set()
        if self._watched:
            self._thread.join(_PATIENCE_S)
            if self._notes_end and kind is None and not self._thread.is_alive():
                self._note_end()

    def _run(self) -> None:
        try:
            while not self._closed.wait(self._pace_s) and self._owned():
                pass
        finally:
            self._ownership.close()

    def _note_end(self) -> None:
        try:
            self._ownership.note_end()
        except SamzapyError as cause:
            logger.warning("The end of the run is not written down, so the next one waits a lease: %s", cause)
        finally:
            self._ownership.close()

    def _owned(self) -> bool:
        try:
            self._ownership.look()
            if self._ownership.asked_to_drain():
                self._coordinator.drain()
        except JobTakenOver as taken:
            self._coordinator.abandon(str(taken))
            return False
        except SamzapyError as cause:
            logger.warning("Whether another run has taken over is not known (%s); asking again", cause)
            self._ownership.close()
        return True
