"""Read JSON events, add a field, write them on."""

from __future__ import annotations

import orjson

from benchmarks.bare.checkpoints import COMMIT_S, Checkpoints
from benchmarks.bare.clients import arguments, assigned_consumer, consume, flush, offsets, producer
from benchmarks.bare.stopwatch import Stopwatch


def main() -> None:
    options = arguments(__doc__ or "", "--output", "--checkpoints")
    positions, ends = offsets(options.bootstrap, options.input)
    watch = Stopwatch()
    consumer = assigned_consumer(options.bootstrap, options.input, positions)
    out, on_delivery, failures = producer(options.bootstrap)
    checkpoints = Checkpoints(out, on_delivery, options.checkpoints, "pass-through")
    loads, dumps, produce, output = orjson.loads, orjson.dumps, out.produce, options.output
    done, due = 0, 0.0
    while any(positions[p] < end for p, end in ends.items()):
        messages = consume(consumer)
        for message in messages:
            event = loads(message.value())
            event["seen"] = True
            produce(output, dumps(event), message.key(), on_delivery=on_delivery)
            positions[message.partition()] = message.offset() + 1
        out.poll(0)
        done += len(messages)
        now = watch.lap(positions)
        due = due or now + COMMIT_S
        if now >= due:
            flush(out, failures)
            checkpoints.write(positions)
            flush(out, failures)
            due = now + COMMIT_S
    flush(out, failures)
    checkpoints.write(positions)
    flush(out, failures)
    watch.report(done, positions)
    consumer.close()


if __name__ == "__main__":
    main()
