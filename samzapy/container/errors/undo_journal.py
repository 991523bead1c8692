"""Undoes the store changes of a message that failed.

1. Each change first notes the old value, by one more `get`. The changes of a failed message are undone in reverse order.
2. An object that was changed in place cannot be undone. So stores hand out copies, unless the job file says
   `stores.X.object.cache.mode=reference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot, KeyValueStore
from samzapy.storage.kv.codec import entry_list, key_list

Store = KeyValueStore[Any, Any]


class UndoJournal:
    """The old values of the entries that the message at hand has changed, in all stores of one task."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: list[tuple[Store, Any, Any]] = []

    def watching(self, stores: Mapping[str, Store]) -> dict[str, Store]:
        """The stores, by name, each noting its changes here."""
        return {name: JournaledStore(name, store, self) for name, store in stores.items()}

    def begin(self) -> None:
        """A message begins; the changes of the one before stay."""
        if self._before:
            self._before.clear()

    def note(self, store: Store, key: Any) -> None:
        """`key` is about to change."""
        self._before.append((store, key, store.get(key)))

    def undo(self) -> None:
        """Put back the values from before the message."""
        for store, key, value in reversed(self._before):
            if value is None:
                store.delete(key)
            else:
                store.put(key, value)
        self._before.clear()


class JournaledStore(KeyValueStore[Any, Any]):
    """A task's store that notes its changes in a journal."""

    __slots__ = ("_journal", "_name", "_store")

    def __init__(self, name: str, store: Store, journal: UndoJournal) -> None:
        self._name = name
        self._store = store
        self._journal = journal

    def get(self, key: Any) -> Any:
        return self._store.get(key)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        return self._store.get_all(keys)

    def put(self, key: Any, value: Any) -> None:
        self._journal.note(self._store, key)
        self._store.put(key, value)

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        pairs = entry_list(self._name, entries)
        for key, _ in pairs:
            self._journal.note(self._store, key)
        self._store.put_all(pairs)

    def delete(self, key: Any) -> None:
        self._journal.note(self._store, key)
        self._store.delete(key)

    def delete_all(self, keys: Iterable[Any]) -> None:
        unwanted = key_list(self._name, keys)
        for key in unwanted:
            self._journal.note(self._store, key)
        self._store.delete_all(unwanted)

    def range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        return self._store.range(from_key, to_key)

    def prefix(self, prefix: Any) -> KeyValueIterator[Any, Any]:
        return self._store.prefix(prefix)

    def all(self) -> KeyValueIterator[Any, Any]:
        return self._store.all()

    def snapshot(self, from_key: Any, to_key: Any) -> KeyValueSnapshot[Any, Any]:
        return self._store.snapshot(from_key, to_key)

    def flush(self) -> None:
        self._store.flush()

    def close(self) -> None:
        self._store.close()
