"""Gathers the records of a changelog: the last value of each key, in the order of the keys.

Records are rows of two arenas, one of keys and one of values. A dictionary of a million entries costs several cache
misses per record, and objects take twice the memory; an append costs none. Rows are compared as numbers, eight bytes at
a time:

    bytes of the arenas + _ROW_BYTES * rows < memory_bytes, or the gatherer is full

A full gatherer first drops the rows whose keys come again later.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]
Marks = NDArray[np.bool_]
Lengths = NDArray[np.int64]
#: Row numbers.
Rows = NDArray[np.intp]

#: Bytes of memory that a row takes besides its key and value, while it is sorted.
_ROW_BYTES = 48
#: Dropping replaced rows must free so much of the memory, or it would soon be due again.
_ROOM = 0.75
#: Rows, or their approximate bytes, to read at a time: the copies fit into the processor's cache.
_PART, _PART_BYTES = 5_000, 1_048_576
#: Bytes of a number, and of a key that are compared as numbers.
WORD, COLUMNS = 8, 256
#: Rows of one step of a comparison: its data stay in the processor's cache.
_STEP = 32_768
#: An odd number without a pattern: 2**64 divided by the golden ratio.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class Arena:
    """Byte strings as rows of one contiguous piece of memory, in the order of their arrival."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._lengths: list[Lengths] = []
        self.used = 0

    def append(self, strings: Sequence[bytes], joined: bytes) -> None:
        """Add rows; `joined` is all of them in one. Raises MemoryError."""
        end = self.used + len(joined)
        if end + WORD > len(self._memory):
            try:
                self._memory.resize(max(end + WORD, 2 * len(self._memory)))
            except OSError as cause:
                raise MemoryError(f"{end} bytes of records: {cause}") from cause
        self._memory[self.used : end] = joined
        self.used = end
        self._lengths.append(np.fromiter(map(len, strings), np.int64, len(strings)))

    def part(self) -> int:
        """The number of rows to read at a time."""
        return max(1, min(_PART, _PART_BYTES * len(self.lengths()) // max(1, self.used)))

    def lengths(self) -> Lengths:
        """The length of every row in bytes."""
        if len(self._lengths) != 1:
            self._lengths = [np.concatenate([np.empty(0, np.int64), *self._lengths])]
        return self._lengths[0]

    def starts(self) -> Lengths:
        """The index in the memory where each row begins."""
        starts = np.zeros(len(self.lengths()), np.int64)
        np.cumsum(self.lengths()[:-1], out=starts[1:])
        return starts

    def words(self) -> Numbers:
        """For every byte the number of it and the seven bytes after it, big-endian. Valid up to the next `append`."""
        words: Numbers = np.ndarray((self.used,), ">u8", self._memory, strides=(1,))
        return words

    def reader(self) -> Callable[[Rows], Iterator[bytes]]:
        """Return a function from at most `part` rows to their strings, valid up to the next `append` or `keep`."""
        lines = self._lines()
        if lines is not None:
            length = lines.shape[1]
            cuts = [slice(end - length, end) for end in range(length, (self.part() + 1) * length, length)]
            return lambda rows: map(lines.take(rows, axis=0).tobytes().__getitem__, cuts[: len(rows)])
        starts, lengths, read = self.starts(), self.lengths(), self._memory.__getitem__

        def strings(rows: Rows) -> Iterator[bytes]:
            first = starts[rows]
            if self.used:
                # Fetches many rows into the processor's caches at a time; single reads would wait for each row.
                np.frombuffer(self._memory, np.uint8, self.used).take(first, mode="clip")
            return map(read, map(slice, first.tolist(), (first + lengths[rows]).tolist()))

        return strings

    def _lines(self) -> NDArray[np.uint8] | None:
        """The rows as lines of a matrix, if they have one length."""
        lengths = self.lengths()
        length = int(lengths[0]) if len(lengths) else 0
        if not length or not bool((lengths == length).all()):
            return None
        return np.frombuffer(self._memory, np.uint8, self.used).reshape(len(lengths), length)

    def keep(self, rows: Rows) -> None:
        """Keep these rows, which are in order, and forget the others."""
        # Kept rows only move down, over bytes that were read before.
        end, part, lines, strings = 0, self.part(), self._lines(), self.reader()
        for first in range(0, len(rows), part):
            some = rows[first : first + part]
            joined = b"".join(strings(some)) if lines is None else lines.take(some, axis=0).tobytes()
            self._memory[end : end + len(joined)] = joined
            end += len(joined)
        self._lengths = [self.lengths()[rows]]
        self.used = end


class SortedRecords:
    """The records gathered so far, for one load of an engine."""

    def __init__(self) -> None:
        self._keys, self._values = Arena(), Arena()
        self._deleted: list[Marks] = [np.empty(0, np.bool_)]
        self._rows = 0

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return self._keys.used + self._values.used + _ROW_BYTES * self._rows

    def add(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> int:
        """Add records in order; a value of None is a deletion. Returns their bytes. Raises MemoryError."""
        deleted = np.zeros(len(keys), np.bool_)
        try:
            joined = b"".join(values)  # type: ignore[arg-type]  # a deletion is found out below
        except TypeError:
            deleted[:] = [value is None for value in values]
            values = [value or b"" for value in values]
            joined = b"".join(values)  # type: ignore[arg-type]
        joined_keys = b"".join(keys)
        self._keys.append(keys, joined_keys)
        self._values.append(values, joined)  # type: ignore[arg-type]
        self._deleted.append(deleted)
        self._rows += len(keys)
        return len(joined_keys) + len(joined)

    def is_full(self, memory_bytes: int) -> bool:
        """Whether the records take `memory_bytes`, also without the replaced ones."""
        if self.size < memory_bytes:
            return False
        rows = unreplaced(self._keys)
        self._keys.keep(rows)
        self._values.keep(rows)
        self._deleted = [np.concatenate(self._deleted)[rows]]
        self._rows = len(rows)
        return self.size >= _ROOM * memory_bytes

    def parts(self) -> Iterator[tuple[list[bytes], list[bytes | None]]]:
        """The last value of each key, None for a deletion, in unsigned byte order of the keys: parts of the keys, each
        with its values."""
        order, new = key_order(self._keys, unreplaced(self._keys))
        rows = order[np.append(new[1:], True)] if len(order) else order
        keys_of, values_of, deletions = self._keys.reader(), self._values.reader(), np.concatenate(self._deleted)
        part = min(self._keys.part(), self._values.part())
        for first in range(0, len(rows), part):
            some = rows[first : first + part]
            values: list[bytes | None] = list(values_of(some))
            for place in np.flatnonzero(deletions[some]).tolist():
                values[place] = None
            yield list(keys_of(some)), values


class _Columns:
    """The bytes of strings from 0, 8, 16 on as big-endian numbers, padded with zeros."""

    def __init__(self, arena: Arena) -> None:
        self._lengths, self._starts, self._words = arena.lengths(), arena.starts(), arena.words()
        self._last = len(self._words) - 1
        self._shortest = int(self._lengths.min(initial=COLUMNS))
        #: The bytes at which the columns begin.
        self.places = range(0, min(int(self._lengths.max(initial=0)), COLUMNS), WORD)

    def column(self, at: int, rows: Rows) -> Numbers:
        """The column of `rows` from byte `at` on."""
        first = self._starts[rows] + at
        if at + WORD <= self._shortest:
            return self._words[first].astype(np.uint64)
        np.minimum(first, self._last, out=first)
        left = np.clip(self._lengths[rows] - at, 0, WORD)
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
        same: Marks = (lengths == self._lengths[others]) & (lengths <= COLUMNS)
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
    # Each place belongs to the last row with its hash. A row with another string at its place is kept, which does no
    # harm.
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
    """The ascending `rows`, sorted by their strings in unsigned byte order, stable for equal strings; and for each
    place in that order whether another string begins there.

    Each column sorts only the rows that the columns before leave equal, so a common prefix costs no sort.
    """
    if arena.lengths().max(initial=0) > COLUMNS:
        return _long_key_order(arena, rows)
    order, new = rows.copy(), np.zeros(len(rows), np.bool_)
    new[:1] = True
    columns = _Columns(arena)
    for at in columns.places:
        _refine(order, new, columns.column(at, order))
    # Rows that are still equal differ in zeros at their ends.
    _refine(order, new, arena.lengths()[order].astype(np.uint64))
    return order, new


def _long_key_order(arena: Arena, rows: Rows) -> tuple[Rows, Marks]:
    """Like `key_order`, for strings of any length."""
    part, strings = arena.part(), arena.reader()
    keys = [key for first in range(0, len(rows), part) for key in strings(rows[first : first + part])]
    places = sorted(range(len(keys)), key=keys.__getitem__)
    new = [at == 0 or keys[places[at]] != keys[places[at - 1]] for at in range(len(places))]
    return rows[places], np.array(new, np.bool_)


def _refine(order: Rows, new: Marks, numbers: Numbers) -> None:
    """Sort the rows between two marks by their `numbers`, and mark the places where these change."""
    mixed = (numbers[1:] != numbers[:-1]) & ~new[1:]
    if not mixed.any():
        return
    group = np.cumsum(new, dtype=np.int32)
    torn = np.zeros(int(group[-1]) + 1, np.bool_)
    torn[group[1:][mixed]] = True
    places = np.flatnonzero(torn[group])
    whole = len(places) == len(order) and int(group[-1]) == 1
    by = np.argsort(numbers, kind="stable") if whole else np.lexsort((numbers[places], group[places]))
    order[places] = order[places][by]
    numbers = numbers[places][by]
    new[places[1:]] |= numbers[1:] != numbers[:-1]


def _steps(count: int) -> Iterator[Rows]:
    return (np.arange(first, min(first + _STEP, count)) for first in range(0, count, _STEP))
