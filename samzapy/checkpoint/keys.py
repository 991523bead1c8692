"""Keys of the checkpoint topic's records: JVM Samza's fields, so that either side can read a topic the other wrote to.

{"systemstreampartition-grouper-factory": "org.apache...GroupByPartitionFactory", "taskName": "Partition 0",
 "type": "samzapy-checkpoint"}

The type says what the value is; a reader passes over types that it does not know, and Samza does so too.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import NamedTuple

from samzapy.api.checkpoint import JobRecord
from samzapy.errors import RestoreError

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
