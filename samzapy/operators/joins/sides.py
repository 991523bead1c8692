"""The two sides of a join: which partitions belong to which side, the join key, and the joined pair.

Equal keys meet in one task only if the joined inputs have the same partitions there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import EnvironmentFailure
from samzapy.operators.event_time import KEY_REMEDY


class Side(NamedTuple):
    """One message of a joined pair: its event time (ms since 1970) and its value."""

    time_ms: int
    value: Any


class Joined(NamedTuple):
    """Two messages of one key, or a single message without a partner: the other side is None then."""

    key: str
    left: Side | None
    right: Side | None


# The same without the Python frames of the constructors.
side_of: Callable[[tuple[int, Any]], Side] = partial(tuple.__new__, Side)
joined_of: Callable[[tuple[str, Side | None, Side | None]], Joined] = partial(tuple.__new__, Joined)


def sides(context: Context, streams: Sequence[SystemStream]) -> dict[SystemStreamPartition, int]:
    """The place in `streams` of each partition that the task reads of them.

    Raises ValueError for a stream that is named twice, EnvironmentFailure if the task reads no partition of one stream.
    If the partition counts of the inputs differ, some task does not, and equal keys are in different tasks. (A
    `CopartitionedTask` is refused before it starts.)
    """
    task = context.task
    if len(set(streams)) < len(streams):
        raise ValueError(f"{task.task_name}: a join needs different streams, got {' and '.join(map(str, streams))}")
    found = {ssp: streams.index(ssp.system_stream) for ssp in sorted(task.ssps) if ssp.system_stream in streams}
    for place, stream in enumerate(streams):
        if place not in found.values():
            read = ", ".join(map(str, found)) or "none of the joined inputs"
            raise EnvironmentFailure(
                f"{task.task_name}: joins {' with '.join(map(str, streams))}, and reads no partition of {stream} "
                f"(it reads {read}): joined inputs must be in task.inputs with the same number of partitions each"
            )
    return found


def key_of(envelope: IncomingMessageEnvelope) -> str:
    """The join key of a message. Raises ValueError for a key that is not a string."""
    key: object = envelope.key
    if type(key) is not str:
        raise ValueError(f"{envelope.position}: a join needs a string as key, got {key!r:.100}{KEY_REMEDY}")
    return key
