"""Sums up the reports of the containers to the status of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.clock import STALE_AFTER, Clock, Measured
from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.leases import Standing
from samzapy.coordinator.status import HISTORY, ContainerFailure, ContainerStatus, RestoredStore
from samzapy.job.lease import ContainerReport, PartitionLag, UserFailure
from samzapy.job.model import replica_of


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

    A job may have a thousand containers, and its status may be read several times a second. So the status of a
    container is kept until it changes, and unchanged ones are not looked at. Figures become unknown with time: lags
    after `STALE_AFTER` times `lag_s`, metrics after `STALE_AFTER` times `details_s`.
    """

    def __init__(self, container_ids: tuple[str, ...], now: float, lag_s: float, details_s: float) -> None:
        """`now`: the time of the monotonic clock in seconds. `lag_s`, `details_s`: seconds between two measurements of
        a container's lag, and between two reports of its metrics."""
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
        """Take a report of the container's newest attempt at the time `now`, None if its details are those of an
        earlier one."""
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
        """The status of each container by id: its sums, with its standing. `moved` has the standings that have changed
        since the last call; `now` is the time of the monotonic clock. The mapping is valid until the next call."""
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


#: Seconds between two failures without a message after which the second is a new one.
SOUND_S = 300.0
#: Distinct failures that are kept; the oldest is dropped first.
MOST = 1_000


@dataclass
class _Seen:
    failure: UserFailure
    times: int
    at: float


class SameFailures:
    """Counts repeated failures of the user's code; `most` of one kind end the job. One caller at a time.

    The driver sees the end of every attempt, so it counts them all: Spark's retries, attempts at other places, and
    resubmitted jobs. A failure at a message counts for the whole run: once a message is processed, it does not come
    again. A failure without a message (`init`, `window`, a commit) is a repetition only within `SOUND_S` of the last one.
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self.most = most
        self._clock = clock
        self._seen: list[_Seen] = []

    def times(self, failure: UserFailure) -> int:
        """Count the failure that ended an attempt; returns the number of attempts that failed in this way, including
        this one."""
        now = self._clock.monotonic()
        for seen in self._seen:
            if failure.is_again(seen.failure):
                again = bool(failure.partition) or now - seen.at < SOUND_S
                seen.times, seen.at, seen.failure = (seen.times + 1 if again else 1), now, failure
                return seen.times
        self._seen = [*self._seen[1 - MOST :], _Seen(failure, 1, now)]
        return 1
