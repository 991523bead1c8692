"""Which run owns the job: every start writes itself down beside the checkpoints, and the newest start is the owner.

The record is written before anything of an older run is fenced. So whoever is fenced by a newer run finds it there, lets
go for good, and does not fence back; whoever is fenced by its broker (a transaction that took too long) finds itself.
Without transactions no run is fenced: the driver looks at the record three times a lease, and the next run waits a lease
before it reads anything, unless this one is written down as ended. Outputs that an older run has queued may still arrive.
"""

from __future__ import annotations

import os
import secrets
import socket

from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import JobRecords
from samzapy.errors import JobTakenOver


def this_run(clock: Clock = SYSTEM_CLOCK) -> JobRun:
    """The owner record of a driver that starts now. No two are equal, even of the same process."""
    return JobRun(secrets.token_hex(8), clock.wall_ms(), socket.gethostname(), os.getpid())


class Ownership:
    """One run's claim to its job, as its containers and its driver check it. One thread at a time."""

    def __init__(self, config: JobConfig, run_id: str | None) -> None:
        """`run_id`: the run's `JobRun.id`; None for a container outside of any run."""
        self._config = config
        self._run_id = run_id
        self._records = JobRecords(config, "owner")

    @property
    def known(self) -> bool:
        """Whether it is written down which run owns the job."""
        return self._run_id is not None and self._records.kept

    def check(self, checkpoints: CheckpointManager) -> None:
        """Raise JobTakenOver if a newer run is written down there."""
        if self._run_id is None:
            return
        owner = checkpoints.read_owner()
        if owner is not None and owner.id != self._run_id:
            raise JobTakenOver.by(self._config.name, owner.started_ms, owner.host, owner.pid)

    def look(self) -> None:
        """As `check`, with clients of its own: made when first needed, kept until `close`."""
        if self._run_id is not None:
            self.check(self._records.checkpoints)

    def asked_to_drain(self) -> bool:
        """Whether this run was asked to; with the clients of `look`."""
        if self._run_id is None or not self._records.is_open:
            return False
        asked = self._records.checkpoints.read_record(JobRecord.DRAIN)
        return asked is not None and asked.get("run") == self._run_id

    def note_end(self) -> None:
        """Write down that nothing of this run goes on. Raises JobTakenOver."""
        self.look()
        if self._records.is_open:
            self._records.checkpoints.write_record(JobRecord.ENDED, {"run": self._run_id})

    def close(self) -> None:
        """Close what `look` has opened; the next one opens it again."""
        self._records.close()
