"""Writes events at a steady rate, on a schedule: those of each millisecond are due together, and say when in `at`,
nanoseconds of the monotonic clock.

What an event waits for a late generator counts as its latency, so a system that holds the generator up does not hide
that. Until a file says that the reader has got something, probes go out, with `at` 0. The last line of output is the
lateness of the generator.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.latency.percentiles import percentiles
from samzapy.bench.events import Events

#: Seconds between two probes, and from the last one to the first event.
PROBE_S, PAUSE_S = 0.1, 0.5
#: Different events; they come again with other times.
DIFFERENT = 50_000
#: Requests at a time. Behind a slow answer the next requests grow, as those of a producer in production do.
IN_FLIGHT = 5
_TICK_NS = 1_000_000
_PARTS = re.compile(rb'(.*"at":)\d+(.*)')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap", "--topic", "--ready"):
        parser.add_argument(name, required=True)
    for name in ("--rate", "--seconds"):
        parser.add_argument(name, required=True, type=int)
    options = parser.parse_args()
    settings = {"acks": "all", "linger.ms": 0, "max.in.flight": IN_FLIGHT, "partitioner": "murmur2_random"}
    producer = Producer({**settings, "bootstrap.servers": options.bootstrap})
    events = _events()
    while not Path(options.ready).exists():
        _send(producer, options.topic, next(events), 0)
        time.sleep(PROBE_S)
    gc.freeze()
    late = _paced(producer, options.topic, events, options.rate, options.seconds)
    if producer.flush(60):
        raise SystemExit("events were not acknowledged")
    print(json.dumps(percentiles(late)))


def _events() -> Iterator[tuple[bytes, bytes, bytes]]:
    """Keys, and values before and after the time."""
    result = []
    for key, value in Events(DIFFERENT):
        parts = _PARTS.fullmatch(value)
        assert parts is not None
        result.append((key, parts[1], parts[2]))
    return itertools.cycle(result)


def _paced(
    producer: Producer, topic: str, events: Iterator[tuple[bytes, bytes, bytes]], rate: int, seconds: int
) -> list[int]:
    """Returns by how many nanoseconds each millisecond's events were handed over late."""
    late = []
    start = time.monotonic_ns() + int(PAUSE_S * 1e9)
    sent = 0
    for tick in range(seconds * 1_000):
        due = start + tick * _TICK_NS
        while (left := due - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        upcoming = (tick + 1) * rate // 1_000
        for _ in range(upcoming - sent):
            _send(producer, topic, next(events), due)
        sent = upcoming
        producer.poll(0)
        late.append(time.monotonic_ns() - due)
    return late


def _send(producer: Producer, topic: str, event: tuple[bytes, bytes, bytes], at: int) -> None:
    key, before, after = event
    producer.produce(topic, b"%b%d%b" % (before, at, after), key)


if __name__ == "__main__":
    main()
