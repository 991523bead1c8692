"""Whether messages of equal keys of different inputs come to the same task."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.stream import SystemStream
from samzapy.api.task import AnyTask, CopartitionedTask
from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure
from samzapy.job.expansion import InputPartitions


def parted(config: JobConfig, inputs: Mapping[SystemStream, InputPartitions]) -> str | None:
    """What keeps equal keys apart, in a sentence; None if they meet. Broadcast inputs meet everything.

    Counts are those that the tasks are grouped by: an input that has grown since brings its keys to the old tasks.
    """
    counts = {stream: inputs[stream].grouped for stream in config.task.inputs}
    shown = " ".join(f"{stream}={count}" for stream, count in counts.items())
    if config.grouper == "partition" and len(set(counts.values())) > 1:
        return f"partition counts differ: {shown}; messages of equal keys do not meet in one task"
    if config.grouper == "ssp" and len(counts) > 1:
        return f"each partition is a task of its own: {shown}; messages of different inputs do not meet in one task"
    return None


def check_copartitioned(
    config: JobConfig, inputs: Mapping[SystemStream, InputPartitions], task_class: type[AnyTask]
) -> None:
    """Raise EnvironmentFailure if the task joins its inputs and their keys do not meet."""
    if issubclass(task_class, CopartitionedTask) and (apart := parted(config, inputs)):
        raise EnvironmentFailure(f"task.inputs: {apart}, and {task_class.__name__} joins them")
