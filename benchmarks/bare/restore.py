"""Read a changelog to its end and count its records: what a restore cannot be faster than."""

from __future__ import annotations

from confluent_kafka import KafkaError

from benchmarks.bare.clients import BATCH, arguments, assigned_consumer, offsets
from benchmarks.bare.stopwatch import Stopwatch


def main() -> None:
    options = arguments(__doc__ or "")
    positions, ends = offsets(options.bootstrap, options.input)
    watch = Stopwatch()
    # The last offsets of a changelog are markers of transactions, which no message has: only the consumer sees them
    # pass.
    consumer = assigned_consumer(options.bootstrap, options.input, positions, {"enable.partition.eof": True})
    unread = {partition for partition, end in ends.items() if positions[partition] < end}
    done = 0
    while unread:
        for message in consumer.consume(BATCH, 0.1):
            error = message.error()
            if error is None:
                positions[message.partition()] = message.offset() + 1
                done += 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # the client's documented name
                unread.discard(message.partition())
            else:
                raise SystemExit(str(error))
    watch.report(done)
    consumer.close()


if __name__ == "__main__":
    main()
