"""Encodes the values of checkpoint records and files: JSON, one record for each task; the newest counts.

checkpoint  {"format": 1, "epoch": 7, "time-ms": 1700000000000, "clock": null,
             "inputs": {"kafka.orders[0]": 481}, "changelogs": {"counts": 92},
             "startpoints": {"kafka.orders[0]": "5f0c..."},
             "event-times": {"kafka.orders[0]": 1699999999000},
             "senders": {"kafka.orders[0]": {"shop-1/Partition 0": [1699999999000, 8, false, false]}},
             "atomic": true, "serdes": {"counts": ["string", "json"]}, "input-ids": {"kafka.orders": "Xq3..."},
             "held-by": "kafka.orders[0] (sender shop-1/Partition 0)", "idle": ["kafka.orders[1]"],
             "told": 1699999998000, "ended-in": "5f0c...", "leader-epochs": {"kafka.orders[0]": 3}}
             (the last eleven are left out if they are empty)
partitions  {"format": 1, "partitions": {"Partition 0": 0}}
owner       {"format": 1, "run": "5f0c...", "started-ms": 1700000000000, "host": "a", "pid": 42,
             "job": ["orders", "1"], "epoch": 1048576, "transactional-ids": ["orders-1-0"], "lease-ms": 0,
             "born": 8123, "boot": "1b4e..."}

1. `inputs` are the next offsets to process, `changelogs` the last offsets of the commit's changelog records.
2. `event-times` are the latest event times of the inputs. `senders` gives the watermark, number, end and drain of each
   sender of an intermediate input. `serdes` names the serdes of each store's keys and values. `input-ids` are the ids
   of the streams that the offsets are of: a stream that is deleted and created again has another id. `leader-epochs`
   are the leader epochs in which the positions were read: a log that has lost records before a position does not have
   it in that epoch.
3. `held-by` names the source that held the task's clock back, `idle` the sources that were idle or had ended. No run
   reads them. `told` is the last watermark that `on_watermark` was called with, -1 for none. `ended-in` is the run in
   which `on_end_of_stream` or `on_drain` was called at these offsets.
4. The owner is the run that was started last.
5. Every other record of a job is a JSON object with a format and its own fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import msgspec

from samzapy.api.checkpoint import Checkpoint, JobRun, SenderState
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import LastOffset, Moment, Natural, Time
from samzapy.strict_json import decode as decode_json
from samzapy.strict_json import encode as encode_json

T = TypeVar("T")

FORMAT = 1


class _Sender(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    time_ms: Time | None
    senders: Natural
    ended: bool = False
    drained: bool = False


class _Checkpoint(msgspec.Struct, rename="kebab", omit_defaults=True):
    format: int
    epoch: Natural
    time_ms: Moment
    clock: Time | None
    inputs: dict[str, Natural]
    changelogs: dict[str, LastOffset]
    startpoints: dict[str, str] = {}
    event_times: dict[str, Time] = {}
    senders: dict[str, dict[str, _Sender]] = {}
    atomic: bool = False
    serdes: dict[str, tuple[str, str]] = {}
    input_ids: dict[str, str] = {}
    held_by: str = ""
    idle: tuple[str, ...] = ()
    told: Time | None = None
    ended_in: str = ""
    leader_epochs: dict[str, Natural] = {}


class _Partitions(msgspec.Struct):
    format: int
    #: A partition's number has 32 bits.
    partitions: dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]]


class _Owner(msgspec.Struct, rename="kebab"):
    format: int
    run: str
    started_ms: Moment
    host: str
    pid: Natural
    job: tuple[str, str] | None = None
    epoch: Natural = 0
    transactional_ids: tuple[str, ...] | None = None
    #: The next run waits as long, so there is a bound: a day, which no job file's exceeds.
    lease_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = 0
    born: Natural = 0
    boot: str = ""


def encode(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as a record value."""
    return encode_json(
        _Checkpoint(
            FORMAT,
            checkpoint.epoch,
            checkpoint.time_ms,
            checkpoint.clock,
            _by_text(checkpoint.input_offsets),
            dict(checkpoint.changelog_offsets),
            _by_text(checkpoint.startpoints),
            _by_text(checkpoint.event_times),
            {
                str(ssp): {name: _Sender(*state) for name, state in senders.items()}
                for ssp, senders in checkpoint.senders.items()
            },
            checkpoint.atomic,
            dict(checkpoint.serdes),
            {str(stream): each for stream, each in checkpoint.input_ids.items()},
            checkpoint.held_by,
            checkpoint.idle,
            checkpoint.told,
            checkpoint.ended_in,
            _by_text(checkpoint.leader_epochs),
        )
    )


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint. Raises RestoreError, naming `where`, on anything but format 1."""
    with _named(where, "not a checkpoint", value):
        read = decode_json(_Checkpoint, value, FORMAT)
        return Checkpoint(
            _by_partition(read.inputs),
            read.changelogs,
            read.epoch,
            read.time_ms,
            read.clock,
            _by_partition(read.startpoints),
            _by_partition(read.event_times),
            {
                ssp: {name: SenderState(*msgspec.structs.astuple(state)) for name, state in senders.items()}
                for ssp, senders in _by_partition(read.senders).items()
            },
            read.atomic,
            read.serdes,
            {SystemStream.parse(stream): each for stream, each in read.input_ids.items()},
            read.held_by,
            read.idle,
            read.told,
            read.ended_in,
            _by_partition(read.leader_epochs),
        )


def encode_partitions(partitions: Mapping[str, int]) -> bytes:
    """The mapping of tasks to changelog partitions as a record value."""
    return encode_json(_Partitions(FORMAT, dict(partitions)))


def decode_partitions(value: bytes, where: str) -> dict[str, int]:
    """The inverse of `encode_partitions`. Raises RestoreError, naming `where`, also for two tasks with one partition:
    the state of one would become the other's."""
    with _named(where, "not a changelog mapping", value):
        found = decode_json(_Partitions, value, FORMAT).partitions
        owners: dict[int, str] = {}
        for task, number in found.items():
            if owners.setdefault(number, task) != task:
                raise ValueError(f"{owners[number]} and {task} have one partition, {number}")
        return found


def encode_record(value: Mapping[str, Any]) -> bytes:
    """A record of the whole job."""
    return encode_json({"format": FORMAT, **value})


def decode_record(value: bytes, where: str) -> dict[str, Any]:
    """The inverse of `encode_record`. Raises RestoreError, naming `where`, for another format or no object."""
    with _named(where, "not a record of this job", value):
        read: dict[str, Any] = decode_json(dict[str, Any], value, FORMAT)
        del read["format"]
        return read


def encode_owner(run: JobRun) -> bytes:
    """The owning run as a record value."""
    return encode_json(
        _Owner(
            FORMAT,
            run.id,
            run.started_ms,
            run.host,
            run.pid,
            run.job,
            run.epoch,
            run.transactional_ids,
            run.lease_ms,
            run.born,
            run.boot,
        )
    )


def decode_owner(value: bytes, where: str) -> JobRun:
    """The inverse of `encode_owner`. Raises RestoreError, naming `where`."""
    with _named(where, "not the record of a run", value):
        _, *fields = msgspec.structs.astuple(decode_json(_Owner, value, FORMAT))
        return JobRun(*fields)


def _by_text(values: Mapping[SystemStreamPartition, T]) -> dict[str, T]:
    return {str(ssp): value for ssp, value in values.items()}


def _by_partition(values: Mapping[str, T]) -> dict[SystemStreamPartition, T]:
    return {SystemStreamPartition.parse(ssp): value for ssp, value in values.items()}


@contextmanager
def _named(where: str, what: str, value: bytes) -> Iterator[None]:
    """Raise a RestoreError with place and bytes for every defect of a record."""
    try:
        yield
    except ValueError as cause:
        raise RestoreError(f"{where}: {what} ({cause}): {value[:80]!r}") from cause
