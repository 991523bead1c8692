"""Sums up the reports of the containers to the status of the job."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from samzapy.clock import STALE_AFTER, Clock, Measured
from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.leases import ContainerState, Standing
from samzapy.coordinator.status import HISTORY, ContainerFailure, ContainerStatus, HandledFailure, RestoredStore
from samzapy.job.lease import ContainerReport, PartitionLag, UserFailure
from samzapy.job.planner import replica_of

#: Skipped and dead-lettered messages that are kept, and for how many seconds.
MOST_HANDLED, HANDLED_S = 100, 3_600.0


@dataclass(kw_only=True)
class _Account:
    """One container's sums over its attempts, its newest lags, and the time of its newest report."""

    lags: Measured[dict[str, PartitionLag]]
    reported_at: float
    is_standby: bool
    report: ContainerReport | None = None
    processed_before: int = 0
    commits_before: int = 0
    counts_before: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    restored: dict[tuple[str, int], RestoredStore] = field(default_factory=dict)
    failure: UserFailure | None = None

    def update(self, report: ContainerReport, now: float) -> None:
        """Take a report of the newest attempt."""
        last = self.report
        if last is not None and _begins_anew(last, report):
            self.processed_before += last.processed
            self.commits_before += last.commits
        if last is not None and last.epoch != report.epoch:
            self.counts_before += self.counts
        self.counts = _counts(report)
        self.report, self.reported_at = report, now
        self.lags = report.facts.partitions or self.lags
        self.failure = report.facts.handled[-1] if report.facts.handled else self.failure
        if last is None or last.epoch != report.epoch or report.restored != last.restored:
            for name, (records, seconds, source) in report.restored.items():
                store = RestoredStore(report.container_id, name, report.epoch, records, seconds, source)
                self.restored[name, report.epoch] = store
            while len(self.restored) > HISTORY:
                del self.restored[next(iter(self.restored))]


class Progress:
    """The newest report of each container, and the sums of the earlier attempts. One caller at a time.

    Figures become unknown with time: lags after `STALE_AFTER` times `lag_s`, and all others of a container that has
    been silent for `STALE_AFTER` times `report_s`.
    """

    def __init__(self, container_ids: Iterable[str], now: float, lag_s: float, report_s: float) -> None:
        """`now`: the time of the monotonic clock in seconds. `lag_s`, `report_s`: seconds between two measurements of
        a container's lag, and between two reports."""
        self._lag_s, self._silent_s = lag_s, STALE_AFTER * report_s
        self._accounts = {
            item: _Account(lags=Measured({}, now), reported_at=now, is_standby=replica_of(item) > 0)
            for item in container_ids
        }
        self._failures: list[ContainerFailure] = []
        self._handled: deque[tuple[float, str, UserFailure]] = deque(maxlen=MOST_HANDLED)
        self.failed = 0

    def update(self, report: ContainerReport, now: float) -> None:
        """Take a report of the container's newest attempt at the time `now`."""
        self._accounts[report.container_id].update(report, now)
        for item in report.facts.handled:
            if item.handled != "retried":
                self._handled.append((now, report.container_id, item))

    def handled(self, now: float) -> tuple[HandledFailure, ...]:
        """The newest skipped and dead-lettered messages of the last hour, oldest first."""
        return tuple(
            [HandledFailure(of, item, round(now - at)) for at, of, item in self._handled if now - at <= HANDLED_S]
        )

    def fail(self, failure: ContainerFailure) -> None:
        """Take the reason why an attempt ended."""
        self.failed += 1
        account = self._accounts[failure.container_id]
        account.failure = failure.user or account.failure
        self._failures.append(failure)
        del self._failures[:-HISTORY]

    @property
    def failures(self) -> tuple[ContainerFailure, ...]:
        """The newest failures, oldest first."""
        return tuple(self._failures)

    @property
    def restored(self) -> tuple[RestoredStore, ...]:
        """All restores, by container, in order of time."""
        return tuple(store for account in self._accounts.values() for store in account.restored.values())

    @property
    def counts(self) -> dict[str, int]:
        """The counters of weakened guarantees that are not 0, by `group.name`, over all containers and attempts."""
        total: Counter[str] = Counter()
        for account in self._accounts.values():
            total += account.counts_before + account.counts
        return dict(total)

    def status(self, container_id: str, standing: Standing, now: float) -> ContainerStatus:
        """The status of a container: its sums, with its standing; `now` is the time of the monotonic clock."""
        account, (state, attempts, epoch) = self._accounts[container_id], standing
        report, has_ended = account.report, state is ContainerState.DONE
        is_recent = now - account.reported_at <= self._silent_s
        # A standby measures with each report how far behind it is.
        has_lags = is_recent if account.is_standby else account.lags.is_known(now, self._lag_s)
        known = ContainerStatus(
            id=container_id,
            state=state.value,
            attempts=attempts,
            epoch=epoch,
            lags=account.lags.value if has_lags else None,
            measured_at=None if has_ended or account.is_standby else account.lags.at,
        )
        if report is None:
            return known
        is_own = report.epoch == epoch and state is not ContainerState.WAITING
        restoring = tuple(report.restoring.values()) if is_own else ()
        return replace(
            known,
            # Readiness and the places of state depend on the phase: the previous attempt's phase must not count.
            phase=report.phase if is_own else "starting",
            processed=account.processed_before + report.processed,
            commits=account.commits_before + report.commits,
            remaining=_remaining(report) if is_own else None,
            restoring=(sum(done for done, _ in restoring), sum(total for _, total in restoring)) if restoring else None,
            positions=report.positions,
            ends=report.ends,
            metrics=report.metrics if is_recent or has_ended else {},
            stalled=report.facts.stalled if is_own else None,
            failure=account.failure,
        )


def _begins_anew(last: ContainerReport, report: ContainerReport) -> bool:
    """Whether `report` counts from 0 again: another attempt, or the same one started again in place."""
    return last.epoch != report.epoch or last.processed > report.processed or last.commits > report.commits


def _counts(report: ContainerReport) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name in COUNTS:
        group, _, metric = name.partition(".")
        counts[name] = int(report.metrics.get(group, {}).get(metric, 0))
    return +counts


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
    again. A failure without a message (`init`, `window`, a commit) is a repetition only within `SOUND_S` of the last
    one.
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
