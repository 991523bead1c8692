"""The SPI of a storage engine, and of a view that gives tasks another interface than get and put.

A storage engine keeps bytes in order, and committed state only: a commit writes to it once, a restore loads it. It
stores a commit's data and its marker together. So a persistent engine always holds the state of some earlier commit,
no matter when the process dies.

A view stands on top of the key-value store. Its entries take the same path as in any store: object cache,
uncommitted bytes, changelog, storage engine. A view adds the task's interface and the layout of its data in entries.
It keeps no state between two calls, so commit, restore, rollback and the undo of a failed message need no help from
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samzapy.api.kv import KeyValueStore
from samzapy.api.serde import Serde

#: The changes of a commit: by key the bytes of the value, or None for a deletion.
Changes = Mapping[bytes, "bytes | None"]

#: Part of the changes of a restore: keys in unsigned byte order, and their values, None for deletions.
Part = tuple[Sequence[bytes], Sequence["bytes | None"]]

#: Ordered (key, value) pairs; leaving the context releases the iterator's resources.
Cursor = AbstractContextManager[Iterator[tuple[bytes, bytes]]]


class CommittedEntries(ABC):
    """Entries of commits and the marker of the last one: of an engine at each call, or of a snapshot at its instant."""

    def get(self, key: bytes) -> bytes | None:
        """The value, None if absent. Raises StoreCorrupted on damaged files."""
        with self.iterate(key, key + b"\x00") as pairs:
            return next((value for _, value in pairs), None)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values in the order of `keys`."""
        return list(map(self.get, keys))

    @abstractmethod
    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """The pairs with lower <= key < upper in unsigned byte order (None: unbounded), as of this call.

        Raises StoreCorrupted, never ends early, when a block cannot be read.
        """

    @abstractmethod
    def marker(self) -> bytes | None:
        """The marker of the last write that survived, None for a new engine."""

    @abstractmethod
    def close(self) -> None:
        """Release files and memory; closing twice is allowed. Every later call raises StoreClosed."""


class StorageEngine(CommittedEntries, ABC):
    """One task's part of one store."""

    @abstractmethod
    def snapshot(self) -> CommittedEntries:
        """The present entries and their marker, which later writes do not change.

        Other threads take and read snapshots while the task's thread makes all other calls but `close`. They must not
        keep that thread waiting for longer than the read of a few entries.
        """

    @abstractmethod
    def write(self, changes: Changes, marker: bytes) -> None:
        """Apply `changes` and replace the marker, atomically: after a crash both are present, or neither."""

    def load(self, parts: Iterable[Part], marker: bytes) -> None:
        """Like `write` of the changes of a restore, and `flush`. Each key is greater than the ones before it.

        Override it if the engine has a faster way, which must also be atomic. An error of `parts` passes through, and
        changes nothing.
        """
        self.write({key: value for part in parts for key, value in zip(*part, strict=True)}, marker)
        self.flush()

    @abstractmethod
    def flush(self, *, wait: bool = True) -> bool:
        """Move everything that is only in memory to disk, in the order of the writes, so that a restore after a kill is
        short.

        Without `wait` an engine may do so in the background; the first write after a failure raises. Returns False,
        without an effect, while an earlier flush is running.
        """


@dataclass(frozen=True)
class EngineSettings:
    """The settings that open an engine. `properties` are the keys below `stores.NAME.` that the engine itself reads
    (`rocksdb.*`, `container.cache.size.bytes`, ...), without defaults; `tasks_in_container` divides the memory."""

    store: str
    properties: Mapping[str, str] = field(default_factory=dict)
    tasks_in_container: int = 1


#: Problems of settings: (key below the store, value or None, the allowed values).
Problems = Iterable[tuple[str, "str | None", str]]


class StorageEngineFactory(ABC):
    """Named by `stores.NAME.factory`."""

    #: Whether the contents stay on disk when the process ends. Any thread may then open an engine and load it.
    persistent = False

    @abstractmethod
    def open(self, directory: Path | None, settings: EngineSettings, *, read_only: bool = False) -> StorageEngine:
        """Open the store, and create it if it is missing. `directory` is the task's own for a persistent engine,
        otherwise None.

        A persistent engine locks the file `LOCK` in its directory while it is open, so that others see the holder.
        With `read_only` it creates and locks nothing, and its owner may have it open. Raises StoreLocked (with the
        holder, if known), StoreCorrupted, or StoreError with path and cause, also if it cannot be read from another
        process.
        """

    def check(self, settings: EngineSettings) -> Problems:
        """The problems of the settings; touches nothing."""
        return ()


@dataclass(frozen=True)
class EntrySerdes:
    """The entries of a view. A serde is an object, the name of a registered one, or None for the job file's
    (`stores.NAME.key.serde`, by default `string`; `stores.NAME.msg.serde`, by default `json`).

    stand_alone  each entry has a meaning of its own. If entries refer to each other, the loss of one makes others
                 wrong, so a job file with `rocksdb.ttl.ms` or `drop.large.messages` for such a store is refused.
    """

    key: Serde | str | None = "bytes"
    value: Serde | str | None = "msgpack"
    stand_alone: bool = False


class StoreViewFactory(ABC):
    """Named by `stores.NAME.factory`; `stores.NAME.base` names the engine below. Made without arguments."""

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        """The serdes of the entries; by default keys are bytes, which keep their order, and values msgpack."""
        return EntrySerdes()

    @abstractmethod
    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> Any:
        """The object that `context.get_store(NAME)` returns to one task. Called once per task and attempt, after the
        restore.

        `settings.properties` are the keys below `stores.NAME.` that samzapy does not read itself.
        """

    def check(self, settings: EngineSettings) -> Problems:
        """The problems of the settings; touches nothing."""
        return ()
