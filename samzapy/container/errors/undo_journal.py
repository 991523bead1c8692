"""Undoes the store changes of a message that failed.

1. Each change first notes the old value, by one more read, which the store does not count. The changes of a failed
   message are undone in reverse order.
2. An object that was changed in place cannot be undone. So stores hand out copies, unless the job file says
   `stores.X.object.cache.mode=reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from samzapy.storage.kv.codec import entry_list, entry_mapping, key_list
from samzapy.storage.kv.forwarding import ForwardingStore, StoreLayer

Store = StoreLayer[Any, Any]

#: In place of a key: the (key, value) pairs of many are noted.
_MANY = object()


class UndoJournal:
    """The old values of the entries that the message at hand has changed, in all stores of one task.

    Changes before `begin` and after `end`, as in `window` or a timer, are never undone, and so not noted.
    """

    def __init__(self) -> None:
        self._before: list[tuple[Store, Any, Any]] = []
        self._noting = False

    @property
    def size(self) -> int:
        return len(self._before)

    def watching(self, stores: Mapping[str, StoreLayer[Any, Any]]) -> dict[str, StoreLayer[Any, Any]]:
        return {name: JournaledStore(name, store, self) for name, store in stores.items()}

    def begin(self) -> None:
        self._noting = True
        if self._before:
            self._before.clear()

    def end(self) -> None:
        self._noting = False
        self._before.clear()

    def note(self, store: Store, key: Any) -> None:
        if self._noting:
            self._before.append((store, key, store.uncounted(store.get, key)))

    def note_all(self, store: Store, keys: Sequence[Any]) -> None:
        if not self._noting:
            return
        found = store.uncounted(store.get_all, keys)
        if len(found) == len(keys):
            self._before.append((store, _MANY, found.items()))
            return
        # Keys may be repeated, or equal in Python and still different keys of the store, such as 1 and True.
        for key in keys:
            self.note(store, key)

    def note_changed(self, store: Store, keys: Sequence[Any], values: Sequence[Any]) -> None:
        if self._noting:
            self._before.append((store, _MANY, zip(keys, values, strict=True)))

    def undo(self) -> None:
        for store, key, value in reversed(self._before):
            if key is _MANY:
                pairs = list(value)
                store.put_all([pair for pair in pairs if pair[1] is not None])
                store.delete_all([each for each, held in pairs if held is None])
            elif value is None:
                store.delete(key)
            else:
                store.put(key, value)
        self._before.clear()


class JournaledStore(ForwardingStore[Any, Any]):
    """A task's store that notes its changes in a journal, with the whole entries as `StoreLayer.undone` has them."""

    __slots__ = ("_journal", "_name", "_undone")

    def __init__(self, name: str, store: StoreLayer[Any, Any], journal: UndoJournal) -> None:
        super().__init__(store)
        self._name = name
        self._journal = journal
        self._undone = store.undone

    def put(self, key: Any, value: Any) -> None:
        self._journal.note(self._undone, key)
        self._inner.put(key, value)

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        if isinstance(entries, Mapping):
            self._journal.note_all(self._undone, list(entries))
            self._inner.put_all(entries)
            return
        pairs = entry_list(self._name, entries)
        self._journal.note_all(self._undone, [key for key, _ in pairs])
        self._inner.put_all(pairs)

    def merge_all(self, entries: Mapping[Any, Any], combine: Callable[[Any, Any], Any]) -> None:
        if self._undone is self._inner:
            changed = self._inner.exchange_all(entry_mapping(self._name, entries), combine)
            self._journal.note_changed(self._inner, *changed)
            return
        self._journal.note_all(self._undone, list(entry_mapping(self._name, entries)))
        self._inner.merge_all(entries, combine)

    def delete(self, key: Any) -> None:
        self._journal.note(self._undone, key)
        self._inner.delete(key)

    def delete_all(self, keys: Iterable[Any]) -> None:
        unwanted = key_list(self._name, keys)
        self._journal.note_all(self._undone, unwanted)
        self._inner.delete_all(unwanted)
