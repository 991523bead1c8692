"""The driver's side of a run, wherever the containers run: their coordinator, and what it watches beside them.

1. `OwnershipWatch` looks whether a newer run has taken the job over, and whether this run was asked to drain.
2. `ClockKeeper` writes the job's checkpoint clock down.

Both work in threads of their own, with clients of their own: a broker that is slow does not hold up the containers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import TracebackType
from typing import final

from samzapy.admin.positions import CHECKPOINT_CLOCK
from samzapy.api.checkpoint import JobRecord
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.container.supervision.job_records import JobRecords, Ownership
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import JobTakenOver, SamzapyError
from samzapy.runner.base import PreparedJob
from samzapy.runner.periodic import Periodic

logger = logging.getLogger(__name__)

#: Seconds that the end of a run waits for a look at the owner; the look changes nothing, so it may be left behind.
_OWNER_PATIENCE_S = 2.0
#: Seconds between two looks at the clock, and those that the end of a run waits until it is written down.
_CLOCK_PACE_S, _CLOCK_PATIENCE_S = 1.0, 10.0


def coordinator_of(prepared: PreparedJob, spec: JobSpec, clock: Clock = SYSTEM_CLOCK) -> Coordinator:
    """The coordinator of a prepared job, for the containers of `spec`."""
    config = prepared.config
    return Coordinator(
        config.name,
        spec,
        config.spark.lease_ms / 1000,
        clock,
        downgrades=prepared.guarantee_warnings,
        clocks=prepared.clocks,
        stall_s=config.clock.stall_ms / 1000,
        epoch=prepared.epoch,
    )


@contextmanager
def watching(prepared: PreparedJob, coordinator: Coordinator) -> Iterator[None]:
    """Watch the job's owner and keep its clock, as long as the context lasts."""
    config = prepared.config
    ownership = Ownership.of(config, prepared.run_id)
    pace_s = config.spark.lease_ms / 3000
    with (
        OwnershipWatch(ownership, coordinator, pace_s, notes_end=prepared.lease_ms > 0),
        ClockKeeper(JobRecords.of(config, "clock"), coordinator),
    ):
        yield


@final
class OwnershipWatch:
    """While entered, looks at the job's owner and at requests to drain.

    1. A newer run owns the job: the coordinator abandons the run. With transactions a container that is fenced finds out
       earlier; without them, and for a container that has nothing to do, there is only this look.
    2. The run was asked to drain: the coordinator has the containers drain.
    """

    def __init__(
        self, ownership: Ownership, coordinator: Coordinator, pace_s: float, *, notes_end: bool = False
    ) -> None:
        """`pace_s`: seconds between two looks, a third of a lease. `notes_end`: write down that a run has ended well, so
        that the next run need not wait until its lease has run out. Without a record of its owner a job is not watched."""
        self._ownership = ownership
        self._coordinator = coordinator
        self._notes_end = notes_end
        self._looks = Periodic("ownership", pace_s, self._owned, last=ownership.close)

    def __enter__(self) -> OwnershipWatch:
        if self._ownership.known:
            self._looks.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        ended = self._looks.end(_OWNER_PATIENCE_S)
        if self._ownership.known and self._notes_end and kind is None and ended:
            self._note_end()

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


@final
class ClockKeeper:
    """While entered, writes the coordinator's checkpoint clock down whenever it has moved, and once more at the end.

    A job starts again at that clock after its driver has gone. Tasks hear of a clock only after it is written down: no
    start asks any more for the states that they remove then. Nothing is written for a job whose tasks keep no states of
    their own. Gearpump calls this `SnapshotStartClock`.
    """

    def __init__(self, records: JobRecords, coordinator: Coordinator) -> None:
        """`records` belong to the keeper, which closes them."""
        self._records = records
        self._coordinator = coordinator
        self._looks = Periodic("clock", _CLOCK_PACE_S, self._keep, last=self._end)

    def __enter__(self) -> ClockKeeper:
        self._looks.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._looks.end(_CLOCK_PATIENCE_S)

    def _end(self) -> None:
        with closing(self._records):
            self._keep()

    def _keep(self) -> bool:
        clock, kept = self._coordinator.checkpoint_clocks
        if clock is None or clock == kept or self._coordinator.abandoned is not None:
            return True
        try:
            self._records.checkpoints.write_record(JobRecord.CLOCK, {CHECKPOINT_CLOCK: clock})
        except SamzapyError as cause:
            logger.warning("The job's checkpoint clock was not written down: %s; trying again", cause)
            self._records.close()
        else:
            self._coordinator.keep_checkpoint_clock(clock)
        return True
