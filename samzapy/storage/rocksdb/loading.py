"""Gathers many records of a changelog, and loads the last one of each key into a store, sorted, as one file."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rocksdict import SstFileWriter

from samzapy.api.engine import Load
from samzapy.errors import StoreError
from samzapy.storage.rocksdb.arena import Arena, Rows
from samzapy.storage.rocksdb.cursor import MARKER_KEY
from samzapy.storage.rocksdb.key_order import key_order, unreplaced

#: Bytes of memory that a record takes besides its key and value, while it is sorted.
_ROW_BYTES = 48
#: Dropping overwritten records must free so much of the memory, or it would soon be due again.
_ROOM = 0.75
#: Fewer records wait for others, since packing costs some microseconds a call.
_FEW = 100
_FEW_BYTES = 1_048_576

#: Makes a file by the given function and loads it into the store.
TakeIn = Callable[[Callable[[SstFileWriter], None]], None]


class SortedLoad(Load):
    """Appends records; when the memory is full it drops records that later ones of their keys replace.

    A dictionary of a million entries costs several cache misses a record, an append costs none.
    """

    def __init__(self, path: Path, memory_bytes: int, take_in: TakeIn, *, over_others: bool) -> None:
        """`path`: the store, for errors. `over_others`: it is not empty, so that deletions matter."""
        self._path = path
        self._memory_bytes = memory_bytes
        self._take_in = take_in
        self._over_others = over_others
        self._rows = 0
        self._keys = Arena(memory_bytes)
        self._values = Arena(memory_bytes)
        self._deleted: list[NDArray[np.bool_]] = []
        self._given_up = False
        self._few: tuple[list[bytes | None], list[bytes | None]] = [], []

    def add(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bool:
        if len(keys) < _FEW or self._few[0]:
            if None in keys:
                raise self._refused("a key None")
            keys, values = [*self._few[0], *keys], [*self._few[1], *values]
            self._few = [], []
            if len(keys) < _FEW and sum(map(len, filter(None, values))) < _FEW_BYTES:
                self._few = keys, values
                return False
        self._pack(keys, values)
        if self._size() < self._memory_bytes:
            return False
        self._forget_replaced()
        return self._size() >= _ROOM * self._memory_bytes

    def finish(self, marker: bytes) -> None:
        self._pack(*self._few)
        rows = self._last_in_order()
        keys_of = self._keys.reader()
        # Keys are read in place: no key becomes an object before it is written.
        before = bisect_left(rows, MARKER_KEY, key=lambda row: next(keys_of(np.array([row]))))
        if next(keys_of(rows[before : before + 1]), None) == MARKER_KEY:
            raise StoreError(f"{self._path}: key {MARKER_KEY!r} is reserved")

        def fill(writer: SstFileWriter) -> None:
            self._write(writer, rows[:before])
            writer[MARKER_KEY] = marker
            self._write(writer, rows[before:])

        self._take_in(fill)
        self.discard()

    def give_up(self) -> None:
        self._given_up = True

    def discard(self) -> None:
        """Forget everything; twice is allowed."""
        self._keys.clear()
        self._values.clear()

    def _pack(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        deleted = None
        try:
            joined_keys = b"".join(keys)  # type: ignore[arg-type]
            try:
                joined = b"".join(values)  # type: ignore[arg-type]
            except TypeError:
                deleted = np.fromiter((value is None for value in values), np.bool_, len(values))
                values = [b"" if value is None else value for value in values]
                joined = b"".join(values)  # type: ignore[arg-type]
        except TypeError as cause:
            raise self._refused(str(cause)) from cause
        self._keys.append(keys, joined_keys)  # type: ignore[arg-type]
        self._values.append(values, joined)  # type: ignore[arg-type]
        self._deleted.append(np.zeros(len(keys), np.bool_) if deleted is None else deleted)
        self._rows += len(keys)
        self.taken_bytes += len(joined_keys) + len(joined)

    def _size(self) -> int:
        return self._keys.used + self._values.used + _ROW_BYTES * self._rows

    def _last_in_order(self) -> Rows:
        order, new = key_order(self._keys, unreplaced(self._keys))
        return order[np.append(new[1:], True)] if len(order) else order

    def _forget_replaced(self) -> None:
        rows = unreplaced(self._keys)
        self._keys.keep(rows)
        self._values.keep(rows)
        self._deleted = [self._deletions()[rows]]
        self._rows = len(rows)

    def _deletions(self) -> NDArray[np.bool_]:
        self._deleted = [np.concatenate([np.empty(0, np.bool_), *self._deleted])]
        return self._deleted[0]

    def _write(self, writer: SstFileWriter, rows: Rows) -> None:
        keys_of, values_of, deletions = self._keys.reader(), self._values.reader(), self._deletions()
        if not self._over_others:
            # An empty store has nothing that a deletion could delete.
            rows = rows[~deletions[rows]]
        part = min(self._keys.part(), self._values.part())
        for first in range(0, len(rows), part):
            if self._given_up:
                raise StoreError(f"{self._path}: the load was given up")
            some = rows[first : first + part]
            deleted = deletions[some]
            if deleted.any():
                for key, value, gone in zip(keys_of(some), values_of(some), deleted.tolist(), strict=True):
                    if gone:
                        del writer[key]
                    else:
                        writer[key] = value
            else:
                # A map that is drained runs without a Python frame a record.
                deque(map(operator.setitem, repeat(writer), keys_of(some), values_of(some)), maxlen=0)

    def _refused(self, why: str) -> StoreError:
        return StoreError(f"{self._path}: taking records: {why}")
