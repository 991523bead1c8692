"""Keeps the job's checkpoint clock beside its checkpoints, so that a job whose driver has gone starts again there.

Tasks hear of it only after it is written down: what they remove then no start asks for any more. Gearpump's
`SnapshotStartClock`; here nothing is written for a job whose tasks keep no states of their own.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from types import TracebackType
from typing import final

from samzapy.admin.positions import CHECKPOINT_CLOCK
from samzapy.api.checkpoint import JobRecord
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import JobRecords
from samzapy.coordinator.coordinator import Coordinator
from samzapy.errors import SamzapyError

logger = logging.getLogger(__name__)

#: Seconds between two looks, and how long the end of a run waits for the last one.
_PACE_S, _PATIENCE_S = 1.0, 10.0


@final
class ClockKeeper:
    """While entered, writes the coordinator's checkpoint clock down whenever it has moved, and once more at the end."""

    def __init__(self, config: JobConfig, coordinator: Coordinator) -> None:
        self._records = JobRecords(config, "clock")
        self._coordinator = coordinator
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def __enter__(self) -> ClockKeeper:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        with closing(self._records):
            while not self._closed.wait(_PACE_S):
                self._keep()
            self._keep()

    def _keep(self) -> None:
        clock, kept = self._coordinator.checkpoint_clocks
        if clock is None or clock == kept or self._coordinator.abandoned is not None:
            return
        try:
            self._records.checkpoints.write_record(JobRecord.CLOCK, {CHECKPOINT_CLOCK: clock})
        except SamzapyError as cause:
            logger.warning("The job's checkpoint clock was not written down: %s; trying again", cause)
            self._records.close()
            return
        self._coordinator.keep_checkpoint_clock(clock)
