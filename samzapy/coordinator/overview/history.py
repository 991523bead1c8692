"""Keeps figures of a job over time, in bounded memory: ten minutes in steps of ten seconds, six hours in steps of two
minutes. All come from the heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, final

from samzapy.coordinator.status import JobStatus
from samzapy.metrics.registry import COMMIT_STEPS, PERCENTILES, RECENT

#: Seconds between two samples, and samples, of the last ten minutes and of the last six hours.
FINE_S, COARSE_S = 10, 120
_FINE, _COARSE = 60, 180
#: Seconds that a sample may come early.
_EARLY_S = 1.0


class Sample(NamedTuple):
    """The job in the seconds before `time_ms` (since 1970). None: not known.

    `rate`: messages per second; `lag`: offsets, at that time; `commit`: mean seconds of each of `COMMIT_STEPS`, and
    `process`: seconds of a message at each of `PERCENTILES`, in the slowest container and ten seconds; `cpu`: CPU
    seconds a second of all containers; `restarts`: starts of containers after the first, also those within a process.
    """

    time_ms: int
    rate: float | None
    lag: int | None
    commit: tuple[float, ...] | None
    process: tuple[float, ...] | None
    cpu: float | None
    restarts: int


class _Totals(NamedTuple):
    """The job at the time `at`. `sums`: CPU seconds and starts of containers that are not silent, by attempt."""

    at: float
    processed: int
    attempts: int
    sums: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, status: JobStatus) -> _Totals:
        known = {item.id: item.metrics.get("container", {}) for item in status.containers if item.metrics}
        sums = {name: (numbers.get("cpu-s", 0.0), numbers.get("starts", 1.0)) for name, numbers in known.items()}
        return cls(status.at, status.processed, sum(max(1, item.attempts) for item in status.containers), sums)

    def until(self, now: _Totals, status: JobStatus) -> Sample:
        """The sample between two times, the second one that of `status`."""
        seconds, cpu_s, restarts = now.at - self.at, 0.0, now.attempts - self.attempts
        for name, (cpu, starts) in now.sums.items():
            cpu_before, starts_before = self.sums.get(name, (0.0, 1.0))
            cpu_s += cpu - cpu_before if cpu >= cpu_before else cpu
            restarts += max(0, round(starts - starts_before))
        return Sample(
            status.time_ms,
            round(max(0, now.processed - self.processed) / seconds, 1),
            status.lag,
            _slowest(_recent(status, COMMIT_STEPS)),
            _slowest(_recent(status, PERCENTILES)),
            round(cpu_s / seconds, 3) if cpu_s > 0 else None,
            restarts,
        )


def _recent(status: JobStatus, names: Iterable[str]) -> Iterable[tuple[float, ...] | None]:
    """Those numbers of each container's last seconds, None where one is not known."""
    each = (item.metrics.get(RECENT, {}) for item in status.containers)
    return [tuple([numbers[name] for name in names]) if numbers.keys() >= set(names) else None for numbers in each]


def _slowest(each: Iterable[tuple[float, ...] | None]) -> tuple[float, ...] | None:
    known = [numbers for numbers in each if numbers is not None]
    return tuple(map(max, zip(*known, strict=True))) if known else None


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
        recent, new = self.fine[-COARSE_S // FINE_S :], self._sample(now, COARSE_S, status)
        commit, process = _slowest(each.commit for each in recent), _slowest(each.process for each in recent)
        self.coarse = (*self.coarse, *(each._replace(commit=commit, process=process) for each in new))[-_COARSE:]

    def _sample(self, now: _Totals, step_s: int, status: JobStatus) -> tuple[Sample, ...]:
        """The sample of that step, if it is due."""
        before = self._before.setdefault(step_s, now)
        if now.at - before.at < step_s - _EARLY_S:
            return ()
        self._before[step_s] = now._replace(sums={**before.sums, **now.sums})
        return (before.until(now, status),)
