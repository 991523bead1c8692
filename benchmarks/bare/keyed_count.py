"""Count events by user, keep the counts in RocksDB and in a changelog.

--fold says how: message by message or by batches, decoded to a dict, to a class or not at all (the key is the user).
--keep says where: in a dict without bound, in one of a small cache's size, or in memory only.

With --expected it is the loop of the latency benchmark: it runs until it has seen that many events, and notes for
each how long ago it was written (the event's own `at_ns`).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.bare import folds
from benchmarks.bare.checkpoints import COMMIT_S, Checkpoints
from benchmarks.bare.clients import assigned_consumer, consume, flush, offsets, producer
from benchmarks.bare.counts import BoundedCounts, Counts, CountsInMemory, CountsInRocksDB
from benchmarks.bare.stopwatch import Stopwatch

FOLDS: dict[str, Any] = {
    "json": folds.each_json,
    "typed": folds.each_typed,
    "batch": folds.batch_json,
    "batch-typed": folds.batch_typed,
    "batch-keys": folds.batch_keys,
}
DICT, BOUNDED, MEMORY = "dict", "bounded", "memory"


class Committer:
    """The commit: changelog, acks, checkpoint, ack, RocksDB."""

    def __init__(self, bootstrap: str, changelog: str, checkpoints: str, counts: dict[int, Counts]) -> None:
        self._out, self._on_delivery, self._failures = producer(bootstrap)
        self._checkpoints = Checkpoints(self._out, self._on_delivery, checkpoints, "keyed-count")
        self._changelog = changelog
        self._counts = counts
        self.records = 0

    def commit(self, positions: dict[int, int]) -> None:
        changes = {partition: counts.changes() for partition, counts in self._counts.items()}
        for partition, changed in changes.items():
            self._send(self._out, partition, changed)
            self.records += len(changed)
        flush(self._out, self._failures)
        self._checkpoints.write(positions)
        flush(self._out, self._failures)
        for partition in changes:
            self._counts[partition].commit(positions[partition])

    def _send(self, out: Producer, partition: int, changed: dict[bytes, bytes]) -> None:
        records = [{"key": key, "value": value} for key, value in changed.items()]
        for first in range(0, len(records), 10_000):
            out.produce_batch(self._changelog, records[first : first + 10_000], partition, self._on_delivery)
            out.poll(0)


def main() -> None:
    options = _options()
    positions, ends = offsets(options.bootstrap, options.input)
    counts = {partition: _counts(options.keep, Path(options.folder) / str(partition)) for partition in positions}
    watch = Stopwatch()
    consumer = assigned_consumer(options.bootstrap, options.input, positions)
    committer = Committer(options.bootstrap, options.changelog, options.checkpoints, counts)
    fold: Any = folds.each_json_bounded if options.keep == BOUNDED else FOLDS[options.fold]
    done, due = 0, 0.0
    while any(positions[p] < end for p, end in ends.items()):
        messages = consume(consumer)
        fold(messages, counts, positions)
        done += len(messages)
        now = time.monotonic()
        due = due or now + COMMIT_S
        if now >= due:
            committer.commit(positions)
            due = now + COMMIT_S
    committer.commit(positions)
    watch.report(done, changelog_records=committer.records)
    for of_partition in counts.values():
        of_partition.close()
    consumer.close()


def _counts(keep: str, folder: Path) -> Counts:
    if keep == MEMORY:
        return CountsInMemory()
    return BoundedCounts(folder) if keep == BOUNDED else CountsInRocksDB(folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap", "--input", "--changelog", "--checkpoints", "--folder"):
        parser.add_argument(name, required=True)
    parser.add_argument("--fold", choices=list(FOLDS), default="json")
    parser.add_argument("--keep", choices=(DICT, BOUNDED, MEMORY), default=DICT)
    return parser.parse_args()


if __name__ == "__main__":
    main()
