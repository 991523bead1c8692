"""Reads the records of one stream, from any offset to its end or beyond, and converts keys and messages to text."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemAdmin, SystemProducer, SystemSettings
from samzapy.checkpoint.records import Target
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import ConfigError, RetriableError, UnknownStream
from samzapy.serializers import as_json, decode_failure, encode_failure, from_json
from samzapy.system.clients import system_factory

_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "long": int,
    "double": float,
    "uuid": uuid.UUID,
    "bytes": str.encode,
    "byte": str.encode,
    "bytebuffer": str.encode,
}


class Literal:
    """One serde between bytes and text: strings unchanged, numbers in decimal, structured values as JSON."""

    def __init__(self, name: str, serde: Serde) -> None:
        self._name, self._serde = name, serde
        # What was written as JSON may have more than a task's first serde takes.
        self._to_bytes = serde.to_bytes
        self._from_text = _FROM_TEXT.get(name, from_json)

    def encode(self, text: str, where: str, part: str) -> bytes:
        """The bytes of the value in `text`. Raises SerdeError that names `where` and `part`."""
        try:
            return self._to_bytes(self._from_text(text))
        except Exception as cause:
            raise encode_failure(self._name, where, part, text, cause) from cause

    def decode(self, data: bytes | None, where: str, part: str) -> Any:
        """The value of the bytes, None for None. Raises SerdeError that names `where` and `part`."""
        if data is None:
            return None
        try:
            return self._serde.from_bytes(data)
        except Exception as cause:
            raise decode_failure(self._name, where, part, cause) from cause


def as_text(value: object) -> str:
    """A string unchanged, any other value as JSON, None as the empty text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


_CLIENT = "samzapy-topic"
_BATCH = 1_000
#: Seconds that a following read waits for the next record; only the latency of Ctrl-C depends on it.
_WAIT_S = 0.5


class Record(NamedTuple):
    """One record, serialized."""

    ssp: SystemStreamPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Range(NamedTuple):
    """The records to read.

    `start`: a `Target`.
    `partitions`: none for all. `last`: only so many records before the end, of all partitions together. `follow`: go on
    after the end. `patience_s`: seconds without progress after which the read fails; records behind an open transaction
    come only when it ends.
    """

    start: str = "oldest"
    partitions: tuple[int, ...] = ()
    follow: bool = False
    patience_s: float = math.inf
    last: int | None = None


def stream_admin(settings: SystemSettings) -> closing[SystemAdmin]:
    """The admin of a system that may belong to no job; closed at the end of the context."""
    return closing(system_factory(settings).admin(settings, _CLIENT))


def stream_producer(settings: SystemSettings) -> closing[SystemProducer]:
    """A producer of such a system; closed at the end of the context."""
    return closing(system_factory(settings).producer(settings, _CLIENT))


def records(
    settings: SystemSettings, stream: SystemStream, what: Range, clock: Clock = SYSTEM_CLOCK
) -> Generator[Record, None, None]:
    """The records, in order within each partition.

    Raises UnknownStream, OffsetOutOfRange, ConfigError for a start that is neither a known word nor an offset,
    RetriableError after `patience_s` without progress.
    """
    with stream_admin(settings) as admin:
        description = admin.describe(stream.stream)
        if description is None:
            raise UnknownStream(stream.system, stream.stream)
        ssps = _chosen(stream, description.partitions, what.partitions)
        ranges = admin.offsets(ssps)
        starts = Target(what.start, "--from").offsets(None, ranges, lambda _: admin)
    with closing(system_factory(settings).consumer(settings, _CLIENT)) as consumer:
        if what.last is not None:
            share = what.last // len(ssps)
            starts = {ssp: max(start, ranges[ssp].upcoming - share) for ssp, start in starts.items()}
        ends = {ssp: ranges[ssp].upcoming for ssp, start in starts.items() if start < ranges[ssp].upcoming}
        consumer.start(starts)
        positions: dict[SystemStreamPartition, int] = {}
        moved = clock.monotonic()
        while ends or what.follow:
            for batch in consumer.poll(_WAIT_S, _BATCH):
                end = None if what.follow else ends.get(batch.ssp, 0)
                for row in zip(batch.offsets, batch.timestamps, batch.keys, batch.values, strict=True):
                    if end is None or row[0] < end:
                        yield Record(batch.ssp, *row)
            reached = {ssp: consumer.position(ssp) for ssp in ssps}
            if reached != positions:
                positions, moved = reached, clock.monotonic()
            elif clock.monotonic() - moved > what.patience_s:
                why = "a transaction before it is still open, or the system does not answer"
                raise RetriableError(f"{stream}: no record for {what.patience_s:g} s: {why}")
            ends = {ssp: end for ssp, end in ends.items() if reached[ssp] < end}


def _chosen(stream: SystemStream, count: int, partitions: Sequence[int]) -> list[SystemStreamPartition]:
    for partition in partitions:
        if not 0 <= partition < count:
            raise ConfigError.of("--partition", str(partition), f"{stream} has partitions 0 to {count - 1}")
    return [SystemStreamPartition(*stream, partition) for partition in partitions or range(count)]
