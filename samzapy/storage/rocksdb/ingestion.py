"""Loads many changes at once as a file, which RocksDB ingests past its memtables."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path

from rocksdict import IngestExternalFileOptions, Options, Rdict, SstFileWriter

from samzapy.api.engine import Changes
from samzapy.failpoints import reach
from samzapy.storage.rocksdb.cursor import MARKER_KEY

#: With fewer changes a batch is as fast: a file costs two syncs and a flush of the memtable.
FEWEST = 20_000
#: The file while it is written, in the store's directory so that RocksDB can ingest it by a link.
_FILE = "loading.sst"
#: Records written before other threads get a turn: the heartbeat needs one.
_SLICE = 10_000


def ingest(db: Rdict, path: Path, options: Options, fill: Callable[[SstFileWriter], None]) -> None:
    """Make one file with the `options` of the store at `path`, and load it. `fill` writes its entries in order, with a marker.

    RocksDB ingests a file by one entry of its manifest, after it has flushed the memtable with the previous marker. So data
    and marker are loaded together or not at all, and then survive a kill.
    """
    file = path / _FILE
    try:
        writer = SstFileWriter(options)
        writer.open(str(file))
        fill(writer)
        writer.finish()
        reach("restore.file")
        how = IngestExternalFileOptions()
        how.set_move_files(True)
        db.ingest_external_file([str(file)], how)
        reach("restore.loaded")
    finally:
        file.unlink(missing_ok=True)


def remove_leftover(path: Path) -> None:
    """Delete the file that a process left in the store at `path` when it was killed while writing."""
    (path / _FILE).unlink(missing_ok=True)


def write_changes(writer: SstFileWriter, changes: Changes, marker: bytes) -> None:
    """Write `changes`, which are in any order, and their marker."""
    keys = sorted(changes)
    before = bisect_left(keys, MARKER_KEY)
    put = _put_and_delete if None in changes.values() else _put
    put(writer, changes, keys[:before])
    writer[MARKER_KEY] = marker
    put(writer, changes, keys[before:])


def _put(writer: SstFileWriter, changes: Changes, keys: Sequence[bytes]) -> None:
    for first in range(0, len(keys), _SLICE):
        some = keys[first : first + _SLICE]
        # A map that is drained runs without a Python frame a record.
        deque(map(operator.setitem, repeat(writer), some, map(changes.__getitem__, some)), maxlen=0)


def _put_and_delete(writer: SstFileWriter, changes: Changes, keys: Sequence[bytes]) -> None:
    for key in keys:
        value = changes[key]
        if value is None:
            del writer[key]
        else:
            writer[key] = value
