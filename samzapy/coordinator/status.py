"""The status of a job at one moment, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from typing import Any

import msgspec

from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.coordinator.clocks import ClockStatus
from samzapy.job.lease import PartitionLag, Stall, UserFailure
from samzapy.strict_json import plain


@dataclass(frozen=True)
class RestoredStore:
    """The restore of one store. `source` is where its data came from, such as `changelog`."""

    container_id: str
    store: str
    epoch: int
    records: int
    seconds: float
    source: str


@dataclass(frozen=True)
class ContainerFailure:
    """The reason why an attempt ended: the error's class name, its message in one line, its exit code, whether another
    attempt would fail in the same way, the failure of the user's code, if it was one, and when the driver heard."""

    container_id: str
    epoch: int
    error: str
    message: str
    exit_code: int
    permanent: bool = False
    user: UserFailure | None = None
    _: KW_ONLY
    time_ms: int = field(default=0, compare=False)


class HandledFailure(msgspec.Struct, frozen=True):
    """A message that an error policy has skipped or dead-lettered, with its container; `age_s` seconds ago."""

    container: str
    failure: UserFailure
    age_s: float


class PartitionStatus(msgspec.Struct, frozen=True):
    """An input partition when its end was asked for: the next offset to process, the offset after its last record, the
    offsets between the two, and the seconds for which the oldest unprocessed record has waited. None: not known."""

    position: int
    end: int | None = None
    lag: int | None = None
    age_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ContainerStatus:
    """One container. `processed` and `commits` count all its attempts; `remaining` is None for an endless run.

    `lags` has its input partitions by SSP as text, as of the last request for their ends, None if that is not known: at
    time `measured_at` of the driver's monotonic clock it was. `metrics` has its numbers by group and name (see
    `Registry.numbers`), empty if they are not known. `stalled` is set while it makes no progress; `failure` is the last
    failure of the user's code. Until the newest attempt reports, `phase` is `starting`, and positions and ends are the
    last ones of the previous attempt; its lags and metrics soon become unknown."""

    id: str
    state: str
    phase: str = ""
    attempts: int = 0
    epoch: int | None = None
    processed: int = 0
    commits: int = 0
    remaining: int | None = None
    restoring: tuple[int, int] | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lags: Mapping[str, PartitionLag] | None = field(default_factory=dict)
    stalled: Stall | None = None
    failure: UserFailure | None = None
    measured_at: float | None = None

    @cached_property
    def partitions(self) -> Mapping[str, PartitionStatus]:
        """Its input partitions by SSP as text.

        Position, end and lag are of one time: as of the container's last request for the end. Until the first request,
        the end of the run stands for the end of the partition. If the lag is unknown, there is the newest position
        alone.
        """
        partitions, lags = {}, self.lags
        for ssp, position in self.positions.items():
            end = self.ends.get(ssp) if lags is not None else None
            partitions[ssp] = PartitionStatus(position, end, None if end is None else max(0, end - position))
        for ssp, seen in (lags or {}).items():
            age_s = None if seen.age_ms is None else seen.age_ms / 1000
            partitions[ssp] = PartitionStatus(seen.position, seen.end, seen.lag, age_s)
        return partitions

    @property
    def lag(self) -> int | None:
        """Offsets between the positions and the ends of all its partitions; None while no end is known."""
        known = [item.lag for item in self.partitions.values() if item.lag is not None]
        return sum(known) if known else None

    @property
    def is_lag_unknown(self) -> bool:
        """Whether it has inputs, and nobody knows how far behind it is."""
        return self.lags is None or (self.lag is None and bool(self.positions))

    def lag_age_s(self, now: float) -> float | None:
        """Seconds since its lag was measured, or since nobody has measured it; None for one that has ended, or has no
        lag."""
        return None if self.measured_at is None else max(0.0, now - self.measured_at)

    def to_json(self, now: float) -> dict[str, Any]:
        """Return plain JSON values; `now` is the time of the status."""
        age_s = self.lag_age_s(now)
        shown = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "measured_at"}
        as_json: dict[str, Any] = plain({**shown, "lag": self.lag, "lag_age_s": age_s and round(age_s, 3)})
        return as_json


#: Failures, and restores of a container, that are kept; the oldest are dropped first.
HISTORY = 1_000
#: The newest failures in the JSON form of a status; of restores it has as many as are kept.
SHOWN_FAILURES = 100


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """The whole job at one moment. `seconds`: from the start of the first attempt to the newest report. `failed` is the
    number of failures; `failures` has the newest. `handled` has the newest skipped and dead-lettered messages of the
    last hour. `downgrades` are reasons why the job's guarantee is weakened;
    `counts`, by `group.name` and over all attempts, counts the consequences. `standbys` process nothing; their
    `remaining` counts the offsets that they still have to read. `clocks` are in event time. `time_ms` and `at` are
    the time of this status, in milliseconds since 1970 and in seconds of the driver's monotonic clock."""

    name: str
    stopping: bool = False
    seconds: float = 0.0
    containers: tuple[ContainerStatus, ...] = ()
    restored: tuple[RestoredStore, ...] = ()
    failures: tuple[ContainerFailure, ...] = ()
    failed: int = 0
    handled: tuple[HandledFailure, ...] = ()
    downgrades: tuple[GuaranteeWarning, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    standbys: tuple[ContainerStatus, ...] = ()
    clocks: ClockStatus = field(default_factory=ClockStatus)
    draining: bool = False
    time_ms: int = field(default=0, compare=False)
    at: float = field(default=0.0, compare=False)

    @property
    def everyone(self) -> tuple[ContainerStatus, ...]:
        return (*self.containers, *self.standbys)

    @property
    def processed(self) -> int:
        """Messages processed; a repeated message counts each time."""
        return sum(container.processed for container in self.containers)

    @property
    def commits(self) -> int:
        return sum(container.commits for container in self.containers)

    @property
    def remaining(self) -> int | None:
        """Offsets left to the ends; None if a container has no ends, or has not reported them."""
        known = [c.remaining for c in self.containers]
        return None if None in known else sum(filter(None, known))

    @property
    def lag(self) -> int | None:
        """Offsets between the positions and the ends of all partitions; None while that of any container is unknown.
        One that is done has none."""
        known = [c.lag for c in self.containers if c.state != "done"]
        return None if None in known else sum(filter(None, known))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values. Of a long history it has the newest part."""
        as_json: dict[str, Any] = plain(
            {
                "job": self.name,
                **{item.name: getattr(self, item.name) for item in fields(self) if item.name not in {"name", "at"}},
                "seconds": round(self.seconds, 3),
                **{name: getattr(self, name) for name in ("processed", "commits", "remaining", "lag")},
                **{
                    role: [each.to_json(self.at) for each in getattr(self, role)] for role in ("containers", "standbys")
                },
                "restored": list(self.restored[-HISTORY:]),
                "restored_left_out": max(0, len(self.restored) - HISTORY),
                "failures": list(self.failures[-SHOWN_FAILURES:]),
            }
        )
        return as_json
