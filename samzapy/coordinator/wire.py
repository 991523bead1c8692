"""The messages between the coordinator and its containers, as JSON.

A container keeps its lease with a `Heartbeat`: some numbers, as small with a thousand tasks as with one. Everything
else of its reports travels as `Details`: changes, compressed, in pieces of bounded size
(`samzapy.coordinator.changes`).

Driver and executors have the same version of samzapy, so msgspec writes and reads the classes themselves. The
coordinator trusts no body: a field that does not fit its class is a WireError that names it.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import msgspec

from samzapy.api.stream import SystemStreamPartition
from samzapy.coordinator.status import ContainerFailure
from samzapy.job.lease import Directive, Facts, PartitionLag, TaskProgress, UserFailure
from samzapy.job.model import JobModel, replica_of
from samzapy.strict_json import decode, encode

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
class CoordinatorAddress:
    """A coordinator's URL, and the SHA-256 fingerprint of its certificate, None without TLS. It contains no secret."""

    url: str
    fingerprint: str | None = None


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
class Overdue:
    """An attempt that let its lease run out and did not report its end."""

    container_id: str
    epoch: int
    spark_task: int | None


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


class Registration(msgspec.Struct):
    """The answer to an attempt that registers. `predecessor` is the process of the attempt before it, if known.
    `resumes`: an earlier attempt of this run has run the container."""

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
    resumes: bool = False

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
    *,
    resumes: bool = False,
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
            resumes,
        )
    )


class Attempt(msgspec.Struct):
    """The body of an attempt's registration."""

    process: AttemptProcess | None = None


class Epochs(msgspec.Struct):
    """An attempt's epoch, and the epoch that it has to exceed."""

    epoch: int
    newest: int


class Outgrown(msgspec.Struct):
    """The new epoch, None for an attempt that was superseded."""

    epoch: int | None


#: Heartbeats, and reports of details, that a coordinator handles a second; details take three times as long as a
#: heartbeat.
BEATS, DETAILS = 200, 65
#: Seconds between two reports of a container's metrics, unless the phase changes.
METRICS_S = 10.0
#: Heartbeats of a standby in the time of one heartbeat of a container.
STANDBY_BEATS = 4


@dataclass(frozen=True)
class Pace:
    """The intervals of a container's reports in seconds: its heartbeat, and the rest (metrics at most every ten
    seconds).

    Containers of a larger job report less often, so that the coordinator answers at most `BEATS` heartbeats and
    `DETAILS` others a second, however many containers there are; more only where a lease would not have room for three
    heartbeats.
    """

    heartbeat_s: float = 1.0
    details_s: float = 1.0

    @classmethod
    def of(cls, containers: int, lease_s: float) -> Pace:
        """The pace of a job with this number of containers. A lease has room for three heartbeats, whatever the job's
        size."""
        return cls(min(lease_s / 3, max(1.0, containers / BEATS)), max(1.0, containers / DETAILS))

    def hurried(self) -> Pace:
        """A pace ten times as fast, for times when a container should notice a request at once."""
        return replace(self, heartbeat_s=self.heartbeat_s / 10)

    def of_standby(self) -> Pace:
        """The pace of a standby: a container that has lost its executor waits until the standby notices that it has to
        stop."""
        return replace(self, heartbeat_s=self.heartbeat_s / STANDBY_BEATS)


class Heartbeat(msgspec.Struct):
    """The sign of life of an attempt. Its size does not depend on tasks, stores or metrics.

    `sequence` numbers the heartbeats of a lease from 1; 0 means no number. A connection that the client has given up
    may still deliver an old heartbeat, which must not count.
    """

    epoch: int
    phase: str
    processed: int = 0
    commits: int = 0
    sequence: int = 0


class Answer(msgspec.Struct):
    """The answer to a heartbeat. `again`: send all details, not only changes."""

    directive: Directive
    checkpoint_clock: int | None
    pace: Pace = Pace()
    again: bool = False


class Details(msgspec.Struct, omit_defaults=True):
    """The changed details of an attempt, or the first of them (`first`: all earlier ones are void).

    `lags` are the `partitions` of facts, `lags_age_s` says how many seconds ago they were true, with the last piece of
    a measurement. `facts` are the other facts since the previous details. A value that is not a number is unknown.
    `names` are new metrics, by group; in this order they get the next numbers, from 0. `numbers` are the numbers of
    metrics with new `values`. `sequence` numbers the pieces of a lease from 1; 0 means no number.
    """

    epoch: int
    first: bool = False
    positions: dict[str, int] = {}
    ends: dict[str, int] = {}
    restored: dict[str, tuple[int, float, str]] = {}
    restoring: dict[str, tuple[int, int]] = {}
    clocks: dict[str, TaskProgress] = {}
    lags: dict[str, PartitionLag] = {}
    lags_age_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    facts: Facts | None = None
    names: list[tuple[str, list[str]]] = []
    numbers: list[int] = []
    values: list[float] = []
    sequence: int = 0


class Taken(msgspec.Struct):
    """The answer to details. `again`: they do not follow the previous ones, so send all of them, with a `first`
    piece."""

    again: bool = False


#: Most bytes of details, compressed and not. A container makes far smaller pieces; a larger body is not read.
PACKED_LIMIT, DETAILS_LIMIT = 1_048_576, 4_194_304


#: Bytes of the number of a metric and of its value.
_COLUMNS = 4 + 8


def pack(details: Details) -> bytes:
    """Details as a body: compressed JSON, a line feed, all `numbers` (32 bits) and all `values` (doubles),
    little-endian. A coordinator gets fifty thousand of them a second, and reading them as text takes up to half as long
    again."""
    numbers, values = details.numbers, details.values
    text = encode(msgspec.structs.replace(details, numbers=[], values=[]))
    columns = struct.pack(f"<{len(numbers)}I{len(values)}d", *numbers, *values)
    return zlib.compress(b"%s\n%s" % (text, columns), 1)


def unpack(body: bytes) -> Details:
    """The details of a body. Raises WireError."""
    try:
        opened = zlib.decompressobj()
        plain = opened.decompress(body, DETAILS_LIMIT)
    except zlib.error as cause:
        raise WireError(f"body: not compressed by zlib ({cause})") from cause
    if not opened.eof:
        raise WireError(f"body: expected at most {DETAILS_LIMIT:,} B in one piece of zlib")
    text, _, columns = plain.partition(b"\n")
    details = read(Details, text)
    count, odd = divmod(len(columns), _COLUMNS)
    if odd:
        raise WireError(f"values: expected {_COLUMNS} B for each number and its value, got {len(columns):,} B in all")
    if count:
        both = struct.unpack(f"<{count}I{count}d", columns)
        details.numbers, details.values = list(both[:count]), list(both[count:])
        # The sum is finite if all are; if it is not, it may just be too large.
        if not math.isfinite(sum(details.values)) and any(map(math.isinf, details.values)):
            raise WireError("values: expected finite numbers")
    return details


class Failure(msgspec.Struct):
    """The end of an attempt, as a container sends it. `user`: the failure of the user's code, if it was one."""

    epoch: int
    error: str
    message: str
    exit_code: int
    permanent: bool = False
    user: UserFailure | None = None


class Verdict(msgspec.Struct):
    """The answer to a failure. `final`: another attempt is useless."""

    final: bool


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
    failure = read(Failure, body)
    error, message = failure.error[:TEXT_LIMIT], failure.message[:TEXT_LIMIT]
    return ContainerFailure(
        container_id, failure.epoch, error, message, failure.exit_code, failure.permanent, failure.user
    )
