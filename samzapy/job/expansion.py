"""Follows inputs that got more partitions while their job keeps state: Samza's rule (SEP-5).

A key's state lies with the task of `hash(key) % count`. If the count becomes a multiple of what it was, the messages of
partition `p` are those that `p % old count` would have got: so the new partitions go to the old tasks, and no state has to
move. Any other count would send keys to tasks that do not know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import EnvironmentFailure, RestoreError
from samzapy.strict_json import Natural, convert


@dataclass(frozen=True)
class InputPartitions:
    """The partition count of an input: when the job `first` read it, the one its tasks are `grouped` by, and the `last`
    one. Partitions beyond the first count are new to the job, so it reads them from their beginning."""

    first: Natural
    grouped: Natural
    last: Natural

    @property
    def expanded(self) -> bool:
        """Whether there are partitions that form no tasks of their own."""
        return self.last > self.grouped


def follow_growth(
    known: Mapping[SystemStream, InputPartitions], counts: Mapping[SystemStream, int], *, keeps_state: bool
) -> dict[SystemStream, InputPartitions]:
    """The partition counts of every input that the job ever had, now that its inputs have these `counts`.

    A job that `keeps_state` keeps its tasks, and so does one that has expanded before. Raises EnvironmentFailure for a
    count that is no multiple of the one that the tasks are grouped by.
    """
    now = dict(known)
    for stream, count in counts.items():
        before = known.get(stream)
        if before is None:
            now[stream] = InputPartitions(count, count, count)
            continue
        grouped = before.grouped if keeps_state or before.expanded else count
        if count % grouped:
            raise EnvironmentFailure(
                f"{stream} has {count} partitions, the job's state is by {grouped}: expected {grouped} or a multiple of it, "
                "which leaves every key with its task; for any other count start a new job (job.id), or delete the "
                "checkpoint topic and the changelogs"
            )
        now[stream] = InputPartitions(min(before.first, count), grouped, count)
    return now


def home(ssp: SystemStreamPartition, inputs: Mapping[SystemStream, InputPartitions]) -> SystemStreamPartition:
    """The partition that shares its task with `ssp`: itself, unless it came with an expansion."""
    known = inputs.get(ssp.system_stream)
    if known is None or ssp.partition < known.grouped:
        return ssp
    return SystemStreamPartition(ssp.system, ssp.stream, ssp.partition % known.grouped)


def is_late(ssp: SystemStreamPartition, inputs: Mapping[SystemStream, InputPartitions]) -> bool:
    """Whether the partition came after the job's first start."""
    known = inputs.get(ssp.system_stream)
    return known is not None and ssp.partition >= known.first


def growth(inputs: Mapping[SystemStream, InputPartitions], of: Iterable[SystemStream]) -> Iterable[str]:
    """One line for each input that has expanded."""
    for stream in of:
        known = inputs[stream]
        if known.expanded:
            yield (
                f"{stream}: has grown from {known.grouped} to {known.last} partitions; partition p is read by the task of "
                f"p % {known.grouped}, where its keys' state is"
            )


class _Record(msgspec.Struct):
    inputs: dict[str, InputPartitions]


def to_json(inputs: Mapping[SystemStream, InputPartitions]) -> dict[str, Any]:
    """As a record beside the checkpoints."""
    record = _Record({str(stream): known for stream, known in sorted(inputs.items())})
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def from_json(data: Mapping[str, Any] | None) -> dict[SystemStream, InputPartitions]:
    """The inverse of `to_json`; nothing for None. Raises RestoreError."""
    if data is None:
        return {}
    try:
        return {SystemStream.parse(text): known for text, known in convert(_Record, data).inputs.items()}
    except ValueError as cause:
        raise RestoreError(f"the job's record of its inputs cannot be read ({cause})") from cause
