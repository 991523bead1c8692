"""Names and partition counts in, job model out.

Task names and changelog partitions depend on the inputs alone, never on the container count, so a job may be given
more or fewer containers and every task finds its state again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.config.tasks.task import BROADCAST_INPUTS, INPUTS
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.job.expansion import InputPartitions, home, is_late
from samzapy.job.groupers import GROUPERS, Groups
from samzapy.job.model import ContainerModel, JobModel, TaskModel, standby_id


def plan(
    config: JobConfig,
    partitions: Mapping[SystemStream, int],
    previous: Mapping[str, int] | None = None,
    known: Mapping[SystemStream, InputPartitions] | None = None,
) -> JobModel:
    """Group the inputs' partitions into tasks and the tasks into at most `job.container.count` containers.

    `partitions` gives the partition count of every input (broadcast inputs need none). `previous` is the changelog
    partition of every task that had one before; those are kept, new tasks get the numbers after the largest.
    `known` says which inputs have grown (`follow_growth`). Raises EnvironmentFailure for one that grew out of a broadcast
    partition, ConfigError if there is nothing to make a task of.
    """
    inputs = [
        SystemStreamPartition(stream.system, stream.stream, number)
        for stream in config.task.inputs
        for number in range(partitions[stream])
    ]
    broadcast = config.task.broadcast_inputs
    groups = _grouped(config, [ssp for ssp in inputs if ssp not in broadcast], known or {})
    if not groups:
        raise ConfigError([_no_task(inputs)])
    owned = changelog_partitions(groups, previous or {})
    late = {ssp for ssp in inputs if is_late(ssp, known or {})}
    tasks = [TaskModel(name, ssps | broadcast, owned[name], ssps & late) for name, ssps in groups.items()]
    tasks.sort(key=lambda task: task.changelog_partition)
    count = max(1, min(config.container_count, len(tasks)))
    containers = tuple(ContainerModel(str(i), tuple(tasks[i::count]), len(tasks)) for i in range(count))
    return JobModel(containers, _standbys(config, containers))


def _no_task(inputs: Sequence[SystemStreamPartition]) -> ConfigProblem:
    if not inputs:
        return ConfigProblem(
            INPUTS.name, None, "expected an input with partitions: they have none, so there is no task"
        )
    return ConfigProblem(
        BROADCAST_INPUTS.name, None, f"takes every partition of {INPUTS.name}, so there is no task: leave one out"
    )


def _standbys(config: JobConfig, containers: Sequence[ContainerModel]) -> tuple[ContainerModel, ...]:
    if not keeps_state(config):
        return ()
    replicas = range(1, config.placement.copies)
    return tuple(ContainerModel(standby_id(c.id, replica), c.tasks) for c in containers for replica in replicas)


def _grouped(
    config: JobConfig, inputs: Sequence[SystemStreamPartition], known: Mapping[SystemStream, InputPartitions]
) -> Groups:
    """The grouper's tasks, and with each the partitions that came to its own by an expansion."""
    homes = {ssp: home(ssp, known) for ssp in inputs}
    groups = GROUPERS[config.grouper](ssp for ssp in inputs if homes[ssp] == ssp)
    task_of = {ssp: name for name, ssps in groups.items() for ssp in ssps}
    joined: dict[str, set[SystemStreamPartition]] = defaultdict(set)
    for ssp, at in homes.items():
        if at not in task_of:
            raise EnvironmentFailure(
                f"{ssp}: its keys belong to {at}, which is in task.broadcast.inputs and forms no task"
            )
        joined[task_of[at]].add(ssp)
    return {name: ssps | joined[name] for name, ssps in groups.items()}


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


def keeps_state(config: JobConfig) -> bool:
    """Whether the job's tasks have state that outlives them."""
    return any(store.changelog is not None for store in config.stores.values())


def changelog_partition_count(model: JobModel) -> int:
    """How many partitions the job's changelogs need."""
    return max((task.changelog_partition for task in model.tasks), default=-1) + 1
