"""Says in one sentence why a job is slow or stuck, from the figures of its status, and names the next command.

`_CAUSES` has the causes, the most urgent one first; each looks at one kind of figure. `diagnose` returns the first that
applies. Without any, nothing is wrong only if every figure is known and fresh; else it says what is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import final

from samzapy.coordinator.overview.history import FINE_S, Sample
from samzapy.coordinator.status import ContainerStatus, JobStatus
from samzapy.errors import counted
from samzapy.metrics.registry import COMMIT_STEPS

#: The job file, as the commands name it.
JOB = "JOB.properties"
#: Mean seconds of a commit that are slow, and seconds that a message may wait unread.
SLOW_COMMIT_S, LONG_WAIT_S = 1.0, 60.0
#: Samples of ten minutes with restarts that are too many, and characters of an error.
_OFTEN, _LONGEST = 4, 300
#: Offsets by which a lag has to grow before it counts, at least, and as a part of the lag.
_GROWTH, _GROWTH_PART = 100, 0.1
#: Seconds after which a figure is shown with its age.
_NOW_S = 1.0
#: A place that needs no quoting in a shell's double quotes.
_PLACE = re.compile(r"(?<!\S)[\w.-]+\[\d+\]@\d+")


@dataclass(frozen=True)
class Diagnosis:
    """`level`: `bad` (stuck, or about to be), `warn` (slow, or losing), `good`, or `unknown`. `text` is one sentence,
    `command` what to type next, empty for nothing. `also`: the sentences of less urgent causes."""

    level: str
    text: str
    command: str = ""
    also: tuple[str, ...] = ()


def diagnose(status: JobStatus, fine: Sequence[Sample] = (), coarse: Sequence[Sample] = ()) -> Diagnosis:
    """The most urgent cause. `fine` and `coarse` are the samples of a History."""
    job = _Job(status, tuple(fine), tuple(coarse))
    result = [cause for look in _CAUSES if (cause := look(job)) is not None]
    if not result:
        return _no_cause(job)
    first, *others = result
    return Diagnosis(first.level, first.text, first.command, tuple(other.text for other in others))


@final
@dataclass(frozen=True)
class _Job:
    status: JobStatus
    fine: tuple[Sample, ...]
    coarse: tuple[Sample, ...]

    @property
    def open(self) -> list[ContainerStatus]:
        return [item for item in self.status.containers if item.state != "done"]

    @property
    def lag(self) -> str:
        """The lag with its age."""
        ages = [age for item in self.open if (age := item.lag_age_s(self.status.at)) is not None]
        age_s = max(ages, default=0.0)
        return f"{self.status.lag or 0:,}{f' ({seconds(age_s)} ago)' if age_s >= _NOW_S else ''}"

    @property
    def is_sampled(self) -> bool:
        """Whether there are fresh samples."""
        return bool(self.fine) and self.status.time_ms - self.fine[-1].time_ms <= 3_000 * FINE_S

    @property
    def lags(self) -> list[tuple[int, int]]:
        """Time and lag of all samples, oldest first."""
        before = self.fine[0].time_ms if self.fine else 0
        samples = (*(item for item in self.coarse if item.time_ms < before), *self.fine)
        return [(item.time_ms, item.lag) for item in samples if item.lag is not None]

    @property
    def trend(self) -> float | None:
        """Offsets a second by which the lag has grown over the last minute; None if that is not known."""
        recent = self.lags[-6:]
        if not self.is_sampled or len(recent) < 2 or self.status.lag is None:
            return None
        (began, lag), now = recent[0], self.status.time_ms
        return (self.status.lag - lag) * 1000 / (now - began) if now > began else None


def seconds(value: float) -> str:
    """A time in words: `8 s`, `4 min`, `3 h 20 min`."""
    minutes = int(value // 60)
    if minutes < 2:
        return f"{value:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _subject(container: str, all_: Sequence[object]) -> str:
    """The first words about the most affected container of several: `Container 2 is`."""
    return f"Container {container} is" if len(all_) == 1 else f"Container {container} and {len(all_) - 1:,} more are"


def _replay(text: str) -> str:
    """The command that repeats what happened at the place in `text`; empty without one."""
    place = _PLACE.search(text)
    return f'samzapy replay {JOB} --until "{place[0]}"' if place else ""


def _stopping(job: _Job) -> Diagnosis | None:
    status, left = job.status, len(job.open)
    if not (status.stopping or status.draining) or not left:
        return None
    doing = "stops" if status.stopping else "drains"
    text = f"The job {doing} on request: {left:,} of {counted(len(status.containers), 'container')} still at work"
    return Diagnosis("warn", text, f"samzapy logs {JOB}")


def _failure(job: _Job, container: str, epoch: int | None = None) -> str:
    """The newest failure of a container, of the attempt with that epoch if one is given; empty if none is known."""
    for failure in reversed(job.status.failures):
        if failure.container_id == container and epoch in {None, failure.epoch}:
            user = failure.user
            if user is None:
                return f"{failure.error}: {failure.message[:_LONGEST]}"
            return f"{user.exception}: {user.message[:_LONGEST]} in {user.where}{f' ({user.at})' if user.at else ''}"
    return ""


def _lost(job: _Job) -> Diagnosis | None:
    lost = [item for item in job.open if item.state == "lost"]
    if not lost:
        return None
    first = lost[0]
    why = _failure(job, first.id, first.epoch) or "it has not reported for the length of its lease"
    text = f"{_subject(first.id, lost)} down after {counted(first.attempts, 'attempt')}: {why}"
    return Diagnosis("bad", text, _replay(why) or f"samzapy logs {JOB} --container {first.id}")


def _restarting(job: _Job) -> Diagnosis | None:
    restarts = [item.restarts for item in job.fine if item.restarts]
    if len(restarts) < _OFTEN or not job.open:
        return None
    worst = max(job.open, key=lambda each: each.attempts)
    why = _failure(job, worst.id)
    often = f"{sum(restarts)} times in {seconds(FINE_S * len(job.fine))}; container {worst.id} is in attempt"
    text = f"Containers have started again {often} {worst.attempts}{why and f': {why}'}"
    return Diagnosis("bad", text, _replay(why) or f"samzapy logs {JOB}")


def _stalled(job: _Job) -> Diagnosis | None:
    stalled = [(each.stalled, each.id) for each in job.open if each.stalled is not None]
    if not stalled:
        return None
    stall, container = max(stalled, key=lambda each: each[0].seconds)
    is_silent = stall.reason.startswith(("broker", "the ends"))
    command = f"samzapy check {JOB}" if is_silent else _replay(stall.reason) or f"samzapy status {JOB}"
    text = f"{_subject(container, stalled)} stuck: {stall.reason} for {seconds(stall.seconds)}"
    return Diagnosis("bad", text, command)


def _restoring(job: _Job) -> Diagnosis | None:
    restoring = [(each.restoring or (0, 0), each.id) for each in job.open if each.phase == "restoring"]
    if not restoring:
        return None
    (done, total), container = min(restoring, key=lambda each: each[0][0] / max(1, each[0][1]))
    part = f"{100 * done // total} % ({done:,} of {total:,} changelog offsets)" if total else "it has not begun to read"
    text = f"{_subject(container, restoring)} restoring: {part}"
    return Diagnosis("warn", text, f"samzapy logs {JOB} --container {container}")


def _not_running(job: _Job) -> Diagnosis | None:
    waiting = [each for each in job.open if each.state == "waiting"]
    if waiting:
        of = f"{len(waiting):,} of {counted(len(job.status.containers), 'container')}"
        return Diagnosis("warn", f"{of} not started: Spark has given no slot yet", f"samzapy logs {JOB}")
    others = [each for each in job.open if each.state == "running" and each.phase not in {"running", "restoring"}]
    if not others:
        return None
    first = max(others, key=lambda each: each.attempts)
    phase = {"": "starting", "waiting": "waiting for a system that does not answer"}.get(first.phase, first.phase)
    why = _failure(job, first.id)
    text = f"{_subject(first.id, others)} {phase}, in attempt {first.attempts}{why and f', after {why}'}"
    return Diagnosis("warn", text, f"samzapy logs {JOB} --container {first.id}")


def _unknown_lag(job: _Job) -> Diagnosis | None:
    running = [each for each in job.open if (each.state, each.phase) == ("running", "running") and not each.stalled]
    unknown = [(age, each.id) for each in running if each.lags is None and (age := each.lag_age_s(job.status.at))]
    if not unknown:
        return None
    age_s, container = max(unknown)
    why = "the broker, or the container, does not answer"
    text = f"{_subject(container, unknown)} without a known lag for {seconds(age_s)}: {why}"
    return Diagnosis("bad", text, f"samzapy check {JOB}")


def _clock(job: _Job) -> Diagnosis | None:
    stalled = job.status.clocks.stalled
    if stalled is None:
        return None
    return Diagnosis("bad", f"Event time is stuck: {stalled}", f"samzapy status {JOB}")


def _growing_lag(job: _Job) -> Diagnosis | None:
    lag, lags, trend = job.status.lag, job.lags, job.trend
    if lag is None or trend is None or trend <= 0:
        return None
    lowest = min(each for _, each in lags)
    began = max(at for at, each in lags if each == lowest)
    if lag - lowest < max(_GROWTH, _GROWTH_PART * lag):
        return None
    since = datetime.fromtimestamp(began / 1000, timezone.utc).strftime("%H:%M UTC")
    slowest = max(job.open, key=lambda each: each.lag or 0)
    text = f"Lag grows since {since}: {job.lag} now, {trend:+,.0f}/s, most of it in container {slowest.id}"
    cpu, running = job.fine[-1].cpu, max(1, len(job.open))
    if cpu is not None and cpu >= 0.9 * running:
        text += f"; its containers use all of {counted(running, 'core')}: add containers (job.container.count)"
    return Diagnosis("warn", text, f"samzapy status {JOB}")


def _slow_commits(job: _Job) -> Diagnosis | None:
    times = [item.commit for item in job.fine[-6:] if item.commit is not None]
    if not job.is_sampled or not times:
        return None
    means = [sum(step) / len(times) for step in zip(*times, strict=True)]
    if sum(means) < SLOW_COMMIT_S:
        return None
    longest, step = max(zip(means, COMMIT_STEPS, strict=True))
    text = f"Commits are slow: {sum(means):.1f} s on average over the last minute, {longest:.1f} s of it in step {step}"
    return Diagnosis("warn", text, f"samzapy check {JOB}")


def _failing(job: _Job) -> Diagnosis | None:
    handled = job.status.handled
    if not handled:
        return None
    last, counts = handled[-1].failure, job.status.counts.items()
    number = sum(count for name, count in counts if name.startswith("errors.")) or len(handled)
    at = f" ({last.at})" if last.at else ""
    newest = f"{seconds(handled[-1].age_s)} ago: {last.exception}: {last.message[:_LONGEST]} in {last.where}{at}"
    text = f"{counted(number, 'message')} skipped or dead-lettered, the newest {newest}"
    return Diagnosis("warn", text, _replay(f"{last.partition}@{last.first}") or f"samzapy logs {JOB}")


def _waiting_messages(job: _Job) -> Diagnosis | None:
    parts = [item for each in job.open for item in each.partitions.items()]
    name, oldest = max(parts, key=lambda part: part[1].age_s or 0.0, default=("", None))
    if oldest is None or (oldest.age_s or 0.0) < LONG_WAIT_S or _growing_lag(job) is not None:
        return None
    trend, lag = job.trend, job.status.lag
    if trend is not None and trend < 0 and lag:
        text = f"The job catches up: lag {job.lag}, {trend:+,.0f}/s, done in {seconds(-lag / trend)}"
        return Diagnosis("warn", text, f"samzapy status {JOB}")
    text = f"Messages wait for {seconds(oldest.age_s or 0.0)} in {name}: lag {job.lag}, and it does not shrink"
    return Diagnosis("warn", text, f"samzapy status {JOB}")


#: The most urgent cause first.
_CAUSES: tuple[Callable[[_Job], Diagnosis | None], ...] = (
    *(_stopping, _lost, _stalled, _restarting, _unknown_lag, _clock),
    *(_not_running, _restoring, _growing_lag, _slow_commits, _failing, _waiting_messages),
)


def _no_cause(job: _Job) -> Diagnosis:
    status = job.status
    if not status.containers:
        return Diagnosis("unknown", "Nothing is known: the job has no container")
    if not job.open:
        return Diagnosis("good", f"The job has ended: {counted(status.processed, 'message')} processed")
    unknown = list(_unknown(job))
    if unknown:
        return Diagnosis("unknown", f"Nothing wrong is known, but not everything: no {' and no '.join(unknown)} yet")
    run = f"{counted(len(job.open), 'container')} {'runs' if len(job.open) == 1 else 'run'}"
    return Diagnosis("good", f"Nothing is wrong: {run}, lag {job.lag}, {job.fine[-1].rate:,.0f} messages per second")


def _unknown(job: _Job) -> Iterable[str]:
    silent = [item.id for item in job.open if item.is_lag_unknown or not item.metrics]
    if silent:
        yield f"figures of {counted(len(silent), 'container')}"
    if not job.is_sampled or job.fine[-1].rate is None:
        yield f"rate (it takes {FINE_S} s to measure)"
