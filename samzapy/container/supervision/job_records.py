"""Opens the records of a job beside its checkpoints, and checks there which run owns the job.

Containers, the driver's threads, the tools of `samzapy.admin` and DataFrames read and write these records here.

Every start writes an owner record before it fences an older run; the newest start is the owner.

1. A run that a newer one has fenced finds the newer one in the record, and ends for good. A run that the broker has
   fenced (a transaction that took too long) finds itself there, and continues.
2. Without transactions no run is fenced. The driver reads the record three times a lease, and the next run waits a
   lease before it reads anything, unless the record of this one says that it has ended. Queued outputs of an older run
   may still arrive.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.codec import owner_of, owner_record
from samzapy.checkpoint.managers import one_pass
from samzapy.checkpoint.records import read_owner
from samzapy.clock import SYSTEM_CLOCK, Clock, boot_id, process_start
from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure, JobTakenOver, RestoreError
from samzapy.strict_json import convert
from samzapy.system.clients import SystemClients, job_clients


@contextmanager
def open_job(config: JobConfig, purpose: str) -> Iterator[tuple[SystemClients, CheckpointManager]]:
    """The clients of the job's systems and its checkpoint manager, both closed at the end of the context.

    Nothing is connected or created before it is used. Raises ConfigError.
    """
    with closing(job_clients(config, purpose)) as clients, closing(manager_for(config, clients)) as checkpoints:
        yield clients, checkpoints


class JobRecords:
    """The checkpoint manager and the clients of a job, opened when they are first needed and kept until `close`.

    For periodic readers: after a failure they close it, and the next read opens it again. One thread at a time.
    """

    def __init__(
        self, opener: Callable[[], AbstractContextManager[tuple[SystemClients, CheckpointManager]]], *, kept: bool
    ) -> None:
        """Opens nothing yet. `kept`: whether the job keeps checkpoints; otherwise everything written is lost."""
        self.kept = kept
        self._open = opener
        self._opened = ExitStack()
        self._parts: tuple[SystemClients, CheckpointManager] | None = None

    @classmethod
    def of(cls, config: JobConfig, purpose: str) -> JobRecords:
        """The records of a job. `purpose` names the clients."""
        return cls(partial(open_job, config, purpose), kept=config.task.checkpoint is not None)

    @property
    def checkpoints(self) -> CheckpointManager:
        """The manager, opened if it is not open."""
        return self._both[1]

    @property
    def clients(self) -> SystemClients:
        """The clients of the job's systems, opened with the manager."""
        return self._both[0]

    @property
    def _both(self) -> tuple[SystemClients, CheckpointManager]:
        if self._parts is None:
            self._parts = self._opened.enter_context(self._open())
        return self._parts

    @property
    def is_open(self) -> bool:
        """Whether the manager was used since the last `close`."""
        return self._parts is not None

    def close(self) -> None:
        """Close the opened clients; the next use opens them again."""
        self._parts = None
        self._opened.close()


def this_run(clock: Clock = SYSTEM_CLOCK) -> JobRun:
    """The owner record of a driver that starts now. Its id is unique, also within one process."""
    pid = os.getpid()
    return JobRun(
        secrets.token_hex(8), clock.wall_ms(), socket.gethostname(), pid, born=process_start(pid), boot=boot_id()
    )


class _Request(msgspec.Struct):
    run: str
    by: dict[str, Any]
    go: bool
    safe: bool = False


@dataclass(frozen=True)
class HandoverRequest:
    """A new run, `by`, asks the run `run` to get ready for a handover; with `go`, to commit and let go now. `safe`: and
    to take the job back if the new run fails before it polls its inputs."""

    run: str
    by: JobRun
    go: bool = False
    safe: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a job record."""
        return {"run": self.run, "by": owner_record(self.by), "go": self.go, "safe": self.safe}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HandoverRequest:
        """The inverse. Raises RestoreError."""
        try:
            asked = convert(_Request, data)
            return cls(asked.run, owner_of(asked.by), asked.go, asked.safe)
        except ValueError as cause:
            raise RestoreError(f"the job's record of a handover cannot be read ({cause})") from cause


@dataclass(frozen=True)
class RunEnd:
    """The record of a run's end. No part of a run that has ended goes on. Parts of a run that has `failed` may go on
    for a while.

    `again`: the run's process starts the job again. `drained`: whether the run has drained; None in records of older
    versions.
    """

    run: str
    failed: bool = False
    again: bool = False
    drained: bool | None = None

    @property
    def for_good(self) -> bool:
        """Whether the run has ended, and its process does not start the job again."""
        return not (self.failed or self.again)

    def to_json(self) -> dict[str, Any]:
        if self.failed:
            # Not under the key `run`: every version takes that for the end of the run.
            return {"failed": self.run}
        return {"run": self.run, "drained": self.drained, **({"again": True} if self.again else {})}

    @classmethod
    def read(cls, checkpoints: CheckpointManager, run: JobRun) -> RunEnd | None:
        """The note of this run, None if it has written none."""
        noted = checkpoints.read_record(JobRecord.ENDED).newest or {}
        if noted.get("failed") == run.id:
            return cls(run.id, failed=True)
        if noted.get("run") != run.id:
            return None
        return cls(run.id, again=bool(noted.get("again")), drained=noted.get("drained"))


class Ownership:
    """One run's claim to its job; its containers and its driver check it. One thread at a time."""

    def __init__(self, job_name: str, records: JobRecords, run_id: str | None) -> None:
        """`run_id`: the run's `JobRun.id`; None for a container without a run."""
        self.job_name = job_name
        self.run_id = run_id
        self._records = records

    @classmethod
    def of(cls, config: JobConfig, run_id: str | None) -> Ownership:
        return cls(config.name, JobRecords.of(config, "owner"), run_id)

    @property
    def known(self) -> bool:
        return self.run_id is not None and self._records.kept

    def check(self, checkpoints: CheckpointManager) -> None:
        """Raise JobTakenOver if the record names a newer run, EnvironmentFailure if it is gone."""
        if self.run_id is None:
            return
        owner = read_owner(checkpoints)
        if owner is None and self._records.kept:
            raise EnvironmentFailure(f"job '{self.job_name}': the owner's record is gone: were checkpoints deleted?")
        if owner is not None and owner.id != self.run_id:
            raise JobTakenOver.by(self.job_name, owner.started_ms, owner.host, owner.pid)

    def poll(self) -> None:
        """Like `check`, with separate clients: made when first needed, kept until `close`."""
        if self.run_id is not None:
            self.check(self._records.checkpoints)

    def poll_once(self) -> None:
        """Like `poll`; closes the clients."""
        with closing(self):
            self.poll()

    def asked_to_drain(self) -> bool:
        """Whether this run was asked to drain; with the clients of `poll`."""
        if self.run_id is None or not self._records.is_open:
            return False
        asked = self._records.checkpoints.read_record(JobRecord.DRAIN).newest
        return asked is not None and asked.get("run") == self.run_id

    def asked_to_hand_over(self) -> HandoverRequest | None:
        """The request of a new run, if this one is asked; with the clients of `poll`. Raises RestoreError."""
        if self.run_id is None or not self._records.is_open:
            return None
        asked = self._records.checkpoints.read_record(JobRecord.HANDOVER).newest
        return None if asked is None or asked.get("run") != self.run_id else HandoverRequest.from_json(asked)

    def answer(self, request: HandoverRequest) -> None:
        """Record that this run has received the request; with the clients of `poll`."""
        value = {"run": self.run_id, "by": request.by.id}
        self._records.checkpoints.write_record(JobRecord.RECEIVED, value)

    def note_polled(self) -> None:
        """Record that every container of this run polls its inputs, for the previous run in a safe handover."""
        self._records.checkpoints.write_record(JobRecord.RECEIVED, {"run": self.run_id, "polled": True})

    def has_polled(self, run: JobRun) -> bool | None:
        """Whether that run needs no previous run any more: it has polled its inputs, was stopped, or does not own the
        job. None while that is open, False if it has failed."""
        checkpoints = self._records.checkpoints
        with one_pass(checkpoints):
            noted = checkpoints.read_record(JobRecord.RECEIVED).newest
            owner, end = read_owner(checkpoints), RunEnd.read(checkpoints, run)
        if noted == {"run": run.id, "polled": True} or owner is None or owner.id != run.id:
            return True
        return None if end is None else not end.failed

    def one_request(self) -> AbstractContextManager[None]:
        """A context in which all polls and questions cost one request to the broker."""
        return one_pass(self._records.checkpoints)

    def note_end(self, *, again: bool, drained: bool = False) -> None:
        """Record that this run has ended, whether it has `drained`, and whether its process starts the job `again`.
        Raises JobTakenOver, if that is known."""
        if not self._records.is_open:
            self.poll()
        self._note(again=again, drained=drained)

    def note_failure(self) -> None:
        """Record that this run has failed, so that a waiting `samzapy drain` ends although the process lives on. Parts
        of the run may go on for a while, so the record does not count as the end of a run. Raises JobTakenOver."""
        self.poll()
        self._note(failed=True)

    def _note(self, **end: bool) -> None:
        if self.run_id is not None:
            self._records.checkpoints.write_record(JobRecord.ENDED, RunEnd(self.run_id, **end).to_json())

    def close(self) -> None:
        self._records.close()
