"""Statuses of jobs."""

from samzapy.coordinator.status import ContainerFailure, ContainerStatus, JobStatus, RestoredStore
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
