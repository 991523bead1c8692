"""What a restore has read and not written yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

#: Bytes of memory that an entry takes beside the bytes of its key and value: two objects' heads, rounded up, and its
#: place in the dictionary and in the sorted list that it is written from.
_ENTRY_BYTES = 140
#: A count of what there really is must leave so much room, or the next one would come too soon.
_ROOM = 0.75


class LastValues:
    """The last value of each key, None for a deletion, as many as fit in `max_bytes` of memory.

    What arrives is counted as if every key were new. Only when that reaches the limit is counted what is there, so a
    record costs next to nothing, and records of keys that are there already make no difference. `taken_bytes`: of all
    keys and values that arrived.
    """

    __slots__ = ("_bytes", "_max_bytes", "taken_bytes", "values")

    def __init__(self, max_bytes: int) -> None:
        self.values: dict[bytes | None, bytes | None] = {}
        self._max_bytes = max_bytes
        self.taken_bytes = 0
        self._bytes = 0

    def add(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bool:
        """Take the records, in order; whether it is time to `take` everything. A record without a key is told by the key None."""
        self.values.update(zip(keys, values, strict=True))
        size = _size(keys, values)
        self._bytes += size
        self.taken_bytes += size - len(keys) * _ENTRY_BYTES
        if self._bytes < self._max_bytes:
            return False
        self._bytes = _size(self.values.keys(), self.values.values())
        return self._bytes >= _ROOM * self._max_bytes

    def take(self) -> dict[bytes | None, bytes | None]:
        """Everything; afterwards there is nothing."""
        taken, self.values, self._bytes = self.values, {}, 0
        return taken


def _size(keys: Collection[bytes | None], values: Iterable[bytes | None]) -> int:
    return len(keys) * _ENTRY_BYTES + sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
