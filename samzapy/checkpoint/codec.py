"""Values of the checkpoint topic's records (and of checkpoint files): JSON, one record a task, newest wins.

checkpoint  {"format": 1, "epoch": 7, "time-ms": 1700000000000, "clock": null,
             "inputs": {"kafka.orders[0]": 481}, "changelogs": {"counts": 92},
             "startpoints": {"kafka.orders[0]": "5f0c..."},
             "event-times": {"kafka.orders[0]": 1699999999000},
             "senders": {"kafka.orders[0]": {"shop-1/Partition 0": [1699999999000, 8, false, false]}},
             "atomic": true, "serdes": {"counts": ["string", "json"]},
             "held-by": "kafka.orders[0] (sender shop-1/Partition 0)", "idle": ["kafka.orders[1]"]}
             (the last seven are left out if there are none)
partitions  {"format": 1, "partitions": {"Partition 0": 0}}
owner       {"format": 1, "run": "5f0c...", "started-ms": 1700000000000, "host": "a", "pid": 42,
             "job": ["orders", "1"], "epoch": 1048576, "transactional-ids": ["orders-1-0"], "lease-ms": 0}

`inputs` are the next offsets to process, `changelogs` the last offsets of the commit's changelog records,
`event-times` the latest event time of each input, `senders` the watermark, number,
end and drain of each sender of an intermediate input, `serdes` what each store's keys and values are written with.
`held-by` names the source that held the task's clock back, `idle` those that were idle or had ended: no run reads them.
The owner is the run that was started last. The job's other records are JSON objects with a format, too, and their
owners' fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from samzapy.api.checkpoint import Checkpoint, JobRun, SenderState
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import check_format, flag, listed, mapping, parsed, text, whole

T = TypeVar("T")

FORMAT = 1
#: Event times may be before 1970.
_FIRST_MS = -(2**63)


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
    if checkpoint.serdes:
        data["serdes"] = {store: list(pair) for store, pair in checkpoint.serdes.items()}
    if checkpoint.held_by:
        data["held-by"] = checkpoint.held_by
    if checkpoint.idle:
        data["idle"] = list(checkpoint.idle)
    return json.dumps(data).encode()


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint. Raises RestoreError, naming `where`, on anything but format 1."""
    with _named(where, "not a checkpoint", value):
        data = parsed(value)
        check_format(data, FORMAT)
        return Checkpoint(
            _by_partition(data["inputs"], whole),
            {store: whole(offset, -1) for store, offset in mapping(data["changelogs"]).items()},
            whole(data["epoch"]),
            whole(data["time-ms"]),
            _time(data["clock"]),
            _by_partition(data.get("startpoints", {}), text),
            _by_partition(data.get("event-times", {}), _some_time),
            _by_partition(data.get("senders", {}), _senders),
            flag(data.get("atomic", False)),
            {store: _serdes(pair) for store, pair in mapping(data.get("serdes", {})).items()},
            text(data.get("held-by", "")),
            tuple(map(text, listed(data.get("idle", [])))),
        )


def _by_partition(value: object, read: Callable[[Any], T]) -> dict[SystemStreamPartition, T]:
    return {SystemStreamPartition.parse(ssp): read(each) for ssp, each in mapping(value).items()}


def _some_time(value: object) -> int:
    return whole(value, _FIRST_MS)


def _time(value: object) -> int | None:
    return None if value is None else _some_time(value)


def _senders(value: object) -> dict[str, SenderState]:
    return {name: _sender(*listed(state)) for name, state in mapping(value).items()}


def _sender(time_ms: object, senders: object, ended: object = False, drained: object = False) -> SenderState:
    return SenderState(_time(time_ms), whole(senders), flag(ended), flag(drained))


def _serdes(pair: object) -> tuple[str, str]:
    key, message = listed(pair)
    return text(key), text(message)


def encode_partitions(partitions: Mapping[str, int]) -> bytes:
    """The mapping of tasks to changelog partitions as a record value."""
    return json.dumps({"format": FORMAT, "partitions": dict(partitions)}).encode()


def decode_partitions(value: bytes, where: str) -> dict[str, int]:
    """The inverse of `encode_partitions`. Raises RestoreError, naming `where`."""
    with _named(where, "not a changelog mapping", value):
        data = parsed(value)
        check_format(data, FORMAT)
        return {task: whole(number) for task, number in mapping(data["partitions"]).items()}


def encode_record(value: Mapping[str, Any]) -> bytes:
    """A record of the whole job."""
    return json.dumps({"format": FORMAT, **value}).encode()


def decode_record(value: bytes, where: str) -> dict[str, Any]:
    """The inverse of `encode_record`. Raises RestoreError, naming `where`, for another format or no object."""
    with _named(where, "not a record of this job", value):
        data = parsed(value)
        check_format(data, FORMAT)
        del data["format"]
        return data


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
    with _named(where, "not the record of a run", value):
        data = parsed(value)
        check_format(data, FORMAT)
        ids = data.get("transactional-ids")
        return JobRun(
            text(data["run"]),
            whole(data["started-ms"]),
            text(data["host"]),
            whole(data["pid"]),
            _job(data.get("job")),
            whole(data.get("epoch", 0)),
            None if ids is None else tuple(map(text, listed(ids))),
            whole(data.get("lease-ms", 0)),
        )


def _job(value: object) -> tuple[str, str] | None:
    if value is None:
        return None
    name, job_id = listed(value)
    return text(name), text(job_id)


@contextmanager
def _named(where: str, what: str, value: bytes) -> Iterator[None]:
    """Anything that is wrong with a record as a RestoreError."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as cause:
        raise RestoreError(f"{where}: {what} ({type(cause).__name__}: {cause}): {value[:80]!r}") from cause
