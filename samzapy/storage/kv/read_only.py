"""A store that its task may read and somebody else writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot, KeyValueStore
from samzapy.errors import StoreRefused


class ReadOnlyStore(KeyValueStore[Any, Any]):
    """`inner`, whose writes raise StoreRefused with the reason `why`."""

    __slots__ = ("_inner", "_why")

    def __init__(self, inner: KeyValueStore[Any, Any], why: str) -> None:
        self._inner = inner
        self._why = why

    def get(self, key: Any) -> Any:
        return self._inner.get(key)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        return self._inner.get_all(keys)

    def put(self, key: Any, value: Any) -> None:
        self._refuse()

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self._refuse()

    def delete(self, key: Any) -> None:
        self._refuse()

    def delete_all(self, keys: Iterable[Any]) -> None:
        self._refuse()

    def range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        return self._inner.range(from_key, to_key)

    def prefix(self, prefix: Any) -> KeyValueIterator[Any, Any]:
        return self._inner.prefix(prefix)

    def all(self) -> KeyValueIterator[Any, Any]:
        return self._inner.all()

    def snapshot(self, from_key: Any, to_key: Any) -> KeyValueSnapshot[Any, Any]:
        return self._inner.snapshot(from_key, to_key)

    def flush(self) -> None:
        """Does nothing: there is nothing of the task's to serialize."""

    def close(self) -> None:
        self._inner.close()

    def _refuse(self) -> NoReturn:
        raise StoreRefused(self._why)
