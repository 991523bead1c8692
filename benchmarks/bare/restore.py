"""Read a changelog to its end and count its records: what a restore cannot be faster than."""

from __future__ import annotations

from benchmarks.bare.clients import arguments, assigned_consumer, consume
from benchmarks.bare.stopwatch import Stopwatch


def main() -> None:
    options = arguments(__doc__ or "")
    watch = Stopwatch()
    consumer, positions, ends = assigned_consumer(options.bootstrap, options.input)
    done = 0
    while any(positions[p] < end for p, end in ends.items()):
        messages = consume(consumer)
        for message in messages:
            positions[message.partition()] = message.offset() + 1
        done += len(messages)
        watch.lap(positions)
    consumer.close()
    watch.report(done, positions)


if __name__ == "__main__":
    main()
