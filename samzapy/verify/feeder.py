"""Writes the events in bursts, in a thread, never past a limit that the scenario moves on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.verify.murmur2 import partition_of
from samzapy.verify.workload import Event

#: Seconds that a stretch of events takes.
STRETCH_S = 2.0
_BURSTS_A_STRETCH = 40


class Pace(NamedTuple):
    """How many events a write has in the mean; their number is drawn from the seed, and so are the pauses."""

    seed: str
    burst: int


class Feeder:
    """Appends `events` to `stream`. `acknowledged` is how many are in the log, `ends` the same by partition."""

    def __init__(
        self,
        producer: SystemProducer,
        stream: str,
        partitions: int,
        events: Iterator[Event],
        pace: Pace,
        on_written: Callable[[int], None],
    ) -> None:
        """`on_written` hears, in the feeder's thread, how many events are in the log."""
        self._producer = producer
        self._stream = stream
        self._events = events
        self._burst = pace.burst
        self._chance = random.Random(f"{pace.seed}/bursts")
        self._on_written = on_written
        self._partition: dict[bytes, int] = {}
        self.ends = (0,) * partitions
        self.acknowledged = 0
        self._limit = 0
        self._closed = False
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="verify-feeder", daemon=True)
        self._thread.start()

    def allow(self, limit: int) -> None:
        """Go on up to this many events in all."""
        with self._changed:
            self._limit = limit
            self._changed.notify_all()

    def check(self) -> None:
        """Raise what has ended the writing, if anything has."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Write no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        try:
            while self._may_go_on():
                self._write()
        except Exception as failure:  # noqa: BLE001  # raised in the scenario's thread
            self._failure = failure

    def _may_go_on(self) -> bool:
        with self._changed:
            pause = self._chance.uniform(0.5, 1.5) * STRETCH_S / _BURSTS_A_STRETCH
            self._changed.wait_for(lambda: self._closed, pause)
            self._changed.wait_for(lambda: self._closed or self.acknowledged < self._limit)
            return not self._closed

    def _write(self) -> None:
        size = min(self._limit - self.acknowledged, 1 + int(self._chance.expovariate(1 / self._burst)))
        ends, batch = list(self.ends), []
        for event in islice(self._events, size):
            key, value = event.encode()
            partition = self._partition.setdefault(key, partition_of(key, len(ends)))
            ends[partition] += 1
            batch.append(OutgoingRecord(self._stream, key, value, partition))
        self._producer.send(batch)
        self._producer.flush()
        self.ends = tuple(ends)
        self.acknowledged += len(batch)
        self._on_written(self.acknowledged)


def mean_burst(events: int, stretches: int) -> int:
    """Events a write, so that each of the stretches takes about `STRETCH_S`."""
    return max(1, events // stretches // _BURSTS_A_STRETCH)
