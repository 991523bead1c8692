"""Names and partition counts in, job model out.

Task names and changelog partitions depend on the inputs alone, never on the container count, so a job may be given
more or fewer containers and every task finds its state again.
"""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.job.groupers import GROUPERS
from samzapy.job.model import ContainerModel, JobModel, TaskModel


def plan(
    config: JobConfig, partitions: Mapping[SystemStream, int], previous: Mapping[str, int] | None = None
) -> JobModel:
    """Group the inputs' partitions into tasks and the tasks into at most `job.container.count` containers.

    `partitions` gives the partition count of every input (broadcast inputs need none). `previous` is the changelog
    partition of every task that had one before; those are kept, new tasks get the numbers after the largest.
    """
    inputs = [
        SystemStreamPartition(stream.system, stream.stream, number)
        for stream in config.task.inputs
        for number in range(partitions[stream])
    ]
    broadcast = config.task.broadcast_inputs
    groups = GROUPERS[config.grouper](ssp for ssp in inputs if ssp not in broadcast)
    owned = changelog_partitions(groups, previous or {})
    tasks = [TaskModel(name, ssps | broadcast, owned[name]) for name, ssps in groups.items()]
    tasks.sort(key=lambda task: task.changelog_partition)
    count = max(1, min(config.container_count, len(tasks)))
    return JobModel(tuple(ContainerModel(str(i), tuple(tasks[i::count])) for i in range(count)))


def changelog_partitions(names: Mapping[str, object], previous: Mapping[str, int]) -> dict[str, int]:
    """The changelog partition of each task: the one it had, else the next free number in the order of the names as text.

    That is JVM Samza's order ("Partition 10" before "Partition 2"), so that either finds the other's changelogs.
    """
    owned = {name: previous[name] for name in names if name in previous}
    upcoming = max(previous.values(), default=-1) + 1
    for name in sorted(names):
        if name not in owned:
            owned[name] = upcoming
            upcoming += 1
    return owned


def changelog_partition_count(model: JobModel) -> int:
    """How many partitions the job's changelogs need."""
    return max((task.changelog_partition for task in model.tasks), default=-1) + 1
