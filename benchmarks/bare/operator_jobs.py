"""Read JSON events into objects of a class, do with dicts and heaps what an operator does, and store nothing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from benchmarks.bare import operators as by_hand
from benchmarks.bare.clients import CONSUMER, consume, offsets
from benchmarks.bare.events import Event, decode
from benchmarks.bare.operators import LEFTS, RIGHTS
from benchmarks.bare.stopwatch import Stopwatch
from samzapy import SystemStreamPartition

LOOPS: Mapping[str, Callable[[Any], object]] = {
    "tumbling": by_hand.tumbling,
    "sessions": by_hand.sessions,
    "as-of": by_hand.as_of,
    "stream-stream": by_hand.stream_stream,
    "timers": by_hand.timers,
    "heap": by_hand.heap,
    "count-by-key": by_hand.count,
}


class Read(NamedTuple):
    """What the loops need of a message."""

    ssp: SystemStreamPartition
    offset: int
    key: str
    message: Event
    event_time: int


class Messages:
    """The messages of the first partition of each input, up to their ends, once. The time of a message is its
    event's."""

    def __init__(self, bootstrap: str, inputs: Sequence[str]) -> None:
        result = {topic: offsets(bootstrap, topic) for topic in inputs}
        self.positions = {topic: first[0] for topic, (first, _) in result.items()}
        self._ends = {topic: last[0] for topic, (_, last) in result.items()}
        self._sides = dict(zip(inputs, (LEFTS, RIGHTS), strict=False))
        self._bootstrap = bootstrap
        self.done = 0

    def __iter__(self) -> Iterator[Read]:
        positions, sides = self.positions, self._sides
        consumer = Consumer({**CONSUMER, "bootstrap.servers": self._bootstrap})
        consumer.assign([TopicPartition(topic, 0, position) for topic, position in positions.items()])
        while any(positions[topic] < end for topic, end in self._ends.items()):
            messages = consume(consumer)
            for message in messages:
                topic, offset, event = message.topic(), message.offset(), decode(message.value())
                yield Read(sides[topic], offset, message.key().decode(), event, event.at)
                positions[topic] = offset + 1
            self.done += len(messages)
        consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--inputs", required=True, help="topics, with commas between them")
    parser.add_argument("--operator", required=True, choices=list(LOOPS))
    options = parser.parse_args()
    watch = Stopwatch()
    messages = Messages(options.bootstrap, options.inputs.split(","))
    LOOPS[options.operator](messages)
    watch.report(messages.done)


if __name__ == "__main__":
    main()
