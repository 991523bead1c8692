"""Counts by key of one partition: a cache, what has changed since the last commit, RocksDB below."""

from __future__ import annotations

import struct
from collections import OrderedDict
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

CACHE_SIZE = 1_000
_LONG = struct.Struct(">q")
_MARKER = b"\x00marker"


class Counts:
    """`dirty` holds every count that has changed since the last commit, `cache` the last CACHE_SIZE others."""

    __slots__ = ("_db", "_no_log", "cache", "dirty")

    def __init__(self, folder: Path) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._db = Rdict(str(folder), options)
        self._no_log = WriteOptions()
        self._no_log.disable_wal = True
        self.cache: OrderedDict[str, int] = OrderedDict()
        self.dirty: dict[str, int] = {}

    def read(self, key: str) -> int:
        """The count of a key that has not changed since the last commit."""
        cache = self.cache
        count = cache.get(key)
        if count is not None:
            cache.move_to_end(key)
            return count
        data = self._db.get(key.encode())
        count = _LONG.unpack(data)[0] if data is not None else 0
        cache[key] = count
        if len(cache) > CACHE_SIZE:
            cache.popitem(last=False)
        return count

    def changes(self) -> list[tuple[bytes, bytes]]:
        """What has changed, serialized."""
        pack = _LONG.pack
        return [(key.encode(), pack(count)) for key, count in self.dirty.items()]

    def commit(self, changes: list[tuple[bytes, bytes]], position: int) -> None:
        """Write the changes and the position in one batch."""
        batch = WriteBatch(raw_mode=True)
        for key, value in changes:
            batch.put(key, value)
        batch.put(_MARKER, _LONG.pack(position))
        self._db.write(batch, self._no_log)
        self.cache.update(self.dirty)
        while len(self.cache) > CACHE_SIZE:
            self.cache.popitem(last=False)
        self.dirty.clear()

    def close(self) -> None:
        """Flush and close the database."""
        self._db.flush()
        self._db.close()
