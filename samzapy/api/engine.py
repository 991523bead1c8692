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
from samzapy.errors import StoreError

#: The changes of a commit: by key the bytes of the value, or None for a deletion.
Changes = Mapping[bytes, "bytes | None"]

#: Ordered (key, value) pairs; leaving the context releases the iterator's resources.
Cursor = AbstractContextManager[Iterator[tuple[bytes, bytes]]]


@dataclass(frozen=True)
class CommittedPage:
    """The entries of one `read_committed`, in order. `marker`: the marker of the write that they show, None before the
    first write. `more`: whether the range has further entries."""

    pairs: Sequence[tuple[bytes, bytes]]
    marker: bytes | None
    more: bool


class EngineSnapshot(ABC):
    """The engine's contents at one instant."""

    @abstractmethod
    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """Like `StorageEngine.iterate`, over the snapshot."""

    @abstractmethod
    def close(self) -> None:
        """Release it; closing twice is allowed."""


class Load(ABC):
    """Loads changelog records into an engine, the last one of each key. An engine has one load at a time; closing the
    engine discards it."""

    #: Bytes of the keys and values taken so far, complete after `finish`; 0 in loads that do not count them.
    taken_bytes = 0

    @abstractmethod
    def add(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bool:
        """Take records in order; a value of None is a deletion. Returns whether it is time to `finish`.

        Raises StoreError, also for a key of None.
        """

    @abstractmethod
    def finish(self, marker: bytes) -> None:
        """Put the last value of each key and the marker into the engine, atomically, and on disk when it returns. The
        load ends. Raises StoreError."""

    def give_up(self) -> None:
        """Make a `finish` that goes on in another thread end soon, with StoreError and without a change of the engine.
        A load that finishes within a second has nothing to do."""


class StorageEngine(ABC):
    """One task's part of one store."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value, None if absent. Raises StoreCorrupted on damaged files."""

    @abstractmethod
    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values in the order of `keys`."""

    @abstractmethod
    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        """The current pairs with lower <= key < upper in unsigned byte order (None: unbounded).

        Raises StoreCorrupted, never ends early, when a block cannot be read.
        """

    def is_empty(self) -> bool:
        """Whether the engine has no entries; the marker does not count. Reads the first entry only.

        Raises StoreCorrupted if it cannot be read.
        """
        with self.iterate(None, None) as pairs:
            return next(pairs, None) is None

    @abstractmethod
    def snapshot(self) -> EngineSnapshot:
        """The current contents."""

    def read_committed(self, lower: bytes | None, upper: bytes | None, most: int, most_bytes: int) -> CommittedPage:
        """The first pairs with lower <= key < upper, and the marker, all as of the same write: at most `most` pairs,
        and no further one after `most_bytes` bytes of keys and values; but one, if there is any.

        Other threads call it while the task's thread makes all other calls but `close`. It must not keep that thread
        waiting for longer than the read of one page. Raises StoreError if the engine cannot do this, which is the
        default.
        """
        raise StoreError("its engine cannot be read by other threads than the task's")

    @abstractmethod
    def write(self, changes: Changes, marker: bytes) -> None:
        """Apply `changes` and replace the marker, atomically: after a crash both are present, or neither."""

    def load(self, changes: Changes, marker: bytes) -> None:
        """Like `write` and `flush`, for the many changes of a restore, in any order.

        Override it if the engine has a faster way, which must also be atomic.
        """
        # RocksDB takes sorted keys ten times as fast. Sorting the keys alone compares only bytes; sorting the pairs
        # takes five times as long.
        self.write({key: changes[key] for key in sorted(changes)}, marker)
        self.flush()

    def begin_load(self, memory_bytes: int) -> Load | None:
        """A load in about `memory_bytes` of memory, for more records than a dictionary of that size can hold; None if
        the engine offers none."""
        return None

    @abstractmethod
    def marker(self) -> bytes | None:
        """The marker of the last write that survived, None for a new engine."""

    @abstractmethod
    def flush(self) -> None:
        """Move everything that is only in memory to disk, so that a restore after a kill is short."""

    def begin_flush(self) -> bool:
        """Start a flush in the background; returns False, without an effect, while an earlier one is running.

        Data arrives on disk in the order of its writes, and writes continue meanwhile. The first write after a failed
        flush raises. Default: `flush`.
        """
        self.flush()
        return True

    def checkpoint(self, directory: Path) -> None:
        """Put the contents and the marker as of now into the new `directory`, as files or links that never change.

        May be called from another thread while all other calls continue. Only for engines of a factory that
        `makes_checkpoints`.
        """
        raise StoreError("the engine makes no checkpoints")

    @abstractmethod
    def close(self) -> None:
        """Release files and memory; closing twice is allowed. Every later call raises StoreClosed."""

    def metrics(self) -> dict[str, float]:
        """Sizes and counts worth a gauge, by name."""
        return {}


@dataclass(frozen=True)
class EngineSettings:
    """The settings that open an engine. `properties` are the keys below `stores.NAME.` that the engine itself reads
    (`rocksdb.*`, `container.cache.size.bytes`, ...), without defaults; `tasks_in_container` divides the memory."""

    store: str
    properties: Mapping[str, str] = field(default_factory=dict)
    tasks_in_container: int = 1


class StorageEngineFactory(ABC):
    """Named by `stores.NAME.factory`."""

    #: Whether the contents stay on disk when the process ends.
    persistent = False

    #: Whether its engines implement `checkpoint`, with a directory that `open` accepts.
    makes_checkpoints = False

    #: Whether several threads may call `open` at once, and another thread may use the engine.
    opens_in_any_thread = False

    #: Whether tasks get a `view` of the store, with its own query interface and encoding.
    has_view = False

    #: Whether the view changes values in place, as `StoreViewFactory.changes_in_place` says.
    changes_in_place = False

    #: Whether each entry has a meaning of its own, as `StoreViewFactory.entries_stand_alone` says.
    entries_stand_alone = True

    @abstractmethod
    def open(self, directory: Path | None, settings: EngineSettings) -> StorageEngine:
        """Open the store, and create it if it is missing. `directory` is the task's own for a persistent engine,
        otherwise None.

        A persistent engine locks the file `LOCK` in its directory while it is open, so that others see the holder.
        Raises StoreLocked (with the holder, if known), StoreCorrupted, or StoreError with path and cause.
        """

    def open_read_only(self, directory: Path, settings: EngineSettings) -> StorageEngine:
        """Open the store in `directory` for reading, without creating or locking anything; its owner may have it open.

        Raises StoreError if there is no store, or if the engine cannot be read from another process.
        """
        raise StoreError(f"store '{settings.store}': its engine cannot be read from outside of its job")

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """The problems of the settings as (key below the store, value or None, the allowed values); touches nothing."""
        return ()

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        """The serdes of the entries; by default the job file's."""
        return EntrySerdes(None, None)

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> Any:
        """The object that `context.get_store(NAME)` returns to one task; by default the store itself."""
        return store


@dataclass(frozen=True)
class EntrySerdes:
    """The serdes of a view's entries: a serde, the name of a registered one, or None for the job file's
    (`stores.NAME.key.serde`, by default `string`; `stores.NAME.msg.serde`, by default `json`)."""

    key: Serde | str | None = "bytes"
    value: Serde | str | None = "msgpack"


class StoreViewFactory(ABC):
    """Named by `stores.NAME.factory`; `stores.NAME.base` names the engine below. Made without arguments."""

    #: Whether the view changes values from the store in place before it puts them back. If the job undoes failed
    #: messages (`task.error.process.policy`), the store then hands out copies; a view that puts new objects is quicker.
    changes_in_place = False

    #: Whether each entry has a meaning of its own. If entries refer to each other, the loss of one makes others wrong.
    #: So a job file with `rocksdb.ttl.ms` or `drop.large.messages` for such a store is refused.
    entries_stand_alone = False

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        """The serdes of the entries; by default keys are bytes, which keep their order, and values msgpack."""
        return EntrySerdes()

    @abstractmethod
    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> Any:
        """The object that `context.get_store(NAME)` returns to one task. Called once a task and attempt, after the
        restore.

        `settings.properties` are the keys below `stores.NAME.` that samzapy does not read itself.
        """

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """The problems of the settings as (key below the store, value or None, the allowed values); touches nothing."""
        return ()
