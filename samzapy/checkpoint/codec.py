"""Encodes the records of a checkpoint topic, or of checkpoint files. Of the records of one key the newest counts.

A record key has Samza's fields, so that JVM Samza and samzapy can read a topic that the other wrote to. Its type names
the kind of the value. A reader skips types that it does not know; Samza does so, too.

    {"systemstreampartition-grouper-factory": "org.apache...GroupByPartitionFactory", "taskName": "Partition 0",
     "type": "samzapy-checkpoint"}

The values are JSON:

checkpoint  {"format": 1, "epoch": 7, "time-ms": 1700000000000, "clock": null,
             "inputs": {"kafka.orders[0]": 481}, "changelogs": {"counts": 92},
             "startpoints": {"kafka.orders[0]": "5f0c..."},
             "event-times": {"kafka.orders[0]": 1699999999000},
             "senders": {"kafka.orders[0]": {"shop-1/Partition 0": [1699999999000, 8, false, false]}},
             "atomic": true, "serdes": {"counts": ["string", "json"]}, "changelog-ids": {"counts": "b7Y..."},
             "input-ids": {"kafka.orders": "Xq3..."}, "held-by": "kafka.orders[0] (sender shop-1/Partition 0)",
             "idle": ["kafka.orders[1]"], "told": 1699999998000, "ended-in": "5f0c...",
             "leader-epochs": {"kafka.orders[0]": 3}}
             (the fields of `Checkpoint`; the last twelve are left out if they are empty)
partitions  {"format": 1, "partitions": {"Partition 0": 0}}
owner       {"format": 1, "run": "5f0c...", "started-ms": 1700000000000, "host": "a", "pid": 42,
             "job": ["orders", "1"], "epoch": 1048576, "transactional-ids": ["orders-1-0"], "lease-ms": 0,
             "born": 8123, "boot": "1b4e..."}
others      {"format": 1, ...}
Samza's     {"SystemStreamPartition [kafka, orders, 0]":
                {"system": "kafka", "stream": "orders", "partition": "0", "offset": "480"}, ...}

Samza's checkpoint of version 1 has the offset of the last processed message. Changelogs stand between the inputs, with
an offset that begins with a checkpoint id (`1795242216838-360361:23`). They are left out, because a restore here reads
a changelog to its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from samzapy.api.checkpoint import Checkpoint, JobRecord, JobRun, SenderState
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import LastOffset, Moment, Natural, Time, convert
from samzapy.strict_json import decode as decode_json
from samzapy.strict_json import encode as encode_json
from samzapy.strict_json import plain as plain_json

T = TypeVar("T")

FORMAT = 1

#: The kinds of records about one task: samzapy's checkpoint, and the one of Samza's version 1. A `JobRecord` names any
#: other kind.
CHECKPOINT, SAMZA_CHECKPOINT = "samzapy-checkpoint", "checkpoint"
_KINDS = frozenset({CHECKPOINT, SAMZA_CHECKPOINT, *(record.value for record in JobRecord)})

_GROUPER = "systemstreampartition-grouper-factory"
_PACKAGE = "org.apache.samza.container.grouper.stream."
#: Samza's factories by our groupers' names. A reader refuses records of another grouper, because its tasks are others.
_FACTORIES = {
    "partition": _PACKAGE + "GroupByPartitionFactory",
    "ssp": _PACKAGE + "GroupBySystemStreamPartitionFactory",
    "single": _PACKAGE + "AllSspToSingleTaskGrouperFactory",
}


class RecordKey(NamedTuple):
    """`task` is empty for a record of the whole job."""

    kind: str
    task: str = ""


def encode_key(key: RecordKey, grouper: str) -> bytes:
    """The bytes of the key; for Samza's kind the bytes that Samza writes, or compaction would keep both."""
    data = {_GROUPER: _FACTORIES[grouper], "taskName": key.task, "type": key.kind}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def decode_key(key: bytes | None, grouper: str, where: str) -> RecordKey | None:
    """The kind and task of a record; None for unknown kinds.

    Raises RestoreError if the job that wrote it grouped its inputs differently.
    """
    try:
        data = json.loads(key or b"")
    except (ValueError, RecursionError):
        return None
    kind = str(data.get("type")) if isinstance(data, dict) else ""
    if kind not in _KINDS:
        return None
    if data.get(_GROUPER) != _FACTORIES[grouper]:
        raise RestoreError(
            f"{where}: the checkpoint was written with job.systemstreampartition.grouper.factory={data.get(_GROUPER)}, "
            f"this job has {_FACTORIES[grouper]}"
        )
    return RecordKey(kind, str(data.get("taskName", "")))


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
    changelog_ids: dict[str, str] = {}
    input_ids: dict[str, str] = {}
    held_by: str = ""
    idle: tuple[str, ...] = ()
    told: Time | None = None
    ended_in: str = ""
    leader_epochs: dict[str, Natural] = {}


#: The fields that are the same in a `Checkpoint` and its record.
_PLAIN = "epoch", "time_ms", "clock", "atomic", "held_by", "idle", "told", "ended_in", "serdes", "changelog_ids"


class _Partitions(msgspec.Struct):
    #: A partition's number has 32 bits.
    partitions: dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]]


class _Owner(msgspec.Struct, rename="kebab"):
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


class _Input(msgspec.Struct):
    system: str
    partition: str
    offset: str | None
    stream: str


def encode(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as a record value."""
    senders = {
        str(ssp): {name: _Sender(*state) for name, state in known.items()} for ssp, known in checkpoint.senders.items()
    }
    return encode_json(
        _Checkpoint(
            format=FORMAT,
            inputs=_by_text(checkpoint.input_offsets),
            changelogs=dict(checkpoint.changelog_offsets),
            startpoints=_by_text(checkpoint.startpoints),
            event_times=_by_text(checkpoint.event_times),
            senders=senders,
            input_ids=_by_text(checkpoint.input_ids),
            leader_epochs=_by_text(checkpoint.leader_epochs),
            **{name: getattr(checkpoint, name) for name in _PLAIN},
        )
    )


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint. Raises RestoreError, naming `where`, on anything but format 1."""
    with _named(where, "not a checkpoint", value):
        read = decode_json(_Checkpoint, value, FORMAT)
        senders = {
            ssp: {name: SenderState(*msgspec.structs.astuple(state)) for name, state in known.items()}
            for ssp, known in _by_partition(read.senders).items()
        }
        return Checkpoint(
            _by_partition(read.inputs),
            read.changelogs,
            startpoints=_by_partition(read.startpoints),
            event_times=_by_partition(read.event_times),
            senders=senders,
            input_ids={SystemStream.parse(stream): known for stream, known in read.input_ids.items()},
            leader_epochs=_by_partition(read.leader_epochs),
            **{name: getattr(read, name) for name in _PLAIN},
        )


def encode_record(value: Mapping[str, Any]) -> bytes:
    """A record of the whole job as a record value."""
    return encode_json({"format": FORMAT, **value})


def decode_record(value: bytes, where: str, kind: str = "") -> dict[str, Any]:
    """The inverse of `encode_record`. Raises RestoreError, naming `where`, for another format, and for a value that a
    record of this kind cannot have."""
    with _named(where, "not a record of this job", value):
        read: dict[str, Any] = decode_json(dict[str, Any], value, FORMAT)
        del read["format"]
        if kind in _READERS:
            _READERS[kind](read)
        return read


def partitions_of(value: Mapping[str, Any]) -> dict[str, int]:
    """The changelog partition of each task, of the value of their record. Raises ValueError, also for two tasks with
    one partition: the state of one would become the other's."""
    partitions = convert(_Partitions, value).partitions
    owners: dict[int, str] = {}
    for task, number in partitions.items():
        if owners.setdefault(number, task) != task:
            raise ValueError(f"{owners[number]} and {task} have one partition, {number}")
    return partitions


def owner_record(run: JobRun) -> dict[str, Any]:
    """The owning run as the value of its record."""
    fields = {name: getattr(run, name) for name in _Owner.__struct_fields__ if name != "run"}
    record: dict[str, Any] = plain_json(_Owner(run=run.id, **fields))
    return record


def owner_of(value: Mapping[str, Any]) -> JobRun:
    """The inverse of `owner_record`. Raises ValueError."""
    fields = msgspec.structs.asdict(convert(_Owner, value))
    return JobRun(fields.pop("run"), **fields)


#: Readers of records that must not be misread.
_READERS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    JobRecord.PARTITIONS.value: partitions_of,
    JobRecord.OWNER.value: owner_of,
}


def encode_samza(checkpoint: Checkpoint) -> bytes:
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


def decode_samza(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint of epoch 0. Raises RestoreError, naming `where`."""
    with _named(where, "not a version 1 checkpoint of Samza", value):
        entries = decode_json(dict[str, _Input], value).values()
        return Checkpoint(
            {
                SystemStreamPartition(entry.system, entry.stream, _number(entry.partition)): _number(entry.offset) + 1
                for entry in entries
                if entry.offset is not None and ":" not in entry.offset
            }
        )


def _number(digits: str) -> int:
    number = int(digits)
    if not 0 <= number < 2**63:
        raise ValueError(f"expected an integer of at least 0, got {digits[:20]}")
    return number


def _by_text(values: Mapping[Any, T]) -> dict[str, T]:
    return {str(place): value for place, value in values.items()}


def _by_partition(values: Mapping[str, T]) -> dict[SystemStreamPartition, T]:
    return {SystemStreamPartition.parse(ssp): value for ssp, value in values.items()}


@contextmanager
def _named(where: str, what: str, value: bytes) -> Iterator[None]:
    """Raise a RestoreError with place and bytes for every defect of a record."""
    try:
        yield
    except ValueError as cause:
        raise RestoreError(f"{where}: {what} ({cause}): {value[:80]!r}") from cause
