"""Counts by key of one partition, kept in three ways: without bound, within the bounds of a small cache, and not at
all.

The first two keep what the changelog has in RocksDB, too, with the input position, so that a restart need not read it.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import OrderedDict
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

#: Of the small cache: objects it holds, and changes that are serialized in one go.
CACHE_SIZE = 1_000
BATCH_SIZE = 500
_LONG = struct.Struct(">q")
_MARKER = b"\x00marker"


class Counts(ABC):
    """`values` are the counts in memory, `dirty` those that have changed since they were last serialized. A loop reads
    and writes both."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.dirty: dict[str, int] = {}

    @abstractmethod
    def changes(self) -> dict[bytes, bytes]:
        """What has changed since the last commit, serialized."""

    @abstractmethod
    def commit(self, position: int) -> None:
        """Keep the changes and the position."""

    @abstractmethod
    def close(self) -> None:
        """Flush and close."""


class CountsInMemory(Counts):
    """Keeps nothing."""

    def changes(self) -> dict[bytes, bytes]:
        self.dirty.clear()
        return {}

    def commit(self, position: int) -> None:
        pass

    def close(self) -> None:
        pass


class CountsInRocksDB(Counts):
    """A dict without bound over RocksDB, which is read once, when it is opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._db = Rdict(str(folder), options)
        self._no_log = WriteOptions()
        self._no_log.disable_wal = True
        self._pending: dict[bytes, bytes] = {}
        self._load()

    def _load(self) -> None:
        read = self._db.iter()
        read.seek_to_first()
        while read.valid():
            if read.key() != _MARKER:
                self.values[read.key().decode()] = _LONG.unpack(read.value())[0]
            read.next()

    def serialize(self) -> None:
        """Move what is dirty to the bytes."""
        pack = _LONG.pack
        self._pending.update([(key.encode(), pack(count)) for key, count in self.dirty.items()])
        self.dirty.clear()

    def changes(self) -> dict[bytes, bytes]:
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
        self._db.flush()
        self._db.close()


class BoundedCounts(CountsInRocksDB):
    """At most CACHE_SIZE counts as objects, the least recently used ones leave. A loop calls `read` for a count that is
    not there, `serialize` for BATCH_SIZE dirty ones, `evict` for one too many."""

    values: OrderedDict[str, int]

    def _load(self) -> None:
        self.values = OrderedDict()

    def read(self, key: str) -> int:
        """The count of a key that is not in the cache."""
        raw = key.encode()
        data = self._pending.get(raw)
        if data is None:
            data = self._db.get(raw)
        return 0 if data is None else _LONG.unpack(data)[0]

    def evict(self) -> None:
        """Drop the count that was not used for longest."""
        if self.values.popitem(last=False)[0] in self.dirty:
            self.serialize()
