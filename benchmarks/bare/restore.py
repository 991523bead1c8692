"""Read a changelog to its end and count its records: what a restore cannot be faster than."""

from __future__ import annotations

from benchmarks.bare.clients import arguments, assigned_consumer, consume, offsets
from benchmarks.bare.stopwatch import Stopwatch


def main() -> None:
    options = arguments(__doc__ or "")
    positions, ends = offsets(options.bootstrap, options.input)
    watch = Stopwatch()
    consumer = assigned_consumer(options.bootstrap, options.input, positions)
    done = 0
    while any(positions[p] < end for p, end in ends.items()):
        messages = consume(consumer)
        for message in messages:
            positions[message.partition()] = message.offset() + 1
        done += len(messages)
        watch.lap(positions)
    watch.report(done, positions)
    consumer.close()


if __name__ == "__main__":
    main()
