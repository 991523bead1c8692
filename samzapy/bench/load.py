"""Writes events into a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.system.factories import system_factory

#: Records a call of the producer.
BATCH = 5_000


def load_events(
    settings: SystemSettings,
    stream: SystemStream,
    events: Iterable[tuple[bytes, bytes]],
    *,
    partitions: int = 4,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Create the stream if there is none, and append the (key, value) pairs; returns how many.

    `on_progress` hears how many were handed over so far.
    """
    factory = system_factory(settings)
    admin = factory.admin(settings, "bench-load")
    try:
        admin.create(StreamSpec(stream.stream, partitions))
    finally:
        admin.close()
    producer = factory.producer(settings, "bench-load")
    done, left = 0, iter(events)
    try:
        while batch := [OutgoingRecord(stream.stream, key, value) for key, value in islice(left, BATCH)]:
            producer.send(batch)
            done += len(batch)
            if on_progress is not None:
                on_progress(done)
        producer.flush()
    finally:
        producer.close()
    return done
