"""The memory that the object caches of a container share.

    bytes of all caches + uncommitted bytes <= max_bytes      (uncommitted bytes count up to half of it)
    uncommitted bytes <= max_bytes / 2, or the container commits

An entry of a cache counts as FACTOR * (the bytes of its serialized key and value + ENTRY_BYTES): about the memory of a
small document. Numbers, texts and bytes take less than that, deeply nested values up to twice as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samzapy.storage.kv.cached import CachedStore

#: The bytes of a container without `container.cache.max.bytes`.
DEFAULT_BYTES = 268_435_456
#: Memory per serialized byte, and the serialized bytes that stand for the tables of a cache.
FACTOR, ENTRY_BYTES = 5, 50
#: The part of the budget that a cache gets, or that is freed, at once; and the part that a cache gives back at once.
_STEP, _GIVEN = 256, 8
#: The part of the budget that uncommitted bytes may take before the container commits.
_UNCOMMITTED = 2
#: The weight of earlier uses each time that memory is short.
_FADING = 0.875


class CacheBudget:
    """At most `max_bytes` in all caches of one container, with the changes of their stores that are serialized and not
    committed yet.

    1. As long as there is room, each cache grows as its task uses it.
    2. Then the caches give back, first the ones with the most bytes per recent use, an eighth of their bytes at most.
       So a cache that is used more gets more, and an idle one gives back.
    3. For other caches a cache gives back clean entries only: serializing its changes may fail, and that would be the
       failure of another task. The cache that needs room frees the rest itself, changes included.

    The caches of a container are used by one thread.
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self._uncommitted = 0
        #: By cache, its uses when they were counted last, and its recent ones.
        self._uses: dict[CachedStore[Any, Any], tuple[int, float]] = {}

    def open(self, cache: CachedStore[Any, Any]) -> None:
        """Count a new cache."""
        self._uses[cache] = (0, 0.0)

    def close(self, cache: CachedStore[Any, Any]) -> None:
        """The cache is gone; closing twice is allowed."""
        self._uses.pop(cache, None)

    def note_uncommitted(self, change: int) -> None:
        """Add to the number of uncommitted bytes; negative for fewer."""
        self._uncommitted += change

    @property
    def used(self) -> int:
        """Bytes of all caches, including uncommitted ones."""
        cached = sum(cache.size for cache in self._uses)
        return cached + min(self._uncommitted, self.max_bytes // _UNCOMMITTED)

    @property
    def crowded(self) -> bool:
        """Whether uncommitted bytes take so much of the budget that the container should commit."""
        return self._uncommitted > self.max_bytes // _UNCOMMITTED

    def grant(self, cache: CachedStore[Any, Any]) -> int:
        """Make room for the cache; returns the bytes that it may hold until it asks again."""
        step = max(1, self.max_bytes // _STEP)
        if self.used + step > self.max_bytes:
            self._reclaim(cache, self.max_bytes - step)
        return cache.size + max(0, min(step, self.max_bytes - self.used))

    def _reclaim(self, cache: CachedStore[Any, Any], target: int) -> None:
        for other, (counted, recent) in self._uses.items():
            self._uses[other] = other.uses, _FADING * recent + other.uses - counted
        for _ in range(_GIVEN):
            for other in sorted(self._uses, key=lambda other: other.size / (self._uses[other][1] + 1.0), reverse=True):
                lacking = self.used - target
                if lacking <= 0:
                    return
                free = other.free if other is cache else other.give_back
                free(min(lacking, other.size // _GIVEN + 1))
        if self.used > self.max_bytes:
            cache.free(self.used - self.max_bytes)
