"""The messages between the coordinator and its containers, as JSON.

Driver and executors have the same version of samzapy, so msgspec writes and reads the classes themselves. The coordinator
trusts no body: a field that does not fit its class is a WireError that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from samzapy.api.stream import SystemStreamPartition
from samzapy.coordinator.progress import ContainerFailure
from samzapy.job.facts import NO_FACTS, Facts, UserFailure
from samzapy.job.lease import ContainerReport, Directive, TaskProgress
from samzapy.job.model import JobModel
from samzapy.strict_json import decode, encode

M = TypeVar("M")

#: The error texts of a container are cut here: enough for any one-line message, too short to fill the driver.
TEXT_LIMIT = 4_000


class WireError(ValueError):
    """Raised when a body does not have the form that its sender should have given it; names the field."""


@dataclass(frozen=True)
class Place:
    """A host as Spark names it, and one of its executors (None: any of them)."""

    host: str
    executor: str | None = None


@dataclass(frozen=True)
class AttemptProcess:
    """The process of an attempt: enough to end exactly this process, or this task of Spark.

    `machine` names a running kernel and the scope of its process numbers. With `pid` and `started` (the process's start, in
    the kernel's ticks) it means one process and never a later one. `spark_task` is Spark's id of the task attempt,
    `place` where Spark runs it.
    """

    machine: str
    pid: int
    started: int
    spark_task: int | None = None
    place: Place | None = None


@dataclass(frozen=True)
class Overdue:
    """An attempt that let its lease run out and did not report its end."""

    container_id: str
    epoch: int
    spark_task: int | None


@dataclass(frozen=True)
class JobSpec:
    """The job as it travels to the containers.

    `raw` is the configuration as written: `${env:X}` is unresolved, so that secrets stay where they are. `ends` are the
    offsets to stop at (None: never). `directory` is the driver's working directory if containers share its machine, so that
    relative paths mean the same on both sides, else None. `run_id` is the run that owns the job until a newer one starts.
    `transactions` is False if a system has refused the job's transactional ids.
    """

    model: JobModel
    raw: Mapping[str, str]
    ends: Mapping[SystemStreamPartition, int] | None = None
    directory: str | None = None
    run_id: str | None = None
    transactions: bool = True


class Versioned(msgspec.Struct):
    """The version of the driver in a Registration. From another version, the rest may have another form."""

    version: str


class Registration(msgspec.Struct):
    """The answer to an attempt that registers. `predecessor` is the process of the attempt before it, if known."""

    version: str
    epoch: int
    lease_ms: int
    checkpoint_clock: int | None
    predecessor: AttemptProcess | None
    model: JobModel
    configuration: Mapping[str, str]
    ends: list[tuple[SystemStreamPartition, int]] | None
    directory: str | None
    run_id: str | None
    transactions: bool

    @property
    def spec(self) -> JobSpec:
        """The job."""
        ends = None if self.ends is None else dict(self.ends)
        return JobSpec(self.model, self.configuration, ends, self.directory, self.run_id, self.transactions)


def registration(
    spec: JobSpec,
    version: str,
    epoch: int,
    lease_s: float,
    checkpoint_clock: int | None = None,
    predecessor: AttemptProcess | None = None,
) -> bytes:
    """A Registration as a body."""
    return encode(
        Registration(
            version,
            epoch,
            round(lease_s * 1000),
            checkpoint_clock,
            predecessor,
            spec.model,
            spec.raw,
            None if spec.ends is None else list(spec.ends.items()),
            spec.directory,
            spec.run_id,
            spec.transactions,
        )
    )


class Attempt(msgspec.Struct):
    """The body with which an attempt registers."""

    process: AttemptProcess | None = None


class Epochs(msgspec.Struct):
    """An attempt's epoch, and the one that it has to outgrow."""

    epoch: int
    newest: int


class Outgrown(msgspec.Struct):
    """The new epoch, None for an attempt that was superseded."""

    epoch: int | None


class Answer(msgspec.Struct):
    """The answer to a report."""

    directive: Directive
    checkpoint_clock: int | None


class Failure(msgspec.Struct):
    """The end of an attempt, as a container sends it. `user`: the failure of the user's code, if it was one."""

    epoch: int
    error: str
    message: str
    exit_code: int
    permanent: bool = False
    user: UserFailure | None = None


class Verdict(msgspec.Struct):
    """The answer to a failure: whether another attempt is of no use."""

    final: bool


class _Report(msgspec.Struct):
    epoch: int
    phase: str
    processed: int = 0
    positions: dict[str, int] = {}
    ends: dict[str, int] = {}
    restored: dict[str, tuple[int, float, str]] = {}
    restoring: dict[str, tuple[int, int]] = {}
    metrics: dict[str, dict[str, int | float | None]] = {}
    commits: int = 0
    clocks: dict[str, TaskProgress] = {}
    facts: Facts = NO_FACTS


def read(kind: type[M], body: bytes) -> M:
    """A body as one of the classes above. Raises WireError."""
    try:
        return decode(kind, body)
    except msgspec.DecodeError as cause:
        raise WireError(f"body: not JSON ({cause})") from cause
    except ValueError as cause:
        raise WireError(str(cause)) from cause


def read_report(container_id: str, body: bytes) -> ContainerReport:
    """A report; the container is the one of the address. Raises WireError.

    NaN and the infinities travel as null. Metrics with such a value are left out.
    """
    report = read(_Report, body)
    metrics = {
        group: {name: value for name, value in values.items() if value is not None}
        for group, values in report.metrics.items()
    }
    return ContainerReport(
        container_id,
        report.epoch,
        report.phase,
        report.processed,
        report.positions,
        report.ends,
        report.restored,
        report.restoring,
        metrics,
        report.commits,
        report.clocks,
        report.facts,
    )


def read_failure(container_id: str, body: bytes) -> ContainerFailure:
    """A failure; the container is the one of the address. Raises WireError."""
    failure = read(Failure, body)
    error, message = failure.error[:TEXT_LIMIT], failure.message[:TEXT_LIMIT]
    return ContainerFailure(
        container_id, failure.epoch, error, message, failure.exit_code, failure.permanent, failure.user
    )
