"""Read JSON events, add a field, write them on; --fold says whether as dicts or as objects of a class."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import orjson
from confluent_kafka import Message, Producer

from benchmarks.bare.checkpoints import COMMIT_S, Checkpoints
from benchmarks.bare.clients import assigned_consumer, consume, flush, offsets, producer
from benchmarks.bare.events import decode, encode
from benchmarks.bare.stopwatch import Stopwatch

Report = Callable[..., None]
Positions = dict[int, int]


def each_json(
    messages: Sequence[Message], out: Producer, output: str, on_delivery: Report, positions: Positions
) -> None:
    loads, dumps, produce = orjson.loads, orjson.dumps, out.produce
    for message in messages:
        event = loads(message.value())
        event["seen"] = True
        produce(output, dumps(event), message.key(), on_delivery=on_delivery)
        positions[message.partition()] = message.offset() + 1


def each_typed(
    messages: Sequence[Message], out: Producer, output: str, on_delivery: Report, positions: Positions
) -> None:
    produce = out.produce
    for message in messages:
        event = decode(message.value())
        event.seen = True
        produce(output, encode(event), message.key(), on_delivery=on_delivery)
        positions[message.partition()] = message.offset() + 1


def batch_typed(
    messages: Sequence[Message], out: Producer, output: str, on_delivery: Report, positions: Positions
) -> None:
    """In one call of the client, which chooses partitions by the keys as it does for single records."""
    records = []
    for message in messages:
        event = decode(message.value())
        event.seen = True
        records.append({"key": message.key(), "value": encode(event)})
        positions[message.partition()] = message.offset() + 1
    if out.produce_batch(output, records, on_delivery=on_delivery) < len(records):
        raise SystemExit("the client's queue is full")


FOLDS = {"json": each_json, "typed": each_typed, "batch-typed": batch_typed}


def main() -> None:
    options = _options()
    positions, ends = offsets(options.bootstrap, options.input)
    watch = Stopwatch()
    consumer = assigned_consumer(options.bootstrap, options.input, positions)
    out, on_delivery, failures = producer(options.bootstrap)
    checkpoints = Checkpoints(out, on_delivery, options.checkpoints, "pass-through")
    fold, done, due = FOLDS[options.fold], 0, 0.0
    while any(positions[p] < end for p, end in ends.items()):
        messages = consume(consumer)
        fold(messages, out, options.output, on_delivery, positions)
        out.poll(0)
        done += len(messages)
        now = time.monotonic()
        due = due or now + COMMIT_S
        if now >= due:
            flush(out, failures)
            checkpoints.write(positions)
            flush(out, failures)
            due = now + COMMIT_S
    flush(out, failures)
    checkpoints.write(positions)
    flush(out, failures)
    watch.report(done)
    consumer.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap", "--input", "--output", "--checkpoints"):
        parser.add_argument(name, required=True)
    parser.add_argument("--fold", choices=list(FOLDS), default="json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
