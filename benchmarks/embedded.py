"""`python -m benchmarks.embedded`: what a record costs the embedded systems, beside SQLite and a list by hand, in one
process.

Writing: records with a key and a value of 100 bytes go to four partitions, `BATCH` at a time, each batch one
transaction of SQLite. Reading: polls of `BATCH` records. By hand the same rows go into the same table, or into a list
of tuples, with neither partitioner, checks, offsets nor transactions of producers. Each figure is the least CPU time of
the rounds, in which the systems and the loops by hand take turns.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemFactory, SystemSettings
from samzapy.container.supervision.worker_process import tuned_for_messages
from samzapy.system.local.factory import LocalSystemFactory
from samzapy.system.memory import MemoryCluster, MemorySystemFactory

COUNT, ROUNDS, BATCH, PARTITIONS = 200_000, 3, 10_000, 4
_HEADERS = [("trace", b"0123456789abcdef")]
_TABLE = (
    "CREATE TABLE records (slot INTEGER NOT NULL, position INTEGER NOT NULL, timestamp INTEGER NOT NULL, key BLOB, value BLOB, "
    "headers BLOB, PRIMARY KEY (slot, position)) WITHOUT ROWID"
)
_SETTINGS = ("page_size=8192", "journal_mode=WAL", "synchronous=normal", "wal_autocheckpoint=2000", "cache_size=-16384")
_SELECT = "SELECT position, key, value, timestamp, headers FROM records WHERE slot = ? AND position >= ? ORDER BY position LIMIT ?"

Records = Sequence[OutgoingRecord]
#: CPU seconds of writing and of reading.
Seconds = tuple[float, float]


def _records(count: int, *, headers: bool) -> Records:
    added = _HEADERS if headers else None
    return [OutgoingRecord("s", b"key-%05d" % (n * 7_919 % 10_000), b"%0100d" % n, headers=added) for n in range(count)]


def _cpu_s(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def _batches(records: Records) -> list[Records]:
    return [records[first : first + BATCH] for first in range(0, len(records), BATCH)]


def by_sqlite(records: Records) -> Seconds:
    """The same rows in the same table, a quarter of each batch in each partition."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "by-hand.db", isolation_level=None)
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        connection.execute(_TABLE)
        batches = _batches(records)

        def write() -> None:
            position = 0
            for batch in batches:
                part = len(batch) // PARTITIONS
                connection.execute("BEGIN IMMEDIATE")
                for slot in range(PARTITIONS):
                    rows = [
                        (slot, position + n, 0, each.key, each.value, b"h" if each.headers else None)
                        for n, each in enumerate(batch[slot * part : (slot + 1) * part])
                    ]
                    connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
                connection.execute("COMMIT")
                position += part

        def read() -> None:
            for slot in range(PARTITIONS):
                position = 0
                while rows := connection.execute(_SELECT, (slot, position, BATCH)).fetchall():
                    position = rows[-1][0] + 1

        found = _cpu_s(write), _cpu_s(read)
        connection.close()
        return found


def by_lists(records: Records) -> Seconds:
    """A list of tuples a partition."""
    logs: list[list[tuple[object, ...]]] = [[] for _ in range(PARTITIONS)]

    def write() -> None:
        for number, each in enumerate(records):
            log = logs[number % PARTITIONS]
            log.append((len(log), each.key, each.value, 0, each.headers))

    def read() -> None:
        for log in logs:
            for first in range(0, len(log), BATCH):
                list(zip(*log[first : first + BATCH], strict=True))

    return _cpu_s(write), _cpu_s(read)


def _by(factory: SystemFactory, settings: SystemSettings, records: Records) -> Seconds:
    admin = factory.admin(settings, "bench")
    admin.create(StreamSpec("s", PARTITIONS))
    producer = factory.producer(settings, "bench")
    consumer = factory.consumer(settings, "bench")
    for partition in range(PARTITIONS):
        consumer.register(SystemStreamPartition(settings.name, "s", partition), 0)
    consumer.start()
    batches = _batches(records)

    def write() -> None:
        for batch in batches:
            for first in range(0, len(batch), 1_000):
                producer.send(batch[first : first + 1_000])
            producer.flush()

    def read() -> None:
        left = len(records)
        while left:
            left -= sum(len(batch.offsets) for batch in consumer.poll(0.0, BATCH))

    with tuned_for_messages():
        found = _cpu_s(write), _cpu_s(read)
    for client in (consumer, producer, admin):
        client.close()
    return found


def by_local(records: Records) -> Seconds:
    """The system `local`."""
    with tempfile.TemporaryDirectory() as folder:
        settings = SystemSettings("local", "", properties={"path": str(Path(folder) / "local.db")})
        return _by(LocalSystemFactory(), settings, records)


def by_memory(records: Records) -> Seconds:
    """The system `memory`."""
    try:
        return _by(MemorySystemFactory(), SystemSettings("memory", ""), records)
    finally:
        MemoryCluster.forget("memory")


#: A system, its loop by hand, and whether the records have headers.
ROWS: dict[str, tuple[Callable[[Records], Seconds], Callable[[Records], Seconds], bool]] = {
    "local beside SQLite": (by_local, by_sqlite, False),
    "local beside SQLite, headers": (by_local, by_sqlite, True),
    "memory beside lists": (by_memory, by_lists, False),
}


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedded", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--records", type=int, default=COUNT)
    options = parser.parse_args()
    print(f"{'system':30} {'':6} {'records/CPU-s':>14} {'CPU-s/M':>8} {'by hand':>8} {'ratio':>6}")
    for name, (ours, by_hand, headers) in ROWS.items():
        records = _records(options.records, headers=headers)
        turns = [(ours(records), by_hand(records)) for _ in range(options.rounds)]
        for place, what in enumerate(("write", "read")):
            own, hand = (min(turn[side][place] for turn in turns) / len(records) * 1e6 for side in (0, 1))
            print(f"{name:30} {what:6} {1e6 / own:14,.0f} {own:8.2f} {hand:8.2f} {own / hand:6.2f}")


if __name__ == "__main__":
    main()
