"""Startpoints of Samza's SEP-18: they make partitions start elsewhere than at the committed offset.

1. An operator writes one at any time, also while the job runs. The next start follows it, once. It is void after twelve
   hours.
2. Samza deletes a startpoint after a commit. Here that commit names the startpoints that it followed, so a crash neither
   follows one twice nor loses it.

{"format": 1, "startpoints": [{"id": "5f0c...", "input": "kafka.orders[0]", "position": "@1700000000000",
                               "created-ms": 1700000000000, "task": null}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import Natural, convert

#: How long one is good for, as in Samza.
EXPIRY_MS = 12 * 3_600_000


@dataclass(frozen=True)
class Startpoint:
    """`position` is what `Target` takes; `task` None: every task that reads the partition."""

    id: str
    ssp: SystemStreamPartition
    position: str
    created_ms: int
    task: str | None = None

    def expired(self, now_ms: int) -> bool:
        """Whether it is void by now."""
        return now_ms - self.created_ms >= EXPIRY_MS


class _Entry(msgspec.Struct, rename="kebab"):
    id: str
    input: str
    position: str
    created_ms: Natural
    task: str | None


class _Record(msgspec.Struct):
    startpoints: list[_Entry]


def to_json(startpoints: Iterable[Startpoint]) -> dict[str, Any]:
    """As a record beside the checkpoints."""
    entries = [_Entry(each.id, str(each.ssp), each.position, each.created_ms, each.task) for each in startpoints]
    record: dict[str, Any] = msgspec.to_builtins(_Record(entries))
    return record


def from_json(data: Mapping[str, Any] | None) -> tuple[Startpoint, ...]:
    """The inverse; none for None. Raises RestoreError."""
    if data is None:
        return ()
    try:
        return tuple(
            Startpoint(each.id, SystemStreamPartition.parse(each.input), each.position, each.created_ms, each.task)
            for each in convert(_Record, data).startpoints
        )
    except ValueError as cause:
        raise RestoreError(f"the job's record of its startpoints cannot be read ({cause})") from cause


def is_followed(startpoint: Startpoint, checkpoint: Checkpoint | None) -> bool:
    """Whether the task of that checkpoint has committed that it has followed it."""
    return checkpoint is not None and checkpoint.startpoints.get(startpoint.ssp) == startpoint.id


def pending(
    startpoints: Sequence[Startpoint],
    task: str,
    ssps: Iterable[SystemStreamPartition],
    checkpoint: Checkpoint | None,
    now_ms: int,
) -> dict[SystemStreamPartition, Startpoint]:
    """The startpoints to follow at the task's start: of each partition the newest, one for this task before one for all."""
    own = set(ssps)
    chosen: dict[SystemStreamPartition, Startpoint] = {}
    for each in sorted(startpoints, key=lambda each: (each.task is not None, each.created_ms)):
        if each.ssp in own and each.task in {None, task} and not each.expired(now_ms):
            chosen[each.ssp] = each
    return {ssp: each for ssp, each in chosen.items() if not is_followed(each, checkpoint)}
