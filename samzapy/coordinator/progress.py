"""Sums up the reports of the containers to the status of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import msgspec

from samzapy.clock import STALE_AFTER, Measured
from samzapy.config.guarantee_warnings import COUNTS, GuaranteeWarning
from samzapy.coordinator.clocks import ClockStatus
from samzapy.coordinator.leases import Standing
from samzapy.job.facts import PartitionLag, Stall, UserFailure
from samzapy.job.lease import ContainerReport
from samzapy.job.model import replica_of
from samzapy.metrics.series import PartitionSnapshot
from samzapy.strict_json import encode, plain


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
class ChangelogSize:
    """The changelog of a store: its partitions, and the offsets between beginning and end of all of them. There are at
    most that many records, since compaction and the ends of transactions leave gaps."""

    partitions: int
    offsets: int


@dataclass(frozen=True)
class ContainerFailure:
    """The reason why an attempt ended: the error's class name, its message in one line, its exit code, whether another
    attempt would fail in the same way, and the failure of the user's code, if it was one."""

    container_id: str
    epoch: int
    error: str
    message: str
    exit_code: int
    permanent: bool = False
    user: UserFailure | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**vars(self), "user": msgspec.to_builtins(self.user)}


@dataclass(frozen=True)
class ContainerStatus:
    """One container. `processed` and `commits` count all its attempts; `remaining` is None for an endless run.

    `lags` has its input partitions by SSP as text, as of the last request for their ends, None if that is not known: at time
    `measured_at` of the driver's monotonic clock it was. `stalled` is set while it makes no progress; `failure` is the last
    failure of the user's code. Until the newest attempt reports, `phase` is `starting`, and positions and ends are the last
    ones of the previous attempt; its lags and metrics soon become unknown, and metrics are then empty."""

    id: str
    state: str
    phase: str
    attempts: int
    epoch: int | None
    processed: int
    commits: int
    remaining: int | None
    restoring: tuple[int, int] | None
    positions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lags: Mapping[str, PartitionLag] | None = field(default_factory=dict)
    stalled: Stall | None = None
    failure: UserFailure | None = None
    measured_at: float | None = None

    @cached_property
    def partitions(self) -> Mapping[str, PartitionSnapshot]:
        """Its input partitions by SSP as text.

        Position, end and lag are of one time: as of the container's last request for the end. Until the first request, the
        end of the run stands for the end of the partition. If the lag is unknown, there is the newest position alone.
        """
        found, lags = {}, self.lags
        for ssp, position in self.positions.items():
            end = self.ends.get(ssp) if lags is not None else None
            found[ssp] = PartitionSnapshot(position, end, None if end is None else max(0, end - position))
        found.update({ssp: _snapshot(seen) for ssp, seen in (lags or {}).items()})
        return found

    def after(self, before: ContainerStatus) -> ContainerStatus:
        """This status, with the results that `before` has computed for the same partitions: most reports are heartbeats
        and change none."""
        if (before.positions, before.ends, before.lags) == (self.positions, self.ends, self.lags):
            vars(self).update({name: vars(before)[name] for name in ("partitions", "lag") if name in vars(before)})
        return self

    @cached_property
    def lag(self) -> int | None:
        """Offsets between the positions and the ends of all its partitions; None while no end is known."""
        known = [each.lag for each in self.partitions.values() if each.lag is not None]
        return sum(known) if known else None

    @property
    def is_lag_unknown(self) -> bool:
        """Whether it has inputs, and nobody knows how far behind it is."""
        return self.lags is None or (self.lag is None and bool(self.positions))

    def lag_age_s(self, now: float) -> float | None:
        """Seconds since its lag was measured, or since nobody has measured it; None for one that has ended, or has no lag."""
        return None if self.measured_at is None else max(0.0, now - self.measured_at)

    def to_json(self, now: float) -> dict[str, Any]:
        """Return plain JSON values; `now` is the time of the status."""
        shown: dict[str, Any] = plain(self._shown(now))
        return shown

    def encoded(self, now: float) -> msgspec.Raw:
        """The JSON form without metrics: a large job has millions."""
        return msgspec.Raw(encode(self._shown(now, "metrics")))

    def _shown(self, now: float, *left_out: str) -> dict[str, Any]:
        """The fields, the lag and its age by name, without the names in `left_out`."""
        age_s = self.lag_age_s(now)
        shown = {name: getattr(self, name) for name in (*_FIELDS, "lag") if name not in left_out}
        return {**shown, "lag_age_s": None if age_s is None else round(age_s, 3)}


_FIELDS = tuple(each.name for each in fields(ContainerStatus) if each.name != "measured_at")


def _snapshot(seen: PartitionLag) -> PartitionSnapshot:
    age_ms = seen.age_ms
    return PartitionSnapshot(seen.position, seen.end, seen.lag, None if age_ms is None else age_ms / 1000)


#: Failures, and restores of a container, that are kept; the oldest are dropped first.
HISTORY = 1_000


@dataclass(frozen=True)
class JobStatus:
    """The whole job at one moment. `seconds`: from the start of the first attempt to the newest report. `failed` is the number
    of failures; `failures` has the newest. `downgrades` are reasons why the job's guarantee is weakened; `counts`, by
    `group.name` and over all attempts, counts the consequences. `standbys` process nothing; their `remaining` counts the
    offsets that they still have to read. `clocks` are in event time. `changelogs`, by store, are as of the driver's last look, and empty if
    that was long ago. `at` is the time of this status on the driver's monotonic clock, in seconds."""

    name: str
    stopping: bool
    seconds: float
    containers: tuple[ContainerStatus, ...]
    restored: tuple[RestoredStore, ...]
    failures: tuple[ContainerFailure, ...]
    failed: int = 0
    downgrades: tuple[GuaranteeWarning, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    standbys: tuple[ContainerStatus, ...] = ()
    clocks: ClockStatus = field(default_factory=ClockStatus)
    draining: bool = False
    changelogs: Mapping[str, ChangelogSize] = field(default_factory=dict)
    at: float = field(default=0.0, compare=False)

    def following(self, before: JobStatus | None) -> JobStatus:
        """The status of a run that has started its containers again, with the sums of the part `before` added; None:
        there was none."""
        if before is None:
            return self
        sums = {each.id: each for each in before.containers}
        containers = tuple(
            each
            if each.id not in sums
            else replace(
                each,
                processed=each.processed + sums[each.id].processed,
                commits=each.commits + sums[each.id].commits,
            )
            for each in self.containers
        )
        return replace(
            self,
            seconds=before.seconds + self.seconds,
            containers=containers,
            restored=(*before.restored, *self.restored)[-HISTORY:],
            failures=(*before.failures, *self.failures)[-HISTORY:],
            failed=before.failed + self.failed,
            counts=Counter(before.counts) + Counter(self.counts),
        )

    @property
    def everyone(self) -> tuple[ContainerStatus, ...]:
        """The containers and their standbys."""
        return (*self.containers, *self.standbys)

    @property
    def processed(self) -> int:
        """Messages processed; a repeated message counts each time."""
        return sum(container.processed for container in self.containers)

    @property
    def commits(self) -> int:
        """Commits made."""
        return sum(container.commits for container in self.containers)

    @property
    def remaining(self) -> int | None:
        """Offsets left to the ends; None if a container has no ends, or has not reported them."""
        known = [c.remaining for c in self.containers]
        return None if None in known else sum(filter(None, known))

    @property
    def lag(self) -> int | None:
        """Offsets between the positions and the ends of all partitions; None while that of any container is unknown. One that
        is done has none."""
        known = [c.lag for c in self.containers if c.state != "done"]
        return None if None in known else sum(filter(None, known))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return self._to_json(lambda container: container.to_json(self.at)) | {
            "clocks": msgspec.to_builtins(self.clocks)
        }

    def encoded(self, pause: Callable[[], None]) -> bytes:
        """The JSON form without metrics. `pause` is called between two containers."""

        def encoded(container: ContainerStatus) -> msgspec.Raw:
            pause()
            return container.encoded(self.at)

        return encode(self._to_json(encoded))

    def _to_json(self, container: Callable[[ContainerStatus], Any]) -> dict[str, Any]:
        return {
            "job": self.name,
            "stopping": self.stopping,
            "draining": self.draining,
            "seconds": round(self.seconds, 3),
            "processed": self.processed,
            "commits": self.commits,
            "remaining": self.remaining,
            "lag": self.lag,
            "containers": [container(each) for each in self.containers],
            "restored": [vars(store) for store in self.restored],
            "failed": self.failed,
            "failures": [failure.to_json() for failure in self.failures],
            "downgrades": [vars(downgrade) for downgrade in self.downgrades],
            "counts": dict(self.counts),
            "standbys": [container(each) for each in self.standbys],
            "clocks": self.clocks,
            "changelogs": {store: vars(size) for store, size in self.changelogs.items()},
        }


@dataclass
class _Account:
    """One container's sums over its attempts, its newest lags, and the time of its newest details."""

    lags: Measured[dict[str, PartitionLag]]
    heard_at: float
    is_standby: bool
    report: ContainerReport | None = None
    processed_before: int = 0
    commits_before: int = 0
    counts_before: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    restored: dict[tuple[str, int], RestoredStore] = field(default_factory=dict)
    failure: UserFailure | None = None
    standing: Standing = ("", 0, None)


class Progress:
    """The newest report of each container, and the sums of the earlier attempts. One caller at a time.

    A job may have a thousand containers, and its status may be read several times a second. So the status of a container is
    kept until it changes, and unchanged ones are not looked at. Figures become unknown with time: lags after `STALE_AFTER` times
    `lag_s`, metrics after `STALE_AFTER` times `details_s`.
    """

    def __init__(self, container_ids: tuple[str, ...], now: float, lag_s: float, details_s: float) -> None:
        """`now`: the time of the monotonic clock in seconds. `lag_s`, `details_s`: seconds between two measurements of a
        container's lag, and between two reports of its metrics."""
        self._lag_s, self._details_s = lag_s, STALE_AFTER * details_s
        self._accounts = {each: _Account(Measured({}, now), now, replica_of(each) > 0) for each in container_ids}
        # Whether the last status of a container had its lags, and its metrics.
        self._known: dict[str, tuple[bool, bool]] = {}
        self._failures: list[ContainerFailure] = []
        self._restored: tuple[RestoredStore, ...] | None = ()
        self._statuses: dict[str, ContainerStatus] = {}
        self._changed = set(self._accounts)
        self._counts: Mapping[str, int] | None = {}
        self.failed = 0

    def update(self, report: ContainerReport, now: float | None) -> None:
        """Take a report of the container's newest attempt at the time `now`, None if its details are those of an earlier one."""
        account = self._accounts[report.container_id]
        last = account.report
        if last is not None and _begins_anew(last, report):
            account.processed_before += last.processed
            account.commits_before += last.commits
        if last is not None and last.epoch != report.epoch:
            account.counts_before += account.counts
            account.counts = Counter()
        account.report = report
        self._changed.add(report.container_id)
        if last is None or report.metrics is not last.metrics:
            counts = _counts(report)
            if counts != account.counts:
                account.counts, self._counts = counts, None
        facts = report.facts
        account.heard_at = account.heard_at if now is None else now
        if facts.partitions is not None:
            account.lags = facts.partitions
        account.failure = facts.failure or account.failure
        if last is None or last.epoch != report.epoch or report.restored is not last.restored:
            self._take_restored(account, report)

    def _take_restored(self, account: _Account, report: ContainerReport) -> None:
        if not report.restored:
            return
        self._restored = None
        for name, (records, seconds, source) in report.restored.items():
            store = RestoredStore(report.container_id, name, report.epoch, records, seconds, source)
            account.restored[name, report.epoch] = store
        while len(account.restored) > HISTORY:
            del account.restored[next(iter(account.restored))]

    def fail(self, failure: ContainerFailure) -> None:
        """Take the reason why an attempt ended."""
        self.failed += 1
        account = self._accounts[failure.container_id]
        account.failure = failure.user or account.failure
        self._changed.add(failure.container_id)
        self._failures.append(failure)
        del self._failures[:-HISTORY]

    @property
    def failures(self) -> tuple[ContainerFailure, ...]:
        """The newest failures, oldest first."""
        return tuple(self._failures)

    @property
    def restored(self) -> tuple[RestoredStore, ...]:
        """All restores, by container, in order of time."""
        if self._restored is None:
            self._restored = tuple(store for account in self._accounts.values() for store in account.restored.values())
        return self._restored

    @property
    def counts(self) -> Mapping[str, int]:
        """The counters of weakened guarantees that are not 0, by `group.name`, over all containers and attempts."""
        if self._counts is None:
            found: Counter[str] = Counter()
            for account in self._accounts.values():
                if account.counts_before or account.counts:
                    found += account.counts_before + account.counts
            self._counts = dict(found)
        return self._counts

    def statuses(self, moved: Mapping[str, Standing], now: float) -> Mapping[str, ContainerStatus]:
        """The status of each container by id: its sums, with its standing. `moved` has the standings that have changed since the
        last call; `now` is the time of the monotonic clock. The mapping is valid until the next call."""
        for container_id, standing in moved.items():
            self._accounts[container_id].standing = standing
        statuses, lag_s, details_s = self._statuses, self._lag_s, self._details_s
        for container_id, account in self._accounts.items():
            has_details = now - account.heard_at <= details_s
            # A standby measures with each report how far behind it is.
            known = has_details if account.is_standby else account.lags.is_known(now, lag_s), has_details
            if self._known.get(container_id) != known:
                self._known[container_id] = known
                self._changed.add(container_id)
        for container_id in self._changed.union(moved):
            made, before = self._made(container_id), statuses.get(container_id)
            statuses[container_id] = made if before is None else made.after(before)
        self._changed.clear()
        return statuses

    def _made(self, container_id: str) -> ContainerStatus:
        account = self._accounts[container_id]
        report, (state, attempts, epoch) = account.report, account.standing
        has_lags, has_metrics = self._known[container_id]
        has_ended = state == "done"
        lags = account.lags.value if has_lags else None
        measured_at = None if has_ended or account.is_standby else account.lags.at
        if report is None:
            return ContainerStatus(
                container_id, state, "", attempts, epoch, 0, 0, None, None, lags=lags, measured_at=measured_at
            )
        is_own = report.epoch == epoch
        restoring = tuple(report.restoring.values()) if is_own else ()
        return ContainerStatus(
            container_id,
            state,
            # Readiness and the places of state depend on the phase: the previous attempt's phase must not count.
            report.phase if is_own else "starting",
            attempts,
            epoch,
            account.processed_before + report.processed,
            account.commits_before + report.commits,
            _remaining(report) if is_own else None,
            (sum(done for done, _ in restoring), sum(total for _, total in restoring)) if restoring else None,
            report.positions,
            report.ends,
            report.metrics if has_metrics or has_ended else {},
            lags,
            report.facts.stalled if is_own else None,
            account.failure,
            measured_at,
        )


def _begins_anew(last: ContainerReport, report: ContainerReport) -> bool:
    """Whether `report` counts from 0 again: another attempt, or the same one started again in place."""
    return last.epoch != report.epoch or last.processed > report.processed or last.commits > report.commits


#: The counters of events that a guarantee does not cover, by group of metrics.
_COUNTED = {
    group: [(name, name.partition(".")[2]) for name in COUNTS if name.startswith(f"{group}.")]
    for group in {name.partition(".")[0] for name in COUNTS}
}


def _counts(report: ContainerReport) -> Counter[str]:
    found: Counter[str] = Counter()
    # Most of the groups are tasks.
    for group in report.metrics:
        if group in _COUNTED:
            values = report.metrics[group]
            found.update({name: count for name, metric in _COUNTED[group] if (count := int(values.get(metric, 0))) > 0})
    return found


def _remaining(report: ContainerReport) -> int | None:
    if report.phase == "done":
        return 0
    positions = report.positions
    if not report.ends or not positions:
        return None
    return sum(max(0, end - positions[ssp]) for ssp, end in report.ends.items() if ssp in positions)
