"""The key-value store of a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic

from samzapy.errors import StoreRefused

# The classes of keys and values, `Any` where a class has no brackets: `KeyValueStore` is `KeyValueStore[Any, Any]`.
if TYPE_CHECKING:
    # Type checkers bring its declarations along; nothing has to be installed.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    # A default needs Python 3.13 when the code runs.
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class KeyValueIterator(Iterator[tuple[K, V]], Generic[K, V]):
    """(key, value) pairs in the unsigned byte order of the serialized keys. Close it, or use it in `with`."""

    @abstractmethod
    def close(self) -> None:
        """Release the iterator's resources. Closing twice is allowed, reading after it raises StoreClosed."""

    def __enter__(self) -> KeyValueIterator[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KeyValueSnapshot(ABC, Generic[K, V]):
    """A range as of the time of the snapshot; it can be iterated any number of times until closed."""

    @abstractmethod
    def iterator(self) -> KeyValueIterator[K, V]:
        """A new iterator over the snapshot."""

    @abstractmethod
    def close(self) -> None:
        """Release the snapshot; closing twice is allowed."""

    def __enter__(self) -> KeyValueSnapshot[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KeyValueStore(ABC, Generic[K, V]):
    """A task's local map. Reads see the task's own writes at once; a crash takes it back to the last commit.

    1. None is neither a key nor a value (StoreError).
    2. `get` returns values by reference: a change without a `put` is not saved. With `stores.X.object.cache.mode=copy`
       it returns copies.
    3. Not thread-safe: a task has one thread.
    4. After `close` every call raises StoreClosed.
    """

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of `key`, None if it has none."""

    @abstractmethod
    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        """The values of `keys`, one entry per key, with None for absent keys. One call reads all misses."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set `key` to `value`."""

    @abstractmethod
    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set many keys. Every entry is checked before the first is written."""

    def merge_all(self, entries: Mapping[K, V], combine: Callable[[V, V], V]) -> None:
        """Set each key to `combine(held, given)`, or to the given value where the store holds none.

        1. `store.merge_all(Counter(keys), operator.add)` counts a batch of keys. One call reads all misses of the
           cache.
        2. Nothing is written if the store refuses an entry or `combine` raises.
        3. `combine` returns a new value: a `held` that it changes in place stays changed.
        4. Keys that serialize alike must be one key of the mapping.
        """
        if not isinstance(entries, Mapping):
            raise StoreRefused(f"merge_all: expected a mapping, got {type(entries).__name__}")
        if any(given is None for given in entries.values()):
            self.put_all(entries)  # its error names the entry
        result = self.get_all(entries)
        merged: dict[K, V] = {}
        for key, given in entries.items():
            held = result[key]
            merged[key] = given if held is None else combine(held, given)
        self.put_all(merged)

    @abstractmethod
    def delete(self, key: K) -> None:
        """Remove `key`; no error if it is absent."""

    @abstractmethod
    def delete_all(self, keys: Iterable[K]) -> None:
        """Remove many keys. Every key is checked before the first is removed."""

    @abstractmethod
    def range(self, from_key: K, to_key: K) -> KeyValueIterator[K, V]:
        """Entries with from_key <= key < to_key, in unsigned byte order of the serialized keys."""

    @abstractmethod
    def prefix(self, prefix: K) -> KeyValueIterator[K, V]:
        """Entries with a serialized key that starts with the serialized `prefix`; for serdes that keep prefixes
        (string, bytes)."""

    @abstractmethod
    def all(self) -> KeyValueIterator[K, V]:
        """Every entry."""

    @abstractmethod
    def snapshot(self, from_key: K, to_key: K) -> KeyValueSnapshot[K, V]:
        """The range as of now, with the task's own uncommitted writes."""

    @abstractmethod
    def flush(self) -> None:
        """Serialize the changed objects in the cache. They become durable at the task's next commit, not before."""

    @abstractmethod
    def close(self) -> None:
        """Release the store without writing: uncommitted changes are lost. Closing twice is allowed."""
