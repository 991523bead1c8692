"""The layers of a store's stack: their common interface, and the base of layers that wrap another one.

1. `StoreLayer` is a key-value store with the additional calls of a commit.
2. `ForwardingStore` passes every call to the layer below, except `merge_all`: that is a `get_all` and a `put_all` of
   the wrapper itself. A wrapper overrides the calls that it changes.
3. `MappingStore` makes its values from the values of the layer below, wherever they are read.
4. `ReadOnlyStore` refuses the writes of a task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from samzapy.api.kv import K, KeyValueIterator, KeyValueSnapshot, KeyValueStore, V
from samzapy.errors import StoreRefused


class StoreLayer(KeyValueStore[K, V]):
    """A key-value store inside a stack."""

    def exchange_all(
        self, entries: Mapping[K, V], combine: Callable[[V, V], V]
    ) -> tuple[Sequence[K], Sequence[V | None]]:
        """Like `merge_all`; returns the keys and their previous values."""
        result = self.get_all(entries)
        self.merge_all(entries, combine)
        return list(result), list(result.values())

    @property
    def undone(self) -> StoreLayer[K, Any]:
        """The layer to read an entry from before a change, and to put it back to: one that holds it as a whole."""
        return self

    @abstractmethod
    def discard(self) -> None:
        """Forget every object held here, changed or not: the store has gone back to its last commit."""

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Counts since the store was opened, by name, including the layers below."""

    def over_budget(self) -> bool:
        """Whether unserialized changes take so much memory that the task should commit."""
        return False

    @property
    def has_unserialized(self) -> bool:
        """Whether there are changes that no layer below has."""
        return False

    def sweep(self, written: int) -> dict[bytes, None]:
        """Keys of entries that have expired, to be removed from the engine; `written` changes go there now."""
        return {}


class ForwardingStore(StoreLayer[K, V]):
    """A layer that changes nothing. The types of the layer below may differ: a wrapper converts between them."""

    def __init__(self, inner: StoreLayer[Any, Any]) -> None:
        self._inner = inner

    def get(self, key: K) -> V | None:
        return self._inner.get(key)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        return self._inner.get_all(keys)

    def put(self, key: K, value: V) -> None:
        self._inner.put(key, value)

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        self._inner.put_all(entries)

    def delete(self, key: K) -> None:
        self._inner.delete(key)

    def delete_all(self, keys: Iterable[K]) -> None:
        self._inner.delete_all(keys)

    def range(self, from_key: K, to_key: K) -> KeyValueIterator[K, V]:
        return self._inner.range(from_key, to_key)

    def prefix(self, prefix: K) -> KeyValueIterator[K, V]:
        return self._inner.prefix(prefix)

    def all(self) -> KeyValueIterator[K, V]:
        return self._inner.all()

    def snapshot(self, from_key: K, to_key: K) -> KeyValueSnapshot[K, V]:
        return self._inner.snapshot(from_key, to_key)

    def flush(self) -> None:
        self._inner.flush()

    @property
    def undone(self) -> StoreLayer[K, Any]:
        below = self._inner.undone
        return self if below is self._inner else below

    def close(self) -> None:
        self._inner.close()

    def discard(self) -> None:
        self._inner.discard()

    def metrics(self) -> dict[str, float]:
        return self._inner.metrics()

    def over_budget(self) -> bool:
        return self._inner.over_budget()

    @property
    def has_unserialized(self) -> bool:
        return self._inner.has_unserialized

    def sweep(self, written: int) -> dict[bytes, None]:
        return self._inner.sweep(written)


#: Makes a value from a key and the value of the layer below; None hides the entry.
Make = Callable[[Any, Any], Any]


class MappingStore(ForwardingStore[K, V]):
    """A layer with other values than the layer below."""

    @abstractmethod
    def _value(self, key: Any, held: Any) -> V | None:
        """The value of `key` for the value `held` below; None hides the entry."""

    def get(self, key: K) -> V | None:
        held = self._inner.get(key)
        return None if held is None else self._value(key, held)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        value = self._value
        result = self._inner.get_all(keys)
        return {key: None if held is None else value(key, held) for key, held in result.items()}

    def range(self, from_key: K, to_key: K) -> KeyValueIterator[K, V]:
        return _MappedIterator(self._inner.range(from_key, to_key), self._value)

    def prefix(self, prefix: K) -> KeyValueIterator[K, V]:
        return _MappedIterator(self._inner.prefix(prefix), self._value)

    def all(self) -> KeyValueIterator[K, V]:
        return _MappedIterator(self._inner.all(), self._value)

    def snapshot(self, from_key: K, to_key: K) -> KeyValueSnapshot[K, V]:
        return _MappedSnapshot(self._inner.snapshot(from_key, to_key), self._value)


class _MappedIterator(KeyValueIterator[K, V]):
    __slots__ = ("_inner", "_value")

    def __init__(self, inner: KeyValueIterator[K, Any], value: Make) -> None:
        self._inner = inner
        self._value = value

    def __next__(self) -> tuple[K, V]:
        while True:
            key, held = next(self._inner)
            value = self._value(key, held)
            if value is not None:
                return key, value

    def close(self) -> None:
        self._inner.close()


class _MappedSnapshot(KeyValueSnapshot[K, V]):
    __slots__ = ("_inner", "_value")

    def __init__(self, inner: KeyValueSnapshot[K, Any], value: Make) -> None:
        self._inner = inner
        self._value = value

    def iterator(self) -> KeyValueIterator[K, V]:
        return _MappedIterator(self._inner.iterator(), self._value)

    def close(self) -> None:
        self._inner.close()


class ReadOnlyStore(ForwardingStore[Any, Any]):
    """A store that is read-only for its task. A write raises StoreRefused with the reason `why`."""

    def __init__(self, inner: StoreLayer[Any, Any], why: str) -> None:
        super().__init__(inner)
        self._why = why

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise StoreRefused(self._why)

    put = put_all = delete = delete_all = merge_all = _refuse

    @property
    def undone(self) -> StoreLayer[Any, Any]:
        """The layer below: a refused write is undone as well."""
        return self._inner.undone

    def flush(self) -> None:
        """Do nothing: the task has changed nothing."""
