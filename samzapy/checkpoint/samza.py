"""Shares the checkpoint topic with JVM Samza: record keys in its form, and checkpoints of its version 1.

A key has Samza's fields, so that either side can read a topic that the other wrote to. Its type names the kind of the
value. A reader skips types that it does not know; Samza does so, too.

    {"systemstreampartition-grouper-factory": "org.apache...GroupByPartitionFactory", "taskName": "Partition 0",
     "type": "samzapy-checkpoint"}

A version 1 checkpoint maps inputs to offsets:

    {"SystemStreamPartition [kafka, orders, 0]":
        {"system": "kafka", "stream": "orders", "partition": "0", "offset": "480"}, ...}

1. Samza's offset is that of the last processed message.
2. The changelogs stand between the inputs, with an offset that begins with a checkpoint id (`1795242216838-360361:23`).
   They are left out, because a restore here reads a changelog to its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from samzapy.api.checkpoint import Checkpoint, JobRecord
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import mapping, parsed, text, whole

_GROUPER = "systemstreampartition-grouper-factory"
_PACKAGE = "org.apache.samza.container.grouper.stream."
#: Samza's factories by our groupers' names. A reader refuses records of another grouper, whose tasks are others.
_FACTORIES = {
    "partition": _PACKAGE + "GroupByPartitionFactory",
    "ssp": _PACKAGE + "GroupBySystemStreamPartitionFactory",
    "single": _PACKAGE + "AllSspToSingleTaskGrouperFactory",
}


class Kind(Enum):
    """What a record says."""

    CHECKPOINT = "samzapy-checkpoint"
    PARTITIONS = "samzapy-changelog-partitions"
    """Which changelog partition each task owns: one record."""
    OWNER = "samzapy-owner"
    """Which run was started last: one record."""
    INPUTS = JobRecord.INPUTS.value
    LOCALITY = JobRecord.LOCALITY.value
    CLOCK = JobRecord.CLOCK.value
    STARTPOINTS = JobRecord.STARTPOINTS.value
    DRAIN = JobRecord.DRAIN.value
    ENDED = JobRecord.ENDED.value
    ADOPTED = JobRecord.ADOPTED.value
    SAMZA_CHECKPOINT = "checkpoint"
    """A task's checkpoint as Samza's version 1 has it."""


_KINDS = {kind.value: kind for kind in Kind}


class RecordKey(NamedTuple):
    """`task` is empty for what concerns the whole job."""

    kind: Kind
    task: str = ""


def encode_key(key: RecordKey, grouper: str) -> bytes:
    """The key's bytes; for Samza's kind those that Samza writes, or compaction would keep both."""
    data = {_GROUPER: _FACTORIES[grouper], "taskName": key.task, "type": key.kind.value}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def decode_key(key: bytes | None, grouper: str, where: str) -> RecordKey | None:
    """What a record is about; None for kinds that are not ours to read.

    Raises RestoreError if the job that wrote it grouped its inputs differently.
    """
    try:
        data = json.loads(key or b"")
    except (ValueError, RecursionError):
        return None
    kind = _KINDS.get(str(data.get("type"))) if isinstance(data, dict) else None
    if kind is None:
        return None
    found = data.get(_GROUPER)
    if found != _FACTORIES[grouper]:
        raise RestoreError(
            f"{where}: the checkpoint was written with job.systemstreampartition.grouper.factory={found}, "
            f"this job has {_FACTORIES[grouper]}"
        )
    return RecordKey(kind, str(data.get("taskName", "")))


@dataclass(frozen=True)
class SamzaRecords:
    """How a job shares its topic with JVM Samza: the records name its `grouper`; Samza's own are written if `write`."""

    grouper: str = "partition"
    write: bool = False


def encode(checkpoint: Checkpoint) -> bytes:
    """The input offsets as Samza's record value; an input of which nothing was processed is left out, as there."""
    return json.dumps(
        {
            f"SystemStreamPartition [{ssp.system}, {ssp.stream}, {ssp.partition}]": {
                "system": ssp.system,
                "partition": str(ssp.partition),
                "offset": str(upcoming - 1),
                "stream": ssp.stream,
            }
            for ssp, upcoming in checkpoint.input_offsets.items()
            if upcoming > 0
        },
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint of epoch 0. Raises RestoreError, naming `where`."""
    try:
        entries = map(mapping, parsed(value).values())
        return Checkpoint(
            {
                SystemStreamPartition(text(entry["system"]), text(entry["stream"]), _number(entry["partition"])): (
                    _number(offset) + 1
                )
                for entry in entries
                if (offset := entry["offset"]) is not None and ":" not in text(offset)
            },
            {},
            0,
            0,
            None,
        )
    except (ValueError, KeyError) as cause:
        shown = f"{type(cause).__name__}: {cause}): {value[:80]!r}"
        raise RestoreError(f"{where}: not a version 1 checkpoint of Samza ({shown}") from cause


def _number(digits: object) -> int:
    return whole(int(text(digits)))
