"""The memory that the object caches of a container share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

#: The bytes of a container without `container.cache.max.bytes`.
DEFAULT_BYTES = 268_435_456
#: The part of the budget that is freed at once, and the part that a cache gives back at once.
_FREED, _GIVEN = 256, 8
#: The part of the budget that uncommitted bytes may take before the container commits.
_UNCOMMITTED = 2
#: The weight of earlier uses each time that memory is short.
_FADING = 0.875


class BudgetedCache(Protocol):
    """A cache as the budget sees it."""

    @property
    @abstractmethod
    def uses(self) -> int:
        """Reads and writes since it was made."""

    @abstractmethod
    def give_back(self, size: int) -> None:
        """Evict about `size` bytes of clean entries, and report the remaining bytes."""

    @abstractmethod
    def free(self, size: int) -> None:
        """Evict `size` bytes, changes included, and report the remaining bytes."""


class Account:
    """One cache in the budget: the bytes that it holds, and its recent use."""

    __slots__ = ("_lately", "_uses", "cache", "size")

    def __init__(self, cache: BudgetedCache) -> None:
        self.cache = cache
        self.size = 0
        self._uses = 0
        self._lately = 0.0

    def look(self) -> None:
        """Count the uses since the last look; earlier ones fade."""
        uses = self.cache.uses
        self._lately = _FADING * self._lately + uses - self._uses
        self._uses = uses

    @property
    def bytes_a_use(self) -> float:
        """The bytes for each recent use; largest for the least useful memory."""
        return self.size / (self._lately + 1.0)


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
        self._cached = 0
        self._uncommitted = 0
        self._accounts: dict[Account, None] = {}

    def open(self, cache: BudgetedCache) -> Account:
        """An account for a new cache, which holds nothing."""
        account = Account(cache)
        self._accounts[account] = None
        return account

    def close(self, account: Account) -> None:
        """The cache is gone; closing twice is allowed."""
        self.report(account, 0)
        self._accounts.pop(account, None)

    def report(self, account: Account, size: int) -> None:
        """Set the number of bytes that the cache holds."""
        self._cached += size - account.size
        account.size = size

    def note_uncommitted(self, change: int) -> None:
        """Add to the number of uncommitted bytes; negative for fewer."""
        self._uncommitted += change

    @property
    def used(self) -> int:
        """Bytes of all caches, including uncommitted ones."""
        return self._cached + min(self._uncommitted, self.max_bytes // _UNCOMMITTED)

    @property
    def crowded(self) -> bool:
        """Whether uncommitted bytes take so much of the budget that the container should commit."""
        return self._uncommitted > self.max_bytes // _UNCOMMITTED

    def allowance(self, account: Account) -> int:
        """Bytes that the cache could hold now."""
        return max(0, self.max_bytes - self.used + account.size)

    def reclaim(self, account: Account) -> None:
        """Make room for the cache of `account`."""
        target = self.max_bytes - self.max_bytes // _FREED
        for each in self._accounts:
            each.look()
        for each in sorted(self._accounts, key=lambda each: each.bytes_a_use, reverse=True):
            lacking = self.used - target
            if lacking <= 0:
                return
            free = each.cache.free if each is account else each.cache.give_back
            free(min(lacking, each.size // _GIVEN + 1))
        if self.used > self.max_bytes:
            account.cache.free(self.used - self.max_bytes)
