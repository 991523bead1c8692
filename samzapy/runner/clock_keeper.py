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

from samzapy.api.checkpoint import CheckpointManager, JobRecord
from samzapy.config.job import JobConfig
from samzapy.container.job_records import JobRecords
from samzapy.coordinator.clocks import KeptClocks
from samzapy.coordinator.coordinator import Coordinator
from samzapy.errors import RestoreError, SamzapyError
from samzapy.job.model import JobModel

logger = logging.getLogger(__name__)

#: Seconds between two looks, and how long the end of a run waits for the last one.
_PACE_S, _PATIENCE_S = 1.0, 10.0
_CLOCK = "checkpoint-clock"


def read_clocks(checkpoints: CheckpointManager, model: JobModel) -> KeptClocks:
    """What earlier runs have left: each task's clock in its checkpoint, the job's in its record. Raises RestoreError."""
    found = checkpoints.read_all(task.name for task in model.tasks)
    clocks = {name: each.clock for name, each in found.items() if each is not None and each.clock is not None}
    record = checkpoints.read_record(JobRecord.CLOCK)
    kept = None if record is None else record.get(_CLOCK)
    if record is not None and not isinstance(kept, int):
        raise RestoreError(f"the job's record of its checkpoint clock cannot be read: {record!r:.100}")
    return KeptClocks(clocks, kept)


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
            self._records.checkpoints.write_record(JobRecord.CLOCK, {_CLOCK: clock})
        except SamzapyError as cause:
            logger.warning("The job's checkpoint clock was not written down: %s; trying again", cause)
            self._records.close()
            return
        self._coordinator.keep_checkpoint_clock(clock)
