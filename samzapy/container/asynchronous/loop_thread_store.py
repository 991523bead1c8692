"""A store that refuses other threads than the task's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot, KeyValueStore

Store = KeyValueStore[Any, Any]


class LoopThreadStore(KeyValueStore[Any, Any]):
    """A store as an asynchronous task gets it: used from a thread of the task's own making it raises RuntimeError
    instead of mixing up what a commit writes."""

    __slots__ = ("_is_here", "_name", "_store")

    def __init__(self, name: str, store: Store, is_here: Callable[[], bool]) -> None:
        self._name = name
        self._store = store
        self._is_here = is_here

    def _checked(self) -> Store:
        if not self._is_here():
            raise RuntimeError(
                f"store '{self._name}' is for the task's thread: use it in process_async, or in callback.complete(then)"
            )
        return self._store

    def get(self, key: Any) -> Any:
        return self._checked().get(key)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        return self._checked().get_all(keys)

    def put(self, key: Any, value: Any) -> None:
        self._checked().put(key, value)

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self._checked().put_all(entries)

    def delete(self, key: Any) -> None:
        self._checked().delete(key)

    def delete_all(self, keys: Iterable[Any]) -> None:
        self._checked().delete_all(keys)

    def range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        return self._checked().range(from_key, to_key)

    def prefix(self, prefix: Any) -> KeyValueIterator[Any, Any]:
        return self._checked().prefix(prefix)

    def all(self) -> KeyValueIterator[Any, Any]:
        return self._checked().all()

    def snapshot(self, from_key: Any, to_key: Any) -> KeyValueSnapshot[Any, Any]:
        return self._checked().snapshot(from_key, to_key)

    def flush(self) -> None:
        self._checked().flush()

    def close(self) -> None:
        self._checked().close()
