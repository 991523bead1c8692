"""Writes events at a steady pace, each with the time it was written at, once a file says that the reader is ready."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from confluent_kafka import Producer

from samzapy.bench.events import Events

#: Seconds between two looks for the file, and between two handfuls of events.
LOOK_S, TICK_S = 0.05, 0.001


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap", "--topic", "--wait-for"):
        parser.add_argument(name, required=True)
    for name in ("--rate", "--count"):
        parser.add_argument(name, required=True, type=int)
    options = parser.parse_args()
    events = [(key, value[:-1] + b',"at_ns":') for key, value in Events(options.count)]
    settings = {"acks": "all", "linger.ms": 0, "partitioner": "murmur2_random"}
    producer = Producer({**settings, "bootstrap.servers": options.bootstrap})
    producer.list_topics(options.topic, timeout=10)
    ready = Path(options.wait_for)
    while not ready.exists():
        time.sleep(LOOK_S)
    start = time.monotonic()
    for number, (key, value) in enumerate(events):
        while (time.monotonic() - start) * options.rate < number:
            producer.poll(0)
            time.sleep(TICK_S)
        producer.produce(options.topic, value + b"%d}" % time.time_ns(), key)
    if producer.flush(60):
        raise SystemExit("events were not acknowledged")


if __name__ == "__main__":
    main()
