"""Checkpoint records of JVM Samza, version 1: what one of its jobs left behind, and what one may go on from.

key    {"systemstreampartition-grouper-factory": "org.apache...GroupByPartitionFactory", "taskName": "Partition 0",
        "type": "checkpoint"}
value  {"SystemStreamPartition [kafka, orders, 0]": {"system": "kafka", "stream": "orders", "partition": "0",
        "offset": "480"}, ...}

Samza's offset is that of the last message processed. Between the inputs stand its changelogs, with an offset that
begins with a checkpoint id (`1795242216838-360361:23`): they are left out, since a restore here reads a changelog to its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError

_TYPE = "checkpoint"
_GROUPER = "systemstreampartition-grouper-factory"
_PACKAGE = "org.apache.samza.container.grouper.stream."
#: Samza's factories by our groupers' names: readers refuse records of another grouper, whose tasks are others.
GROUPERS = {
    "partition": _PACKAGE + "GroupByPartitionFactory",
    "ssp": _PACKAGE + "GroupBySystemStreamPartitionFactory",
    "single": _PACKAGE + "AllSspToSingleTaskGrouperFactory",
}


@dataclass(frozen=True)
class SamzaRecords:
    """What a job does with Samza's records: reads those of its own `grouper`, and writes them if `write`."""

    grouper: str = "partition"
    write: bool = False


def encode_key(task_name: str, grouper: str) -> bytes:
    """The record key of a task's checkpoint; byte for byte Samza's, or compaction would keep both."""
    return _json({_GROUPER: GROUPERS[grouper], "taskName": task_name, "type": _TYPE})


def decode_key(key: bytes, grouper: str, where: str) -> str | None:
    """The task name of a version 1 checkpoint's key; None for keys of any other kind.

    Raises RestoreError if the job that wrote it grouped its inputs differently.
    """
    try:
        data = json.loads(key)
    except ValueError:
        return None
    if not isinstance(data, dict) or data.get("type") != _TYPE or "taskName" not in data:
        return None
    found = data.get(_GROUPER)
    if found != GROUPERS[grouper]:
        raise RestoreError(
            f"{where}: the checkpoint was written with job.systemstreampartition.grouper.factory={found}, "
            f"this job has {GROUPERS[grouper]}"
        )
    return str(data["taskName"])


def encode(checkpoint: Checkpoint) -> bytes:
    """The input offsets as Samza's record value; an input of which nothing was processed is left out, as there."""
    return _json(
        {
            f"SystemStreamPartition [{ssp.system}, {ssp.stream}, {ssp.partition}]": {
                "system": ssp.system,
                "partition": str(ssp.partition),
                "offset": str(upcoming - 1),
                "stream": ssp.stream,
            }
            for ssp, upcoming in checkpoint.input_offsets.items()
            if upcoming > 0
        }
    )


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint of epoch 0. Raises RestoreError, naming `where`."""
    try:
        entries = json.loads(value).values()
        return Checkpoint(
            {
                SystemStreamPartition(entry["system"], entry["stream"], int(entry["partition"])): int(offset) + 1
                for entry in entries
                if (offset := entry["offset"]) is not None and ":" not in offset
            },
            {},
            0,
            0,
            None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        shown = f"{type(cause).__name__}: {cause}): {value[:80]!r}"
        raise RestoreError(f"{where}: not a version 1 checkpoint of Samza ({shown}") from cause


def _json(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
