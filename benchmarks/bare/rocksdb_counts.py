"""Count keys in RocksDB alone, with the options of a store: each event reads a count and writes the next one.

There is no Kafka, no changelog and no cache of objects. This is what a store cannot be cheaper than when its cache
never hits.
"""

from __future__ import annotations

import argparse
import operator
import random
import struct
from collections import deque
from itertools import repeat
from pathlib import Path

from rocksdict import Cache, Rdict, WriteBatch, WriteOptions

from benchmarks.bare.stopwatch import Stopwatch
from samzapy.storage.rocksdb.options import RocksDbOptions

#: Events between two writes, as a commit of two seconds has: their changes are one batch, and are forgotten then.
_BATCH = 150_000
_LONG = struct.Struct(">q")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    options = parser.parse_args()
    settings = RocksDbOptions()
    db = Rdict(str(options.folder), settings.to_options(Cache(settings.block_cache_bytes)))
    no_log = WriteOptions()
    no_log.disable_wal = True
    for first in range(0, options.keys, _BATCH):
        keys = range(first, min(first + _BATCH, options.keys))
        _write(db, {b"u%07d" % key: _LONG.pack(key) for key in keys}, no_log)
    # One sorted run, as a restore leaves it; no compaction of it is measured.
    db.compact_range(None, None)
    chance = random.Random(7)
    events = [b"u%07d" % chance.randrange(options.keys) for _ in range(options.events)]
    watch = Stopwatch()
    for first in range(0, len(events), _BATCH):
        _write(db, _counted(db, events[first : first + _BATCH]), no_log)
    watch.report(len(events))
    db.close()


def _counted(db: Rdict, events: list[bytes]) -> dict[bytes, bytes]:
    changes: dict[bytes, bytes] = {}
    unpack, pack, get = _LONG.unpack, _LONG.pack, db.get
    for key in events:
        data = changes.get(key)
        if data is None:
            data = get(key)
        changes[key] = pack(unpack(data)[0] + 1)
    return changes


def _write(db: Rdict, changes: dict[bytes, bytes], no_log: WriteOptions) -> None:
    batch = WriteBatch(raw_mode=True)
    deque(map(operator.setitem, repeat(batch), changes, changes.values()), maxlen=0)
    db.write(batch, no_log)


if __name__ == "__main__":
    main()
