"""Keeps byte strings in one contiguous piece of memory, with four more bytes each."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.uint32]
#: Row numbers.
Rows = NDArray[np.intp]

#: The strings, or the approximate bytes, to read at a time: the copies fit in the processor's cache.
_PART = 5_000
_PART_BYTES = 1_048_576
#: Bytes of a number.
WORD = 8


class Arena:
    """Strings as rows, in the order of their arrival.

    Objects would take twice the memory. To free an object that has left the processor's caches costs more than to copy it
    here while it is in them. `capacity` bytes are reserved; memory is used as it fills.
    """

    __slots__ = ("_lengths", "_memory", "used")

    def __init__(self, capacity: int) -> None:
        self._memory = _reserved(capacity)
        self._lengths: list[Lengths] = []
        self.used = 0

    def append(self, strings: Sequence[bytes], joined: bytes) -> None:
        """Add rows; `joined` is all of them in one."""
        end = self.used + len(joined)
        if end + WORD > len(self._memory):
            self._grow(end)
        self._memory[self.used : end] = joined
        self.used = end
        self._lengths.append(np.fromiter(map(len, strings), np.uint32, len(strings)))

    def part(self) -> int:
        """The number of rows to read at a time."""
        return max(1, min(_PART, _PART_BYTES * len(self.lengths()) // max(1, self.used)))

    def lengths(self) -> Lengths:
        """The length of every row in bytes."""
        if len(self._lengths) != 1:
            self._lengths = [np.concatenate([np.empty(0, np.uint32), *self._lengths])]
        return self._lengths[0]

    def starts(self) -> NDArray[np.int64]:
        """The index in `memory` where each row begins."""
        lengths = self.lengths()
        starts = np.zeros(len(lengths), np.int64)
        np.cumsum(lengths[:-1], out=starts[1:])
        return starts

    def memory(self) -> NDArray[np.uint8]:
        """The bytes of all rows, up to the next `append`."""
        return np.frombuffer(self._memory, np.uint8, self.used)

    def words(self) -> NDArray[np.uint64]:
        """For every byte of `memory` the number of it and the seven bytes after it, big-endian."""
        words: NDArray[np.uint64] = np.ndarray((self.used,), ">u8", self._memory, strides=(1,))
        return words

    def matrix(self) -> NDArray[np.uint8] | None:
        """The bytes of all rows as lines of a matrix if they have one length, which is not 0; None if not."""
        lengths = self.lengths()
        length = int(lengths[0]) if len(lengths) else 0
        if not length or length * len(lengths) != self.used or not bool((lengths == length).all()):
            return None
        return self.memory().reshape(len(lengths), length)

    def reader(self) -> Callable[[Rows], Iterator[bytes]]:
        """Return a function from at most `part` rows to their strings, valid up to the next `append` or `keep`."""
        matrix = self.matrix()
        if matrix is not None:
            lines, length = matrix, matrix.shape[1]
            cuts = [slice(end - length, end) for end in range(length, (self.part() + 1) * length, length)]
            return lambda rows: map(lines.take(rows, axis=0).tobytes().__getitem__, cuts[: len(rows)])
        starts, lengths, memory, read = self.starts(), self.lengths(), self.memory(), self._memory.__getitem__

        def strings(rows: Rows) -> Iterator[bytes]:
            first = starts[rows]
            end = first + lengths[rows]
            if len(memory):
                # Fetches many rows into the processor's caches at a time; single reads would wait for each row.
                memory.take(first, mode="clip")
                memory.take(end - 1, mode="clip")
            return map(read, map(slice, first.tolist(), end.tolist()))

        return strings

    def keep(self, rows: Rows) -> None:
        """Keep these rows, which are in order, and forget the others."""
        # Kept rows only move down, over bytes that were read before.
        end, part, matrix = 0, self.part(), self.matrix()
        if matrix is not None:
            for first in range(0, len(rows), part):
                lines = matrix.take(rows[first : first + part], axis=0)
                matrix[first : first + len(lines)] = lines
            end = matrix.shape[1] * len(rows)
        else:
            starts, lengths = self.starts(), self.lengths()
            for first in range(0, len(rows), part):
                joined = self._joined(rows[first : first + part], starts, lengths)
                self._memory[end : end + len(joined)] = joined
                end += len(joined)
        self._lengths = [self.lengths()[rows]]
        self.used = end

    def _joined(self, rows: Rows, starts: NDArray[np.int64], lengths: Lengths) -> bytes:
        """The bytes of rows in order, at least one; adjacent rows are read together."""
        begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
        last = rows[np.append(begins[1:], len(rows)) - 1]
        cuts = map(slice, starts[rows[begins]].tolist(), (starts[last] + lengths[last]).tolist())
        return b"".join(map(self._memory.__getitem__, cuts))

    def clear(self) -> None:
        """Forget everything, and give the memory back."""
        self._memory = _reserved(0)
        self._lengths = []
        self.used = 0

    def _grow(self, needed: int) -> None:
        old, self._memory = self._memory, _reserved(2 * needed)
        self._memory[: self.used] = memoryview(old)[: self.used]


def _reserved(capacity: int) -> mmap.mmap:
    memory = mmap.mmap(-1, max(capacity + WORD, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
