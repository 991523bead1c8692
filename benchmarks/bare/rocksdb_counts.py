"""Count keys in RocksDB alone, with the options of a store: each event reads a count and writes the next one.

There is no Kafka, no changelog and no cache of objects. This is what a store cannot be cheaper than when its cache
never hits.
"""

from __future__ import annotations

import argparse
import random
import struct
from pathlib import Path

from rocksdict import Cache, Rdict, WriteBatch, WriteOptions

from benchmarks.bare.stopwatch import Stopwatch
from samzapy.storage.rocksdb.options import RocksDbOptions

#: Changes that are written in one batch, as a commit of two seconds does.
_BATCH = 100_000
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
    db.flush()
    chance = random.Random(7)
    events = [b"u%07d" % chance.randrange(options.keys) for _ in range(options.events)]
    watch = Stopwatch()
    _count(db, events, no_log)
    watch.report(len(events))
    db.close()


def _count(db: Rdict, events: list[bytes], no_log: WriteOptions) -> None:
    pending: dict[bytes, bytes] = {}
    unpack, pack, get = _LONG.unpack, _LONG.pack, db.get
    for key in events:
        data = pending.get(key)
        if data is None:
            data = get(key)
        pending[key] = pack(unpack(data)[0] + 1)
        if len(pending) == _BATCH:
            _write(db, pending, no_log)
            pending = {}
    _write(db, pending, no_log)


def _write(db: Rdict, changes: dict[bytes, bytes], no_log: WriteOptions) -> None:
    batch = WriteBatch(raw_mode=True)
    for key, value in changes.items():
        batch.put(key, value)
    db.write(batch, no_log)


if __name__ == "__main__":
    main()
