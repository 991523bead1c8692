"""More records than fit in memory, sorted on their way into a store."""

from __future__ import annotations

import operator
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    DBCompressionType,
    MemtableFactory,
    Options,
    Rdict,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from samzapy.api.engine import Load
from samzapy.errors import StoreError
from samzapy.storage.rocksdb.cursor import MARKER_KEY
from samzapy.storage.rocksdb.failures import translated

#: Below the store's own directory, so on the same disk; what a killed process leaves goes at the next opening.
FOLDER = "loading"
#: Memtables that are flushed to one file. Each is sorted by itself, so it has to fit in the processor's cache: 16 of
#: 1 MiB cost 0.9 CPU-us a record, one of 16 MiB 1.2.
_MERGED = 16
#: Files whose memtables may fill or wait at a time, and the part of the memory that the memtables of one file are; the
#: rest is for RocksDB's work on them.
_WAITING = 3
_PARTS = 24
_SMALLEST_MEMTABLE = 65_536
#: Files of one load, which are merged at its end.
_MOST_FILES = 100
#: Records of one write.
_BATCH = 5_000
#: Deleted keys that are remembered, if the store has others that they may delete.
_MOST_DELETED = 500_000
_NEVER = 1_000_000


class SortedLoad(Load):
    """An external sort by RocksDB: records go in the order of their arrival into a database of their own, whose
    memtables are arrays that its threads sort and write to files while the next one fills; at the end the files are
    merged into one that the store takes in.

    A dictionary of a million entries costs a record several misses of the processor's caches, an append costs none.
    It is in no order, is never read before its end and has no log: nothing in it survives.
    """

    def __init__(self, folder: Path, memory_bytes: int, take_in: TakeIn, *, over_others: bool) -> None:
        """`take_in`: makes a file by the function it is given, and puts it into the store. `over_others`: the store is
        not empty, so that deletions matter."""
        self._folder = folder
        self._take_in = take_in
        self._over_others = over_others
        self._deleted: set[bytes] = set()
        self._bytes = 0
        memtable = max(_SMALLEST_MEMTABLE, memory_bytes // _PARTS // _MERGED)
        self._most_bytes = _MOST_FILES * _MERGED * memtable
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True
        self._batch = WriteBatch(raw_mode=True)
        try:
            self._db: Any = Rdict(str(folder), _options(memtable))
        except Exception as cause:
            raise translated(cause, folder, "opening") from cause

    def add(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bool:
        try:
            try:
                # A map that is drained runs without a Python frame a record.
                deque(map(operator.setitem, repeat(self._batch), keys, values), maxlen=0)
            except ValueError:
                # A deletion. What came before it is taken twice; the last one counts.
                self._add_with_deletions(keys, values)
            if len(self._batch) >= _BATCH:
                self._write()
        except Exception as cause:
            raise translated(cause, self._folder, "taking records") from cause
        return self._bytes >= self._most_bytes or len(self._deleted) >= _MOST_DELETED

    def finish(self, marker: bytes) -> None:
        try:
            self._write()
            reserved = self._db.get(MARKER_KEY) is not None
            self._batch[MARKER_KEY] = marker
            self._write()
            self._db.flush(True)
        except Exception as cause:
            raise translated(cause, self._folder, "sorting") from cause
        if reserved:
            raise StoreError(f"{self._folder.parent}: key {MARKER_KEY!r} is reserved")
        self._take_in(self._fill)
        self.discard()

    def discard(self) -> None:
        """Forget everything; twice is allowed."""
        db, self._db = self._db, None
        if db is not None:
            self._deleted.clear()
            db.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _add_with_deletions(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        batch, deleted = self._batch, self._deleted
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                batch[key] = value
            else:
                del batch[key]
                if self._over_others:
                    deleted.add(key)  # type: ignore[arg-type]

    def _write(self) -> None:
        self._bytes += self._batch.size_in_bytes()
        self._db.write(self._batch, self._without_log)
        self._batch = WriteBatch(raw_mode=True)

    def _fill(self, writer: SstFileWriter) -> None:
        rows = self._db.iter()
        rows.seek_to_first()
        valid, key, value, advance = rows.valid, rows.key, rows.value, rows.next
        gone = sorted(self._deleted, reverse=True)
        while gone and valid():
            at = key()
            while gone and gone[-1] <= at:
                if (absent := gone.pop()) != at:
                    del writer[absent]
            writer[at] = value()
            advance()
        while valid():
            writer[key()] = value()
            advance()
        rows.status()
        for absent in reversed(gone):
            del writer[absent]


#: Puts a file into the store that is made by the function it is given.
TakeIn = Callable[[Callable[[SstFileWriter], None]], None]


def remove_leftover(path: Path) -> None:
    """Delete what a process that was killed while it sorted has left in the store at `path`."""
    shutil.rmtree(path / FOLDER, ignore_errors=True)


def _options(memtable: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_memtable_factory(MemtableFactory.vector())
    options.set_allow_concurrent_memtable_write(False)
    options.set_write_buffer_size(memtable)
    options.set_min_write_buffer_number_to_merge(_MERGED)
    options.set_max_write_buffer_number(_WAITING * _MERGED)
    options.set_disable_auto_compactions(True)
    options.set_level_zero_slowdown_writes_trigger(_NEVER)
    options.set_level_zero_stop_writes_trigger(_NEVER)
    options.set_max_background_jobs(2)
    options.set_compression_type(DBCompressionType.none())
    table = BlockBasedOptions()
    table.disable_cache()
    table.set_block_size(65_536)
    options.set_block_based_table_factory(table)
    return options
