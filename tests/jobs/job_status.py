"""Statuses of jobs, and their figures over time."""

from math import sin

from samzapy.coordinator.overview.history import History
from samzapy.coordinator.status import ContainerFailure, ContainerStatus, HandledFailure, JobStatus, RestoredStore
from samzapy.job.lease import PartitionLag, Stall, UserFailure


def container(number, processed=0, partitions=(), lag=0, **more):
    names = [f"kafka.in[{partition}]" for partition in partitions]
    fields = {
        "id": str(number),
        "state": "running",
        "phase": "running",
        "attempts": 1,
        "epoch": 1,
        "processed": processed,
        "commits": 1,
        "remaining": None,
        "restoring": None,
        "positions": dict.fromkeys(names, processed),
        "lags": {name: PartitionLag(processed, processed + lag, lag, 1_000 if lag else 0) for name in names},
    }
    return ContainerStatus(**{**fields, **more})


def job(*containers, **more):
    return JobStatus(name="page-views", seconds=12.0, containers=tuple(containers), **more)


def failed_job():
    user = UserFailure(
        "KeyError", "'user'", "Partition 0", "process of kafka.in[0]@17", "tasks.py:31", "Traceback …\n<b>"
    )
    failure = ContainerFailure("0", 1, "TaskError", "KeyError: '<user>'", 1, user=user)
    return JobStatus(
        name="page-views",
        seconds=12.0,
        containers=(container(0, partitions=[0], stalled=Stall("broker unreachable", 45.0, "a stack")),),
        restored=(RestoredStore("0", "Partition 0/counts", 1, 100, 0.1, "changelog"),),
        failures=(failure,),
        failed=1,
    )


#: 2026-11-28 12:10 UTC.
NOON_MS = 1_795_867_800_000
STACK = """Traceback (most recent call last):
  File "/opt/shop/tasks.py", line 31, in process
    total = message["price"] * message["amount"]
TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'"""


def skipped(offset, age_s, handled="skipped"):
    where = f"process of kafka.in[3]@{offset}"
    about = "unsupported operand type(s) for *: 'int' and 'NoneType'"
    place = ("kafka.in[3]", offset, offset, handled, NOON_MS - round(1_000 * age_s))
    return HandledFailure(
        "1", UserFailure("TypeError", about, "Partition 3", where, "tasks.py:31", STACK, *place), age_s
    )


def figures(cpu_s=100.0, second=0):
    """What a report has of the process, and of its last ten seconds, in which commits get slower and quicker."""
    steps = {"serialize": 0.002, "outputs": 0.012, "changelog": 0.023 + 0.02 * sin(second / 300)}
    recent = {"busy": 0.42, "p50": 0.0001, "p99": 0.005, **steps, "checkpoint": 0.03, "stores": 0.004}
    return {"container": {"cpu-s": cpu_s, "resident-bytes": 180_000_000.0}, "recent": recent}


def working(number, partitions, lag=4, **more):
    fields = {"metrics": figures(), "measured_at": 97.0, **more}
    return container(number, 1_234_567, partitions, lag=lag, **fields)


def working_job(*containers, **more):
    each = containers or (working(0, range(2)), working(1, range(2, 4)))
    return job(*each, **{"time_ms": NOON_MS, "at": 100.0, **more})


def job_that_skips():
    counts = {"errors.process.skipped": 37}
    return working_job(handled=tuple(skipped(number, 370.0 - 10 * number) for number in range(37)), counts=counts)


def six_hours(lag_of=lambda second: 40):
    """The figures of a job that began six hours before noon, and had a restart 200 s before it."""
    history, processed, cpu_s = History(), 0, 0.0
    for second in range(-21_600, 1, 10):
        processed += round(10 * (3_000 + 800 * sin(second / 900) + 200 * sin(second / 41)))
        cpu_s += 6 + sin(second / 900)
        attempts = 2 if second > -200 else 1
        each = container(0, processed, [0], lag=lag_of(second), attempts=attempts, metrics=figures(cpu_s, second))
        history.note(job(each, time_ms=NOON_MS + 1_000 * second, at=float(second)))
    return history
