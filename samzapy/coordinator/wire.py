"""The messages between the coordinator and its containers, as JSON.

A container reports in its `Heartbeat`, which also keeps its lease: phase, counters, positions, lag, at most
twenty numbers (`metrics.registry.NUMBERS`), and the facts for operators. Everything else is at the container's own
port.

Driver and executors have the same version of samzapy, so msgspec writes and reads the classes themselves. The
coordinator trusts no body: a field that does not fit its class is a WireError that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from samzapy.api.stream import SystemStreamPartition
from samzapy.coordinator.status import ContainerFailure
from samzapy.job.lease import ContainerReport, Directive, Facts
from samzapy.job.planner import JobModel, replica_of
from samzapy.strict_json import decode

M = TypeVar("M")

#: The error texts of a container are cut here: enough for any one-line message, too short to fill the driver.
TEXT_LIMIT = 4_000


class WireError(ValueError):
    """Raised when a body does not have the expected form; names the field."""


@dataclass(frozen=True)
class Place:
    """A host as Spark names it, and one of its executors (None: any of them)."""

    host: str
    executor: str | None = None


@dataclass(frozen=True)
class AttemptProcess:
    """The process of an attempt: enough to end exactly this process, or this task of Spark.

    `machine` names a running kernel and the scope of its process numbers. With `pid` and `started` (the process's
    start, in the kernel's ticks) it identifies one process, never a later one with the same number. `spark_task` is
    Spark's id of the task attempt, `place` where Spark runs it.
    """

    machine: str
    pid: int
    started: int
    spark_task: int | None = None
    place: Place | None = None

    @property
    def identity(self) -> tuple[str, int, int]:
        """Unique among all processes, past ones included."""
        return self.machine, self.pid, self.started


@dataclass(frozen=True)
class JobSpec:
    """The job as it travels to the containers.

    `raw` is the configuration as written: `${env:X}` is unresolved, so that secrets stay where they are. `ends` are the
    offsets to stop at (None: never). `directory` is the driver's working directory if containers share its machine, so
    that relative paths mean the same on both sides, else None. `run_id` is the run that owns the job until a newer one
    starts. `transactions` is False if a system has refused the job's transactional ids.
    """

    model: JobModel
    raw: Mapping[str, str]
    ends: Mapping[SystemStreamPartition, int] | None = None
    directory: str | None = None
    run_id: str | None = None
    transactions: bool = True

    def of(self, container_id: str) -> JobSpec:
        """The part that concerns one container, or standby: a job of thousands of tasks is sent to each of its
        containers.

        Raises StopIteration.
        """
        model = self.model.container(container_id)
        only = JobModel((), (model,)) if replica_of(container_id) else JobModel((model,))
        ends = self.ends
        return replace(
            self, model=only, ends=None if ends is None else {ssp: ends[ssp] for ssp in ends.keys() & model.ssps}
        )


class Versioned(msgspec.Struct):
    """The version of the driver in a Registration. From another version, the rest may have another form."""

    version: str


class Registration(msgspec.Struct, kw_only=True):
    """The answer to an attempt that registers. `predecessor` is the process of the attempt before it, if known.
    `resumes`: an earlier attempt of this run has run the container. The `ends` are apart from the `job`, since keys of
    JSON are text."""

    version: str
    epoch: int
    lease_s: float
    job: JobSpec
    ends: list[tuple[SystemStreamPartition, int]] | None
    checkpoint_clock: int | None = None
    predecessor: AttemptProcess | None = None
    resumes: bool = False

    @classmethod
    def of(cls, spec: JobSpec, **fields: Any) -> Registration:
        """The answer with this job and the other fields."""
        ends = None if spec.ends is None else list(spec.ends.items())
        return cls(job=replace(spec, ends=None), ends=ends, **fields)

    @property
    def spec(self) -> JobSpec:
        return replace(self.job, ends=None if self.ends is None else dict(self.ends))


class Attempt(msgspec.Struct):
    """The body of an attempt's registration."""

    process: AttemptProcess | None = None


class Epochs(msgspec.Struct):
    """An attempt's epoch, and the epoch that it has to exceed."""

    epoch: int
    newest: int


class Heartbeat(msgspec.Struct):
    """The report of an attempt. `sequence` numbers the heartbeats of a lease from 1: a connection that the client has
    given up may still deliver an old heartbeat, which must not count."""

    report: ContainerReport
    sequence: int

    @classmethod
    def of(cls, report: ContainerReport, facts: Facts, sequence: int, now: float) -> Heartbeat:
        """The heartbeat with a report and the facts that were not sent yet, at the monotonic time `now`."""
        return cls(replace(report, facts=_moved(facts, -now)), sequence)

    def received(self, container_id: str, now: float) -> ContainerReport:
        """The report of the container in the address, received at the time `now` of the monotonic clock."""
        return replace(self.report, container_id=container_id, facts=_moved(self.report.facts, now))


def _moved(facts: Facts, by_s: float) -> Facts:
    """The facts with the time of their lags on another clock: processes send each other ages, because their clocks
    differ."""
    lags = facts.partitions
    return facts if lags is None else msgspec.structs.replace(facts, partitions=replace(lags, at=lags.at + by_s))


class Answer(msgspec.Struct):
    """The answer to a heartbeat. The next one is due after `pace_s` seconds."""

    directive: Directive
    checkpoint_clock: int | None
    pace_s: float = 1.0


def read(kind: type[M], body: bytes) -> M:
    """A body as one of the classes above. Raises WireError."""
    try:
        return decode(kind, body)
    except msgspec.DecodeError as cause:
        raise WireError(f"body: not JSON ({cause})") from cause
    except ValueError as cause:
        raise WireError(str(cause)) from cause


def read_failure(container_id: str, body: bytes) -> ContainerFailure:
    """A failure of the container in the address. Raises WireError."""
    failure = read(ContainerFailure, body)
    error, message = failure.error[:TEXT_LIMIT], failure.message[:TEXT_LIMIT]
    return replace(failure, container_id=container_id, error=error, message=message)
