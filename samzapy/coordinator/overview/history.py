"""Keeps figures of a job over time, in bounded memory: ten minutes in steps of ten seconds, six hours in steps of two
minutes. All come from the heartbeats."""

from __future__ import annotations

from typing import NamedTuple, final

from samzapy.coordinator.status import JobStatus

#: Seconds between two samples, and samples, of the last ten minutes and of the last six hours.
FINE_S, COARSE_S = 10, 120
_FINE, _COARSE = 60, 180
#: Seconds that a sample may come early.
_EARLY_S = 1.0


class Sample(NamedTuple):
    """The job in the seconds before `time_ms` (since 1970). None: not known.

    `rate`: messages a second; `lag`: offsets, at that time; `commit_s`: mean time of a commit, None without one; `cpu`:
    CPU seconds a second of all containers; `restarts`: attempts after the first, that began.
    """

    time_ms: int
    rate: float | None
    lag: int | None
    commit_s: float | None
    cpu: float | None
    restarts: int


class _Totals(NamedTuple):
    at: float
    processed: int
    commits: int
    commit_s: float
    cpu_s: float
    restarts: int

    @classmethod
    def of(cls, status: JobStatus) -> _Totals:
        def total(group: str, name: str) -> float:
            return sum(item.metrics.get(group, {}).get(name, 0.0) for item in status.containers)

        restarts = sum(max(0, item.attempts - 1) for item in status.containers)
        times = total("commit", "commit.total-s"), total("container", "cpu-s")
        return cls(status.at, status.processed, status.commits, *times, restarts)

    def until(self, now: _Totals, status: JobStatus) -> Sample:
        """The sample between two times, the second one that of `status`. A container that starts again counts its
        seconds from 0: then they are unknown."""
        seconds = now.at - self.at
        commits, commit_s, cpu_s = now.commits - self.commits, now.commit_s - self.commit_s, now.cpu_s - self.cpu_s
        return Sample(
            status.time_ms,
            round(max(0, now.processed - self.processed) / seconds, 1),
            status.lag,
            round(commit_s / commits, 4) if commits > 0 and commit_s > 0 else None,
            round(cpu_s / seconds, 3) if cpu_s > 0 else None,
            max(0, now.restarts - self.restarts),
        )


@final
class History:
    """The samples of one job. One thread notes, any thread reads."""

    def __init__(self) -> None:
        self.fine: tuple[Sample, ...] = ()
        """The samples of the last ten minutes, oldest first."""
        self.coarse: tuple[Sample, ...] = ()
        """The samples of the last six hours, oldest first."""
        self._before: dict[int, _Totals] = {}

    def note(self, status: JobStatus) -> None:
        """Take the figures of a status, if the next samples are due."""
        now = _Totals.of(status)
        self.fine = (*self.fine, *self._sample(now, FINE_S, status))[-_FINE:]
        self.coarse = (*self.coarse, *self._sample(now, COARSE_S, status))[-_COARSE:]

    def _sample(self, now: _Totals, step_s: int, status: JobStatus) -> tuple[Sample, ...]:
        """The sample of that step, if it is due."""
        before = self._before.setdefault(step_s, now)
        if now.at - before.at < step_s - _EARLY_S:
            return ()
        self._before[step_s] = now
        return (before.until(now, status),)
