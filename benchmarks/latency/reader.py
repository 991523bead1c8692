"""Reads what came out as a consumer with read_committed, and notes when it got each event.

It waits for nothing but the broker: which answers a fetch with the first record that is readable. Its last line of
output says how many of the expected events came, the measured stretch in seconds of the monotonic clock, and the
latencies in it. The first seconds of events do not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import time
from array import array
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.kafka import PARTITIONS
from benchmarks.latency.percentiles import percentiles

#: Records a call, and seconds without one after which no more are expected.
MOST, PATIENCE_S = 10_000, 20.0
_AT = re.compile(rb'"at": ?(\d+)')


class Received:
    """The due times of the events, and when each was there, in nanoseconds."""

    def __init__(self) -> None:
        self.due, self.got = array("q"), array("q")

    def add(self, value: bytes, now: int) -> None:
        """An event, or a probe, which does not count."""
        result = _AT.search(value)
        if result is None:
            raise SystemExit(f"no event: {value[:200]!r}")
        if due := int(result[1]):
            self.due.append(due)
            self.got.append(now)

    def report(self, warm_up_s: float) -> dict[str, float]:
        """As the last line of output has it."""
        if not self.due:
            return {"received": 0}
        start, end = min(self.due) + int(warm_up_s * 1e9), max(self.due)
        times = [got - due for due, got in zip(self.due, self.got, strict=True) if due >= start]
        return {"received": len(self.due), "start": start / 1e9, "end": end / 1e9, **percentiles(times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap", "--topic", "--ready"):
        parser.add_argument(name, required=True)
    parser.add_argument("--expected", required=True, type=int)
    parser.add_argument("--warm-up-s", required=True, type=float)
    options = parser.parse_args()
    settings = {"group.id": "latency", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "bootstrap.servers": options.bootstrap})
    consumer.assign([TopicPartition(options.topic, number, 0) for number in range(PARTITIONS)])
    received = _read(consumer, Path(options.ready), options.expected)
    consumer.close()
    print(json.dumps(received.report(options.warm_up_s)))


def _read(consumer: Consumer, ready: Path, expected: int) -> Received:
    received = Received()
    gc.disable()
    first = consumer.poll()
    ready.touch()
    while first is not None:
        messages = [first, *consumer.consume(MOST, 0)]
        now = time.monotonic_ns()
        for message in messages:
            if message.error():
                raise SystemExit(str(message.error()))
            received.add(message.value(), now)
        if len(received.due) >= expected:
            break
        first = consumer.poll(PATIENCE_S)
    return received


if __name__ == "__main__":
    main()
