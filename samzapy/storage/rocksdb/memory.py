"""The memory that the RocksDB stores of a container share: one block cache, and one limit of all memtables.

1. Stores without a `container.cache.size.bytes` of their own share one cache of the blocks used last.
2. Stores without a `container.write.buffer.size.bytes` of their own count their memtables together. Beyond seven eighths of the
   limit, a write flushes the memtable of its own store; RocksDB does not flush an idle store's. So memory stays near the
   limit, no write waits, and many idle stores with full memtables make the files of the others small.

Each part of a store that was written to has an arena block at the least, an eighth of its write buffer and 1 MiB at the
most, so a limit below the sum of these has no further effect.

Filters and indexes of open tables are outside of both: about 1.5 bytes a key of the store, for as long as a table is open.

A container is a process, so its share is found by the process; it is given back with the last store's factory.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakValueDictionary

from rocksdict import Cache, WriteBufferManager


class SharedMemory:
    """`cache` is None for none; `memtables` counts all memtables that are opened with it."""

    def __init__(self, cache_bytes: int, memtable_bytes: int) -> None:
        self.cache = Cache(cache_bytes) if cache_bytes else None
        # A stall would make writers wait for a flush that, with many stores, only another store's write begins.
        self.memtables = WriteBufferManager(memtable_bytes, False)


_SHARED: WeakValueDictionary[tuple[int, int, int], SharedMemory] = WeakValueDictionary()
_LOCK = threading.Lock()


def shared_memory(cache_bytes: int, memtable_bytes: int) -> SharedMemory:
    """The memory that the stores of this process share, as long as one of them holds it; the same for the same sizes."""
    key = os.getpid(), cache_bytes, memtable_bytes
    with _LOCK:
        found = _SHARED.get(key)
        if found is None:
            found = _SHARED[key] = SharedMemory(cache_bytes, memtable_bytes)
        return found
