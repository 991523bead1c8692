"""Models of jobs, for tests that look at the coordinator."""

from samzapy.api.stream import SystemStreamPartition
from samzapy.job.planner import ContainerModel, JobModel, TaskModel


def job_model(containers=1, system="m"):
    """A job with a task in each container, which reads one partition of the stream `in`."""
    tasks = [
        TaskModel(f"Partition {n}", frozenset({SystemStreamPartition(system, "in", n)}), n) for n in range(containers)
    ]
    return JobModel(tuple(ContainerModel(str(n), (task,)) for n, task in enumerate(tasks)))
