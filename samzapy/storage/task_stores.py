"""The stores of one task between two commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from samzapy.api.engine import StorageEngine
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemProducer
from samzapy.errors import StoreError
from samzapy.storage.changelog.reading import ChangelogEnd
from samzapy.storage.changelog.restore import (
    RestoreResult,
)
from samzapy.storage.kv.forwarding import ReadOnlyStore, StoreLayer
from samzapy.storage.task_store import TaskStore


class TaskStores:
    """One task's stores between two commits.

    A commit calls `flush`, `send_changes`, (the producer's flush), `changed`, `changelog_offsets`, (the checkpoint),
    `apply`; the task does not run in between. When one of them fails, the state of the stores is unknown: every later
    call raises StoreError, and the next attempt restores.
    """

    def __init__(self, stores: Mapping[str, TaskStore], restored: Mapping[str, RestoreResult]) -> None:
        self.stores: Mapping[str, StoreLayer[Any, Any]] = {name: _visible(held) for name, held in stores.items()}
        self.restored = dict(restored)
        #: The stores that streams fill: before the task starts and, if they are read-only, while it runs.
        self.sourced: Mapping[str, TaskStore] = {
            name: held for name, held in stores.items() if held.filling is not None
        }
        #: The serdes of each store with a changelog.
        self.serdes = {name: held.identity.serdes for name, held in stores.items() if held.changelog is not None}
        self._held = dict(stores)
        self._own = {name: held for name, held in stores.items() if not held.read_only}
        self._failure: BaseException | None = None

    @property
    def engines(self) -> Mapping[str, tuple[int, StorageEngine]]:
        """The task's changelog partition and the engine with its committed entries, by store."""
        return {name: (held.identity.partition, held.engine) for name, held in self._held.items()}

    def as_seen(self, stores: Mapping[str, KeyValueStore[Any, Any]]) -> dict[str, Any]:
        """The stores as the task gets them: each of `stores` (these, or wrapped ones), or its engine's view of it."""
        views = {name: held.view for name, held in self._held.items() if held.view is not None}
        return {name: views[name](store) if name in views else store for name, store in stores.items()}

    def flush(self) -> None:
        """Serialize the dirty objects of every store. Raises StoreError if the task has caught an error of a read."""
        with self._poisoned_by_failure():
            for held in self._own.values():
                held.stack.store.flush()
            for held in self._held.values():
                held.stack.uncommitted.check_reads()

    @property
    def has_changes(self) -> bool:
        """Whether some store has changes that no commit has."""
        return any(held.stack.store.has_unserialized or held.stack.uncommitted.changes for held in self._own.values())

    def over_budget(self) -> bool:
        """Whether some store holds more uncommitted bytes than it may, so that the task should commit."""
        return any(held.stack.over_budget() for held in self._own.values())

    def send_changes(self, producer_of: Callable[[str], SystemProducer]) -> None:
        """Queue one changelog record per changed key of every store that has a changelog."""
        with self._poisoned_by_failure():
            for held in self._held.values():
                if held.changelog is not None and held.stack.uncommitted.changes:
                    held.send_changes(producer_of(held.changelog.system))

    def changed(self) -> Iterator[SystemStreamPartition]:
        """The changelog partitions that `send_changes` has records for."""
        for held in self._held.values():
            if held.changelog is not None and held.stack.uncommitted.changes:
                yield held.changelog

    def changelog_offsets(self, last_of: Callable[[SystemStreamPartition], int | None]) -> dict[str, int]:
        """The offset of the last changelog record of each store, once the producers are flushed; -1: none ever.
        `last_of` gives the offset of the last record in each of the `changed` partitions."""
        with self._poisoned_by_failure():
            return {
                name: held.acknowledged_offset(last_of)
                for name, held in self._held.items()
                if held.changelog is not None
            }

    def offsets(self) -> dict[str, int]:
        """The offset of the task's last changelog record of each store; -1 for none."""
        return {name: held.own_offset for name, held in self._held.items() if held.changelog is not None}

    def changelog_ends(self, system: str) -> Iterator[ChangelogEnd]:
        """The ends of the stores' changelogs on that system, which detect another writer."""
        for held in self._held.values():
            if held.end is not None and held.end.ssp.system == system:
                yield held.end

    def distrust(self, changelog: object) -> None:
        """Set the files of the store with that changelog aside when it is closed."""
        for held in self._held.values():
            if held.changelog == changelog:
                held.distrust()

    def changes_committed(self, marker_offsets: int) -> None:
        """The records of `send_changes` are durable; the end of their transaction took so many offsets more."""
        for held in self._held.values():
            if held.end is not None:
                held.end.committed(marker_offsets)

    def apply(self, changelog_offsets: Mapping[str, int], input_offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Write every store's changes and marker to its engine; afterwards nothing is uncommitted."""
        with self._poisoned_by_failure():
            for name, held in self._own.items():
                held.apply(changelog_offsets.get(name, held.offset), input_offsets)

    def discard(self) -> None:
        """Throw away everything since the last commit, cached objects included."""
        for held in self._own.values():
            held.discard()

    def flush_if_due(self) -> None:
        """Flush engines that have not been flushed for long. A commit does so itself, but an idle task has no
        commits."""
        with self._poisoned_by_failure():
            for held in self._held.values():
                held.flush_if_due()

    def flush_engines(self) -> None:
        """Flush the engines' memory to disk: at a graceful stop, so that the next start is quick."""
        with self._poisoned_by_failure():
            for held in self._held.values():
                held.flush_engine()
        for held in self._held.values():
            if held.backup is not None:
                held.backup.settle()

    def close(self) -> None:
        """Close every store, also when one of them fails. Uncommitted changes are lost."""
        with ExitStack() as closing:
            for held in self._held.values():
                closing.callback(held.close)

    def metrics(self) -> dict[str, float]:
        """The counts and sizes of every layer, as `store.name`, and the amount of changelog read at the start."""
        found = {f"{name}.{key}": value for name, held in self._held.items() for key, value in held.metrics().items()}
        for name, result in self.restored.items():
            found[f"{name}.messages-restored"] = result.records
            found[f"{name}.messages-bytes"] = result.bytes
        return found

    @contextmanager
    def _poisoned_by_failure(self) -> Iterator[None]:
        if self._failure is not None:
            raise StoreError(f"the task's stores failed before: {self._failure}") from self._failure
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            raise


def _visible(held: TaskStore) -> StoreLayer[Any, Any]:
    """The store as the task gets it, apart from views."""
    if not held.read_only:
        return held.stack.store
    name = held.identity.store
    return ReadOnlyStore(held.stack.store, f"store '{name}' is filled by stores.{name}.side.inputs; the task reads it")
