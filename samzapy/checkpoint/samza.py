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

import msgspec

from samzapy.api.checkpoint import Checkpoint, JobRecord
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import decode as decode_json
from samzapy.strict_json import encode as encode_json

_GROUPER = "systemstreampartition-grouper-factory"
_PACKAGE = "org.apache.samza.container.grouper.stream."
#: Samza's factories by our groupers' names. A reader refuses records of another grouper, because its tasks are others.
_FACTORIES = {
    "partition": _PACKAGE + "GroupByPartitionFactory",
    "ssp": _PACKAGE + "GroupBySystemStreamPartitionFactory",
    "single": _PACKAGE + "AllSspToSingleTaskGrouperFactory",
}


class Kind(Enum):
    """The kinds of records."""

    CHECKPOINT = "samzapy-checkpoint"
    PARTITIONS = "samzapy-changelog-partitions"
    """The changelog partition of each task: one record."""
    OWNER = "samzapy-owner"
    """The run that was started last: one record."""
    INPUTS = JobRecord.INPUTS.value
    LOCALITY = JobRecord.LOCALITY.value
    CLOCK = JobRecord.CLOCK.value
    STARTPOINTS = JobRecord.STARTPOINTS.value
    DRAIN = JobRecord.DRAIN.value
    ENDED = JobRecord.ENDED.value
    HANDOVER = JobRecord.HANDOVER.value
    HEARD = JobRecord.HEARD.value
    ADOPTED = JobRecord.ADOPTED.value
    MIGRATION = JobRecord.MIGRATION.value
    SAMZA_CHECKPOINT = "checkpoint"
    """A task's checkpoint as Samza's version 1 has it."""


_KINDS = {kind.value: kind for kind in Kind}


class RecordKey(NamedTuple):
    """`task` is empty for a record of the whole job."""

    kind: Kind
    task: str = ""


def encode_key(key: RecordKey, grouper: str) -> bytes:
    """The key's bytes; for Samza's kind the bytes that Samza writes, or compaction would keep both."""
    data = {_GROUPER: _FACTORIES[grouper], "taskName": key.task, "type": key.kind.value}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def decode_key(key: bytes | None, grouper: str, where: str) -> RecordKey | None:
    """The kind and task of a record; None for unknown kinds.

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
    """The way a job shares its topic with JVM Samza: records name its `grouper`; with `write` it writes Samza's,
    too."""

    grouper: str = "partition"
    write: bool = False


class _Input(msgspec.Struct):
    system: str
    partition: str
    offset: str | None
    stream: str


def encode(checkpoint: Checkpoint) -> bytes:
    """The input offsets as Samza's record value. As in Samza, an input without a processed message is left out."""
    return encode_json(
        {
            f"SystemStreamPartition [{ssp.system}, {ssp.stream}, {ssp.partition}]": _Input(
                ssp.system, str(ssp.partition), str(upcoming - 1), ssp.stream
            )
            for ssp, upcoming in checkpoint.input_offsets.items()
            if upcoming > 0
        }
    )


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint of epoch 0. Raises RestoreError, naming `where`."""
    try:
        entries = decode_json(dict[str, _Input], value).values()
        return Checkpoint(
            {
                SystemStreamPartition(entry.system, entry.stream, _number(entry.partition)): _number(entry.offset) + 1
                for entry in entries
                if entry.offset is not None and ":" not in entry.offset
            }
        )
    except ValueError as cause:
        shown = f"{type(cause).__name__}: {cause}): {value[:80]!r}"
        raise RestoreError(f"{where}: not a version 1 checkpoint of Samza ({shown}") from cause


def _number(digits: str) -> int:
    number = int(digits)
    if not 0 <= number < 2**63:
        raise ValueError(f"expected an integer of at least 0, got {digits[:20]}")
    return number
