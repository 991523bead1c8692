"""Values of the checkpoint topic's records (and of checkpoint files): JSON, one record a task, newest wins.

checkpoint  {"format": 1, "epoch": 7, "time-ms": 1700000000000, "clock": null,
             "inputs": {"kafka.orders[0]": 481}, "changelogs": {"counts": 92},
             "startpoints": {"kafka.orders[0]": "5f0c..."},
             "event-times": {"kafka.orders[0]": 1699999999000},
             "senders": {"kafka.orders[0]": {"shop-1/Partition 0": [1699999999000, 8, false, false]}}}
             "atomic": true}
             (the last four are left out if there are none)
partitions  {"format": 1, "partitions": {"Partition 0": 0}}
owner       {"format": 1, "run": "5f0c...", "started-ms": 1700000000000, "host": "a", "pid": 42,
             "job": ["orders", "1"], "epoch": 1048576, "transactional-ids": ["orders-1-0"], "lease-ms": 0}

`inputs` are the next offsets to process, `changelogs` the last offsets of the commit's changelog records,
`event-times` the latest event time of each input, `senders` the watermark, number,
end and drain of each sender of an intermediate input; either is left out if there are none. The owner is
the run that was started last. The job's other records are JSON objects with a format, too, and their owners' fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from samzapy.api.checkpoint import Checkpoint, JobRun, SenderState
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError

FORMAT = 1


def encode(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as a record value."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "epoch": checkpoint.epoch,
        "time-ms": checkpoint.time_ms,
        "clock": checkpoint.clock,
        "inputs": {str(ssp): offset for ssp, offset in checkpoint.input_offsets.items()},
        "changelogs": dict(checkpoint.changelog_offsets),
    }
    if checkpoint.startpoints:
        data["startpoints"] = {str(ssp): startpoint for ssp, startpoint in checkpoint.startpoints.items()}
    if checkpoint.event_times:
        data["event-times"] = {str(ssp): time for ssp, time in checkpoint.event_times.items()}
    if checkpoint.senders:
        data["senders"] = {
            str(ssp): {name: list(state) for name, state in senders.items()}
            for ssp, senders in checkpoint.senders.items()
        }
    if checkpoint.atomic:
        data["atomic"] = True
    return json.dumps(data).encode()


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint. Raises RestoreError, naming `where`, on anything but format 1."""
    try:
        data = json.loads(value)
        if data["format"] != FORMAT:
            raise RestoreError(f"{where}: checkpoint of format {data['format']}; this version reads format {FORMAT}")
        return Checkpoint(
            {SystemStreamPartition.parse(ssp): int(offset) for ssp, offset in data["inputs"].items()},
            {store: int(offset) for store, offset in data["changelogs"].items()},
            int(data["epoch"]),
            int(data["time-ms"]),
            data["clock"],
            {SystemStreamPartition.parse(ssp): str(name) for ssp, name in data.get("startpoints", {}).items()},
            {SystemStreamPartition.parse(ssp): int(time) for ssp, time in data.get("event-times", {}).items()},
            {
                SystemStreamPartition.parse(ssp): {name: SenderState(*state) for name, state in senders.items()}
                for ssp, senders in data.get("senders", {}).items()
            },
            data.get("atomic", False) is True,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise RestoreError(f"{where}: not a checkpoint ({type(cause).__name__}: {cause}): {value[:80]!r}") from cause


def encode_partitions(partitions: Mapping[str, int]) -> bytes:
    """The mapping of tasks to changelog partitions as a record value."""
    return json.dumps({"format": FORMAT, "partitions": dict(partitions)}).encode()


def decode_partitions(value: bytes, where: str) -> dict[str, int]:
    """The inverse of `encode_partitions`. Raises RestoreError, naming `where`."""
    try:
        return {str(task): int(number) for task, number in json.loads(value)["partitions"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise RestoreError(f"{where}: not a changelog mapping ({cause}): {value[:80]!r}") from cause


def encode_record(value: Mapping[str, Any]) -> bytes:
    """A record of the whole job."""
    return json.dumps({"format": FORMAT, **value}).encode()


def decode_record(value: bytes, where: str) -> dict[str, Any]:
    """The inverse of `encode_record`. Raises RestoreError, naming `where`, for another format or no object."""
    try:
        data = json.loads(value)
        if data.pop("format") == FORMAT:
            return dict(data)
        cause: Exception = ValueError(f"this version reads format {FORMAT}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        cause = error
    raise RestoreError(f"{where}: not a record of this job ({cause}): {value[:80]!r}") from cause


def encode_owner(run: JobRun) -> bytes:
    """The owning run as a record value."""
    return json.dumps(
        {
            "format": FORMAT,
            "run": run.id,
            "started-ms": run.started_ms,
            "host": run.host,
            "pid": run.pid,
            "job": run.job,
            "epoch": run.epoch,
            "transactional-ids": run.transactional_ids,
            "lease-ms": run.lease_ms,
        }
    ).encode()


def decode_owner(value: bytes, where: str) -> JobRun:
    """The inverse of `encode_owner`. Raises RestoreError, naming `where`."""
    try:
        data = json.loads(value)
        job, ids = data.get("job"), data.get("transactional-ids")
        return JobRun(
            str(data["run"]),
            int(data["started-ms"]),
            str(data["host"]),
            int(data["pid"]),
            None if job is None else (str(job[0]), str(job[1])),
            int(data.get("epoch", 0)),
            None if ids is None else tuple(map(str, ids)),
            int(data.get("lease-ms", 0)),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as cause:
        raise RestoreError(f"{where}: not the record of a run ({cause}): {value[:80]!r}") from cause
