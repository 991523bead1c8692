"""Finds equal strings among many byte strings, and sorts them, without an object for each.

Strings are compared as numbers, eight bytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from samzapy.storage.rocksdb.arena import WORD, Arena, Rows

#: Bytes of a string that are taken as numbers.
_COLUMNS = 256
#: Rows of one step: its data stay in the processor's cache.
_STEP = 32_768
#: An odd number without a pattern: 2**64 divided by the golden ratio.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

Numbers = NDArray[np.uint64]
Marks = NDArray[np.bool_]


class _Columns:
    """The bytes of strings from 0, 8, 16 on as big-endian numbers, padded with zeros."""

    __slots__ = ("_last", "_lengths", "_shortest", "_starts", "_words", "places")

    def __init__(self, arena: Arena) -> None:
        self._lengths, self._starts, self._words = arena.lengths(), arena.starts(), arena.words()
        self._last = len(self._words) - 1
        self._shortest = int(self._lengths.min(initial=_COLUMNS))
        #: The bytes at which the columns begin.
        self.places = range(0, min(int(self._lengths.max(initial=0)), _COLUMNS), WORD)

    def column(self, at: int, rows: Rows) -> Numbers:
        """The column of `rows` from byte `at` on."""
        first = self._starts[rows] + at
        if at + WORD <= self._shortest:
            return self._words[first].astype(np.uint64)
        np.minimum(first, self._last, out=first)
        left = np.clip(self._lengths[rows].astype(np.int64) - at, 0, WORD)
        # A shift by all 64 bits gives 0.
        beyond = (8 * (WORD - left)).astype(np.uint64)
        return self._words[first].astype(np.uint64) >> beyond << beyond

    def mixed(self, rows: Rows) -> Numbers:
        """Hashes of `rows`: equal for equal strings, and rarely for others."""
        mixed: Numbers = self._lengths[rows].astype(np.uint64)
        for at in self.places:
            mixed ^= self.column(at, rows)
            mixed *= _SPREAD
            mixed ^= mixed >> _HALF
        mixed *= _SPREAD
        return mixed

    def same(self, rows: Rows, others: Rows) -> Marks:
        """Whether `rows` and `others` have the same strings; never for strings that go beyond the columns."""
        lengths = self._lengths[rows]
        same: Marks = (lengths == self._lengths[others]) & (lengths <= _COLUMNS)
        for at in self.places:
            same &= self.column(at, rows) == self.column(at, others)
        return same


def unreplaced(arena: Arena) -> Rows:
    """The rows in order, without most rows whose string comes again later. The last row of each string is always
    kept."""
    columns, count = _Columns(arena), len(arena.lengths())
    bits = count.bit_length() + 1
    place = np.empty(count, np.uint32)
    for rows in _steps(count):
        place[rows] = columns.mixed(rows) >> np.uint64(64 - bits)
    # Each place belongs to the last row with its hash. A row with another string at its place is kept, which does no harm.
    last = np.zeros(1 << bits, np.int32)
    last[place] = np.arange(count, dtype=np.int32)
    kept = np.ones(count, np.bool_)
    for rows in _steps(count):
        later = last[place[rows]].astype(np.intp)
        there = later > rows
        some = rows[there]
        kept[some] = ~columns.same(some, later[there])
    return np.flatnonzero(kept)


def key_order(arena: Arena, rows: Rows) -> tuple[Rows, Marks]:
    """The ascending `rows`, sorted by their strings in unsigned byte order, stable for equal strings; and for each place in
    that order whether another string begins there.

    Each column sorts only the rows that the columns before leave equal, so a common prefix costs no sort.
    """
    order, new = rows.copy(), np.zeros(len(rows), np.bool_)
    new[:1] = True
    columns = _Columns(arena)
    for at in columns.places:
        _refine(order, new, columns.column(at, order))
    # Rows that are still equal differ in zeros at their ends, or beyond the columns.
    _refine(order, new, _ends(arena)[order])
    return order, new


def _refine(order: Rows, new: Marks, found: Numbers) -> None:
    """Sort the rows between two marks by their numbers `found`, and mark the places where these change."""
    mixed = (found[1:] != found[:-1]) & ~new[1:]
    if not mixed.any():
        return
    if not new[1:].any():
        by = np.argsort(found, kind="stable")
        order[:] = order[by]
        found = found[by]
        new[1:] = found[1:] != found[:-1]
        return
    group = np.cumsum(new, dtype=np.int32)
    torn = np.zeros(int(group[-1]) + 1, np.bool_)
    torn[group[1:][mixed]] = True
    places = np.flatnonzero(torn[group])
    by = np.lexsort((found[places], group[places]))
    order[places] = order[places][by]
    found = found[places][by]
    new[places[1:]] |= found[1:] != found[:-1]


def _ends(arena: Arena) -> Numbers:
    """The length of each string that fits into the columns, and for longer ones a larger number by their further bytes."""
    lengths = arena.lengths()
    ranks = lengths.astype(np.uint64)
    long = np.flatnonzero(lengths > _COLUMNS)
    if len(long):
        memory, starts = arena.memory(), arena.starts()[long]
        bounds = zip((starts + _COLUMNS).tolist(), (starts + lengths[long]).tolist(), strict=True)
        rests = [memory[start:end].tobytes() for start, end in bounds]
        rank = {rest: number for number, rest in enumerate(sorted(set(rests)), _COLUMNS + 1)}
        ranks[long] = list(map(rank.__getitem__, rests))
    return ranks


def _steps(count: int) -> Iterator[Rows]:
    return (np.arange(first, min(first + _STEP, count)) for first in range(0, count, _STEP))
