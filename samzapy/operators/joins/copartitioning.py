"""Equal keys meet in one task only if the inputs have the same partitions there."""

from __future__ import annotations

from collections.abc import Sequence

from samzapy.api.context import Context
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import EnvironmentFailure


def sides(context: Context, streams: Sequence[SystemStream]) -> dict[SystemStreamPartition, int]:
    """The place in `streams` of each partition that the task reads of them.

    Raises EnvironmentFailure if the task reads no partition of one: some task does if the inputs' partition counts
    differ, and equal keys are in different tasks then. (A `CopartitionedTask` is refused before it starts.)
    """
    task = context.task
    found = {ssp: streams.index(ssp.system_stream) for ssp in sorted(task.ssps) if ssp.system_stream in streams}
    for place, stream in enumerate(streams):
        if place not in found.values():
            read = ", ".join(map(str, found)) or "none of the joined inputs"
            raise EnvironmentFailure(
                f"{task.task_name}: joins {' with '.join(map(str, streams))}, and reads no partition of {stream} "
                f"(it reads {read}): joined inputs must be in task.inputs with the same number of partitions each"
            )
    return found


def key_of(key: object) -> str:
    """The key of a message that is to be joined. Raises ValueError for one that is no string."""
    if type(key) is not str:
        raise ValueError(f"a join needs a string as key, got {key!r:.100}")
    return key
