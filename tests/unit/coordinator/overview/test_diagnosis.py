"""Why a job is slow or stuck: one sentence, by table."""

from dataclasses import replace

import pytest
from jobs.job_status import container, failed_job, job
from msgspec import structs

from samzapy.coordinator.clocks import ClockStatus
from samzapy.coordinator.clocks import Stall as ClockStall
from samzapy.coordinator.overview.diagnosis import diagnose, seconds
from samzapy.coordinator.overview.history import Sample
from samzapy.coordinator.status import ContainerFailure, HandledFailure
from samzapy.job.lease import PartitionLag, Stall, UserFailure

#: 2026-11-28 12:10 UTC.
NOW = 1_795_867_800_000
METRICS = {"container": {"cpu-s": 1.0}}
USER = UserFailure(
    "KeyError",
    "'user'",
    "Partition 0",
    "process of kafka.in[0]@17",
    "tasks.py:31",
    "",
    "kafka.in[0]",
    17,
    17,
    "skipped",
)


def running(number=0, lag=0, **more):
    return container(number, 10, [number], lag=lag, **{"metrics": METRICS, "measured_at": 0.0, **more})


def lost(user=None):
    failure = ContainerFailure("0", 1, "TaskFailed", "it failed", 1, user=user)
    return job(running(state="lost", attempts=3, lags=None), failures=(failure,), failed=1)


def stalled(reason, seconds_=90.0):
    return job(running(1), running(2, stalled=Stall(reason, seconds_)))


def waits(lag=5_000):
    lags = {"kafka.in[0]": PartitionLag(10, 10 + lag, lag, 300_000)}
    return job(running(lag=lag, lags=lags))


def sample(age, lag=0, commit_s=0.01, cpu=0.3, restarts=0):
    return Sample(NOW - 1_000 * age, 300.0, lag, (0.0, 0.0, commit_s * 0.75, commit_s / 4, 0.0), None, cpu, restarts)


def steady(lag=0, **more):
    return [sample(age, lag, **more) for age in range(590, -1, -10)]


def growing(cpu=0.3):
    """From 100 at 12:03, by 10 a second."""
    return [sample(age, 100 + 10 * max(0, 420 - age), cpu=cpu) for age in range(590, -1, -10)]


def shrinking():
    return [sample(age, 5_000 + 100 * age) for age in range(590, -1, -10)]


HANDLED = tuple(HandledFailure("0", structs.replace(USER, at=""), age) for age in (60.0, 8.0))
REPLAY = 'samzapy replay JOB.properties --until "kafka.in[0]@17"'
CHECK, STATUS, LOGS = (f"samzapy {name} JOB.properties" for name in ("check", "status", "logs"))

CASES = {
    "stopping": (
        job(running(), running(1, state="done"), stopping=True),
        steady(),
        ("warn", "The job stops on request: 1 of 2 containers still at work", LOGS),
    ),
    "draining": (
        job(running(), draining=True),
        steady(),
        ("warn", "The job drains on request: 1 of 1 container still at work", LOGS),
    ),
    "lost in the user's code": (
        lost(USER),
        [],
        (
            "bad",
            "Container 0 is down after 3 attempts: KeyError: 'user' in process of kafka.in[0]@17 (tasks.py:31)",
            REPLAY,
        ),
    ),
    "lost otherwise": (
        lost(),
        [],
        ("bad", "Container 0 is down after 3 attempts: TaskFailed: it failed", f"{LOGS} --container 0"),
    ),
    "silent": (
        job(running(state="lost", lags=None, epoch=2), failures=lost().failures),
        [],
        (
            "bad",
            "Container 0 is down after 1 attempt: it has not reported for the length of its lease",
            f"{LOGS} --container 0",
        ),
    ),
    "restarts for ever": (
        replace(lost(), containers=(running(attempts=57), running(1))),
        [sample(age, restarts=age % 20 // 10) for age in range(590, -1, -10)],
        (
            "bad",
            "Containers have started again 30 times in 10 min; container 0 is in attempt 57: TaskFailed: it failed",
            LOGS,
        ),
    ),
    "stuck in process": (
        stalled("in process of kafka.in[3]@17"),
        steady(),
        (
            "bad",
            "Container 2 is stuck: in process of kafka.in[3]@17 for 90 s",
            'samzapy replay JOB.properties --until "kafka.in[3]@17"',
        ),
    ),
    "broker gone": (failed_job(), [], ("bad", "Container 0 is stuck: broker unreachable for 45 s", CHECK)),
    "stuck in a commit": (
        stalled("in a commit", 200.0),
        [],
        ("bad", "Container 2 is stuck: in a commit for 3 min", STATUS),
    ),
    "lag unknown": (
        job(running(), running(1, lags=None), at=45.0),
        steady(),
        ("bad", "Container 1 is without a known lag for 45 s: the broker, or the container, does not answer", CHECK),
    ),
    "event time": (
        job(running(), clocks=ClockStatus(stalled=ClockStall("Partition 0", "", 400.0))),
        steady(),
        ("bad", "Event time is stuck: the job's clock has stood still for 400 s: it waits for Partition 0", STATUS),
    ),
    "no slot": (
        job(running(), running(1, state="waiting", phase="", metrics={})),
        steady(),
        ("warn", "1 of 2 containers not started: Spark has given no slot yet", LOGS),
    ),
    "starting": (
        job(running(), running(1, phase="starting", attempts=2)),
        steady(),
        ("warn", "Container 1 is starting, in attempt 2", f"{LOGS} --container 1"),
    ),
    "waiting": (
        job(running(), running(1, phase="waiting")),
        steady(),
        ("warn", "Container 1 is waiting for a system that does not answer, in attempt 1", f"{LOGS} --container 1"),
    ),
    "restoring": (
        job(running(), running(1, phase="restoring", restoring=(400, 1_000))),
        steady(),
        ("warn", "Container 1 is restoring: 40 % (400 of 1,000 changelog offsets)", f"{LOGS} --container 1"),
    ),
    "lag grows": (
        job(running(lag=4_300), at=4.0),
        growing(),
        ("warn", "Lag grows since 12:03 UTC: 4,300 (4 s ago) now, +10/s, most of it in container 0", STATUS),
    ),
    "slow commits": (
        job(running()),
        steady(commit_s=4.0),
        ("warn", "Commits are slow: 4.0 s on average over the last minute, 3.0 s of it in step changelog", CHECK),
    ),
    "skipped messages": (
        job(running(), handled=HANDLED, counts={"errors.process.skipped": 37, "guarantee.stores-rebuilt": 1}),
        steady(),
        (
            "warn",
            "37 messages skipped or dead-lettered, the newest 8 s ago: KeyError: 'user' in process of kafka.in[0]@17",
            REPLAY,
        ),
    ),
    "catching up": (waits(5_000), shrinking(), ("warn", "The job catches up: lag 5,000, -100/s, done in 50 s", STATUS)),
    "waiting messages": (
        waits(5_000),
        steady(5_000),
        ("warn", "Messages wait for 5 min in kafka.in[0]: lag 5,000, and it does not shrink", STATUS),
    ),
    "nothing wrong": (
        job(running(), running(1, lag=7), at=3.0),
        steady(),
        ("good", "Nothing is wrong: 2 containers run, lag 7 (3 s ago), 300 messages per second", ""),
    ),
    "ended": (job(container(0, 1, state="done")), [], ("good", "The job has ended: 1 message processed", "")),
    "not sampled": (
        job(running()),
        [],
        ("unknown", "Nothing wrong is known, but not everything: no rate (it takes 10 s to measure) yet", ""),
    ),
    "samples are old": (
        job(running()),
        [each._replace(time_ms=each.time_ms - 60_000) for each in steady()],
        ("unknown", "Nothing wrong is known, but not everything: no rate (it takes 10 s to measure) yet", ""),
    ),
    "no numbers": (
        job(running(), running(1, metrics={})),
        steady(),
        ("unknown", "Nothing wrong is known, but not everything: no figures of 1 container yet", ""),
    ),
    "no container": (job(), [], ("unknown", "Nothing is known: the job has no container", "")),
}


@pytest.mark.parametrize(("status", "samples", "expected"), CASES.values(), ids=CASES.keys())
def test_the_sentence_says_what_is_wrong_and_what_to_type(status, samples, expected):
    found = diagnose(replace(status, time_ms=NOW), samples)
    assert (found.level, found.text, found.command) == expected


def test_the_most_urgent_cause_wins_and_the_others_follow():
    status = job(running(lag=4_300, stalled=Stall("broker unreachable", 45.0)), handled=HANDLED, time_ms=NOW)
    found = diagnose(status, growing())
    assert found.text.startswith("Container 0 is stuck")
    assert [each.split(":")[0] for each in found.also] == [
        "Lag grows since 12",
        "2 messages skipped or dead-lettered, the newest 8 s ago",
    ]


def test_several_containers_with_one_cause_are_counted():
    stall = Stall("in process of k.<b>in[0]@5", 45.0)
    found = diagnose(job(*(running(number, stalled=stall) for number in range(3)), time_ms=NOW))
    assert found.text == "Container 0 and 2 more are stuck: in process of k.<b>in[0]@5 for 45 s"
    assert found.command == STATUS, "a part of a name is no place"


def test_a_growing_lag_with_busy_containers_asks_for_more_of_them():
    found = diagnose(job(running(lag=4_300), time_ms=NOW), growing(cpu=0.97))
    assert found.text.endswith("; its containers use all of 1 core: add containers (job.container.count)")


def test_coarse_samples_tell_when_a_lag_began_to_grow_hours_ago():
    coarse = [sample(120 * age, 10 + 1_000 * max(0, 60 - age)) for age in range(179, -1, -1)]
    fine = [sample(age, 60_000 - 8 * age) for age in range(590, -1, -10)]
    found = diagnose(job(running(lag=60_000), time_ms=NOW), fine, coarse)
    assert found.text.startswith("Lag grows since 10:10 UTC: 60,000 now, +8/s")


@pytest.mark.parametrize(("value", "text"), [(8.4, "8 s"), (90, "90 s"), (240, "4 min"), (12_000, "3 h 20 min")])
def test_times_are_in_words(value, text):
    assert seconds(value) == text
