"""Keeps the checkpoints of tasks' own states, in a compacted topic.

All states of a task are in one partition, chosen by the CRC-32 of its name. A state is cut to records of half a
megabyte, because most brokers take no record above one megabyte. The head comes last and names the parts that count.
Removed parts, and parts that no head names, get tombstones.

    {"task": "Partition 0", "time": 1700000010000, "part": [7, 0]}    the first bytes of write number 7
    {"task": "Partition 0", "time": 1700000010000, "part": [7, 1]}    the next bytes
    {"task": "Partition 0", "time": 1700000010000}                    the head:
        {"write": 7, "parts": 2, "crc32": 3735928559, "job": ["views", "1"]}

Two jobs may have one topic: `a_b` with the id `c`, and `a` with the id `b_c`. A head with another job is refused.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Collection
from contextlib import closing
from typing import TypeVar

import msgspec

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, RecordBatch, StreamSpec, read_to
from samzapy.checkpoint.managers import Clients
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig, state_checkpoint_topic
from samzapy.errors import ConfigError, EnvironmentFailure, RestoreError
from samzapy.strict_json import Natural, Time, decode

T = TypeVar("T")

PART_BYTES = 524_288
_POLL_RECORDS = 100

#: A part: the unique number of its write (two attempts may write at the same time), and its index; None: the head.
_Part = tuple[int, int] | None
_HEAD: _Part = None


class TopicCheckpointStore:
    """Keeps the checkpoints of one task (Gearpump: `transaction.api.CheckpointStore`). One thread. They are read once,
    when first asked for; the first `persist` releases the values."""

    #: Seconds that a read may go without progress; then RestoreError.
    patience_s = 60.0

    def __init__(self, system: str, spec: StreamSpec, task: str, clients: Clients, *, job: tuple[str, str]) -> None:
        """The topic is created by `spec` if it does not exist. `job`: name and id."""
        self._system, self._spec, self._task, self._job = system, spec, task, job
        self._clients = clients
        self._ssp: SystemStreamPartition | None = None
        self._values: dict[int, dict[_Part, bytes]] = {}
        self._parts: dict[int, set[_Part]] = {}

    def persist(self, time_ms: int, value: bytes) -> None:
        """Keep `value` under `time_ms`, durably before returning; it replaces one that is there."""
        ssp = self._open()
        write = secrets.randbits(53)
        cuts = range(0, max(1, len(value)), PART_BYTES)
        parts: dict[_Part, bytes] = {(write, n): value[at : at + PART_BYTES] for n, at in enumerate(cuts)}
        head = {"write": write, "parts": len(cuts), "crc32": zlib.crc32(value), "job": self._job}
        parts[_HEAD] = json.dumps(head).encode()
        producer = self._clients.producer(self._system)
        producer.send([self._record(ssp, time_ms, part, item) for part, item in parts.items()])
        producer.flush()
        stale = self._parts.get(time_ms, set()) - parts.keys()
        torn = [(time_ms, part) for part in stale]
        torn += [(other, part) for other, result in self._parts.items() if _HEAD not in result for part in result]
        producer.send([self._record(ssp, other, part, None) for other, part in torn])
        self._values.clear()
        self._parts = {other: result for other, result in self._parts.items() if _HEAD in result}
        self._parts[time_ms] = set(parts)

    def times(self) -> list[int]:
        """The times of the complete checkpoints, ascending."""
        self._open()
        return sorted(time_ms for time_ms, result in self._parts.items() if _HEAD in result)

    def recover(self, time_ms: int) -> bytes:
        """The value under `time_ms`. Raises RestoreError if it is damaged or not there."""
        self._open()
        if _HEAD not in self._parts.get(time_ms, ()):
            raise RestoreError(f"{self.place(time_ms)}: there is no such state")
        result = self._values.get(time_ms)
        if result is None:
            raise RestoreError(f"{self.place(time_ms)}: states are read before the first one is written")
        head = _read_as(_Head, result[_HEAD]) or _Head()
        value = b"".join(result.get((head.write, number), b"") for number in range(min(head.parts, len(result))))
        if head.crc32 != zlib.crc32(value):
            raise RestoreError(f"{self.place(time_ms)}: the state is damaged (its checksum is wrong)")
        return value

    def remove(self, times: Collection[int]) -> None:
        """Remove these; missing ones are not an error. A crash may leave some of them."""
        ssp = self._open()
        for time_ms in times:
            self._values.pop(time_ms, None)
            # The head goes first: without it the parts do not form a state.
            parts = sorted(self._parts.pop(time_ms, ()), key=lambda part: part is not _HEAD)
            self._clients.producer(self._system).send([self._record(ssp, time_ms, part, None) for part in parts])

    def place(self, time_ms: int) -> str:
        """The topic's partition, and the key."""
        return f"{self._open()} {_key(self._task, time_ms, _HEAD).decode()}"

    def _open(self) -> SystemStreamPartition:
        if self._ssp is None:
            admin = self._clients.admin(self._system)
            admin.create(self._spec)
            topic = admin.describe(self._spec.stream)
            if topic is None:
                raise EnvironmentFailure(f"state checkpoints: topic {self._spec.stream} cannot be made")
            policy = topic.setting("cleanup.policy") or "compact"
            if policy != "compact":
                raise EnvironmentFailure(f"state checkpoints: topic {topic.stream} must be compact (is {policy})")
            partition = zlib.crc32(self._task.encode()) % topic.partitions
            ssp = SystemStreamPartition(self._system, topic.stream, partition)
            self._read(ssp)
            self._refuse_another_job(ssp)
            self._ssp = ssp
        return self._ssp

    def _read(self, ssp: SystemStreamPartition) -> None:
        bound = self._clients.admin(self._system).offsets([ssp])[ssp]
        with closing(self._clients.consumer(self._system)) as consumer:
            consumer.start({ssp: bound.oldest})
            for batch in read_to(consumer, ssp, bound.upcoming, SYSTEM_CLOCK, self.patience_s, _POLL_RECORDS):
                self._take(batch)
        self._parts = {time_ms: set(result) for time_ms, result in self._values.items() if result}

    def _refuse_another_job(self, ssp: SystemStreamPartition) -> None:
        for result in self._values.values():
            head = _read_as(_Head, result.get(_HEAD))
            owner = None if head is None else head.job
            if owner is not None and owner != self._job:
                raise EnvironmentFailure(
                    f"state checkpoints: {ssp} has states of job {owner[0]} (id {owner[1]}), which shares the topic "
                    f"with job {self._job[0]} (id {self._job[1]}); give one of them another job.name, job.id or "
                    "task.checkpoint.system"
                )

    def _take(self, batch: RecordBatch) -> None:
        for key, value in zip(batch.keys, batch.values, strict=True):
            data = _read_as(_Place, key)
            if data is None or data.task != self._task:
                continue
            result = self._values.setdefault(data.time, {})
            if value is None:
                result.pop(data.part, None)
            else:
                result[data.part] = value

    def _record(self, ssp: SystemStreamPartition, time_ms: int, part: _Part, value: bytes | None) -> OutgoingRecord:
        return OutgoingRecord(ssp.stream, _key(self._task, time_ms, part), value, ssp.partition)


def _key(task: str, time_ms: int, part: _Part) -> bytes:
    data: dict[str, object] = {"task": task, "time": time_ms}
    if part is not None:
        data["part"] = part
    return json.dumps(data, ensure_ascii=False).encode()


class _Place(msgspec.Struct):
    task: str
    time: Time
    part: tuple[Natural, Natural] | None = _HEAD


class _Head(msgspec.Struct):
    write: Natural = 0
    parts: Natural = 0
    crc32: int = -1
    job: tuple[str, str] | None = None


def _read_as(kind: type[T], data: bytes | None) -> T | None:
    """The key or the head of a record; None for anything else, since a state without a head or a part is refused."""
    try:
        return decode(kind, data or b"")
    except ValueError:
        return None


#: The number of partitions of a new topic: a container reads only the partitions of its tasks.
_PARTITIONS = 16


def state_checkpoints(job: JobConfig, task_name: str, clients: Clients) -> TopicCheckpointStore:
    """The store of a task's states, in a topic on `task.checkpoint.system`. Connects to nothing yet. Raises
    ConfigError."""
    system = job.state_checkpoint.system
    if system is None:
        message = "required for the checkpoints of states (or set job.default.system)"
        raise ConfigError.of("task.checkpoint.system", None, message)
    name = state_checkpoint_topic(job.name, job.id)
    spec = StreamSpec(name, _PARTITIONS, {"cleanup.policy": "compact"}, job.state_checkpoint.replication_factor)
    return TopicCheckpointStore(system, spec, task_name, clients, job=(job.name, job.id))
