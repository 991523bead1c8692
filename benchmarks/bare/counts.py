"""Counts by key of one partition, within the bounds that the job's store has: so many objects, in batches of so many.

A dict of everything that has changed since the last commit would be simpler and faster, and would grow with the keys.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

#: `object.cache.size` and `write.batch.size` of the job.
CACHE_SIZE = 1_000
BATCH_SIZE = 500
_LONG = struct.Struct(">q")
_MARKER = b"\x00marker"


class Counts:
    """`cache` holds at most CACHE_SIZE counts, `dirty` those among them that are not serialized yet; serialized ones
    wait in `_pending`, as bytes, for the commit. RocksDB is below."""

    __slots__ = ("_db", "_no_log", "_pending", "cache", "dirty")

    def __init__(self, folder: Path) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._db = Rdict(str(folder), options)
        self._no_log = WriteOptions()
        self._no_log.disable_wal = True
        self.cache: OrderedDict[str, int] = OrderedDict()
        self.dirty: dict[str, int] = {}
        self._pending: dict[bytes, bytes] = {}

    def read(self, key: str) -> int:
        """The count of a key that is not in the cache."""
        raw = key.encode()
        data = self._pending.get(raw)
        if data is None:
            data = self._db.get(raw)
        return 0 if data is None else _LONG.unpack(data)[0]

    def serialize(self) -> None:
        """Move what is dirty to the bytes."""
        pack = _LONG.pack
        self._pending.update([(key.encode(), pack(count)) for key, count in self.dirty.items()])
        self.dirty.clear()

    def evict(self) -> None:
        """Drop the count that was not used for longest."""
        if self.cache.popitem(last=False)[0] in self.dirty:
            self.serialize()

    def changes(self) -> dict[bytes, bytes]:
        """What has changed since the last commit."""
        self.serialize()
        return self._pending

    def commit(self, position: int) -> None:
        """Write the changes and the position in one batch."""
        batch = WriteBatch(raw_mode=True)
        for key, value in self._pending.items():
            batch.put(key, value)
        batch.put(_MARKER, _LONG.pack(position))
        self._db.write(batch, self._no_log)
        self._pending = {}

    def close(self) -> None:
        """Flush and close the database."""
        self._db.flush()
        self._db.close()
