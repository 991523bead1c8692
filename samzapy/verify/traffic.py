"""The clients beside the job: the feeder writes its inputs, the watcher reads its outputs, the writer disturbs it.

feeder      writes the events in bursts, in a thread, never past a limit that the scenario moves on
watcher     reads committed outputs while the faults strike: each of them must still exist in the end
writer    puts a wrong record into a changelog, and corrects it once the job has refused it
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.errors import EnvironmentFailure, ProducerError, SamzapyError
from samzapy.verify.evidence import Record
from samzapy.verify.processes import NoProgress
from samzapy.verify.streams import Streams, records_of
from samzapy.verify.workload import Event, partition_of

#: Seconds that a stretch of events takes.
STRETCH_S = 2.0
_BURSTS_A_STRETCH = 40


class Pace(NamedTuple):
    """The mean number of events in a write. The seed decides each number and each pause."""

    seed: str
    burst: int


class Feeder:
    """Appends `events` to `stream`. `acknowledged` is the number in the log, `ends` the same by partition."""

    def __init__(
        self,
        producer: SystemProducer,
        stream: str,
        partitions: int,
        events: Iterator[Event],
        pace: Pace,
        on_written: Callable[[int], None],
    ) -> None:
        """`on_written` is called in the feeder's thread with the number of events in the log."""
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
        """Raise the failure that has ended the writing, if there is one: EnvironmentFailure if the system did not take
        an event, which says nothing about the job."""
        if isinstance(self._failure, ProducerError):
            raise EnvironmentFailure(
                f"the events could not be written to {self._stream}, so nothing about the job is proven: "
                f"{self._failure}"
            ) from self._failure
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


_POLL_S = 0.5
_POLL_RECORDS = 5_000


class Watcher:
    """Reads a stream from its beginning, in a thread, until it is closed. It waits for a broker that is away."""

    def __init__(self, streams: Streams, stream: str) -> None:
        self._streams = streams
        self._positions = dict.fromkeys(streams.partitions(stream), 0)
        self._seen: list[Record] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verify-watcher", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """The number of records that it has seen."""
        return len(self._seen)

    def close(self) -> list[Record]:
        """Stop; returns the records that it has seen."""
        self._closed.set()
        self._thread.join()
        return self._seen

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._watch()
            except SamzapyError:
                self._closed.wait(_POLL_S)

    def _watch(self) -> None:
        consumer = self._streams.consumer(self._positions)
        try:
            while not self._closed.is_set():
                for batch in consumer.poll(_POLL_S, _POLL_RECORDS):
                    self._seen += records_of(batch)
                    self._positions[batch.ssp] = batch.offsets[-1] + 1
        finally:
            consumer.close()


#: More than all deposits together: if the job accepted it, every sum of the account would show it.
_WRONG = b"1000000000"


class ForeignWriter:
    """Writes to `changelog`, a store with numbers as values."""

    def __init__(self, streams: Streams, changelog: str) -> None:
        self._streams = streams
        self._changelog = changelog
        self._replaced: Record | None = None

    def write(self, choice: int) -> None:
        """Replace the value of one of the keys. Raises NoProgress if there is none."""
        records = [record for record in self._streams.read(self._changelog) if record.value is not None]
        if not records:
            raise NoProgress(f"{self._changelog} is empty: nothing to replace")
        self._replaced = records[choice % len(records)]
        self._send(self._replaced, _WRONG)

    def correct(self) -> None:
        """Write the value that the job itself wrote last for that key."""
        assert self._replaced is not None
        key = self._replaced.key
        own = [r.value for r in self._streams.read(self._changelog) if r.key == key and r.value != _WRONG]
        self._send(self._replaced, own[-1])

    def _send(self, place: Record, value: bytes | None) -> None:
        with closing(self._streams.producer()) as producer:
            producer.send([OutgoingRecord(self._changelog, place.key, value, place.partition)])
            producer.flush()
