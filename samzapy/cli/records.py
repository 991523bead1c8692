"""Reading a stream to its end, for people: no checkpoint, no consumer group."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemFactory, SystemSettings
from samzapy.errors import ConfigError, ConfigProblem, OffsetOutOfRange, UnknownStream

_BATCH = 1_000
#: How long a read that follows waits for the next record; only the latency of Ctrl-C depends on it.
_WAIT_S = 0.5


class Record(NamedTuple):
    """One record, serialized."""

    ssp: SystemStreamPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Range(NamedTuple):
    """What to read: `start` is oldest, newest (the last record of each partition), upcoming, or an offset; no
    `partitions`: all; `follow` goes on after the end."""

    start: str = "oldest"
    partitions: tuple[int, ...] = ()
    follow: bool = False


def records(
    factory: SystemFactory, settings: SystemSettings, stream: SystemStream, what: Range
) -> Generator[Record, None, None]:
    """The records, each partition's in order. Raises UnknownStream, OffsetOutOfRange, ConfigError for a bad start."""
    admin = factory.admin(settings, "samzapy-topic")
    try:
        description = admin.describe(stream.stream)
        if description is None:
            raise UnknownStream(stream.system, stream.stream)
        ssps = _chosen(stream, description.partitions, what.partitions)
        ranges = admin.offsets(ssps)
    finally:
        admin.close()
    consumer = factory.consumer(settings, "samzapy-topic")
    try:
        ends = {}
        for ssp in ssps:
            start = _start(what.start, ssp, ranges[ssp])
            consumer.register(ssp, start)
            if start < ranges[ssp].upcoming:
                ends[ssp] = ranges[ssp].upcoming
        consumer.start()
        while ends or what.follow:
            for batch in consumer.poll(_WAIT_S, _BATCH):
                end = None if what.follow else ends.get(batch.ssp, 0)
                for row in zip(batch.offsets, batch.timestamps, batch.keys, batch.values, strict=True):
                    if end is None or row[0] < end:
                        yield Record(batch.ssp, *row)
            ends = {ssp: end for ssp, end in ends.items() if consumer.position(ssp) < end}
    finally:
        consumer.close()


def _chosen(stream: SystemStream, count: int, partitions: Sequence[int]) -> list[SystemStreamPartition]:
    for partition in partitions:
        if not 0 <= partition < count:
            raise ConfigError(
                [ConfigProblem("--partition", str(partition), f"{stream} has partitions 0 to {count - 1}")]
            )
    return [SystemStreamPartition(*stream, partition) for partition in partitions or range(count)]


def _start(text: str, ssp: SystemStreamPartition, known: OffsetRange) -> int:
    oldest, upcoming = known
    places = {"oldest": oldest, "newest": max(oldest, upcoming - 1), "upcoming": upcoming}
    if text in places:
        return places[text]
    if not text.isdecimal() or len(text) > 19:
        raise ConfigError([ConfigProblem("--from", text, "oldest, newest, upcoming or an offset")])
    if not oldest <= int(text) <= upcoming:
        raise OffsetOutOfRange(ssp, int(text), oldest, upcoming)
    return int(text)
