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
from samzapy.storage.changelog.topic import ChangelogEnd
from samzapy.storage.kv.forwarding import ReadOnlyStore, StoreLayer
from samzapy.storage.store import Store


class TaskStores:
    """One task's stores between two commits.

    A commit calls `flush`, `send_changes`, (the producer's flush), `changed`, `changelog_offsets`, (the checkpoint),
    `apply`; the task does not run in between. When one of them fails, the state of the stores is unknown: every later
    call raises StoreError, and the next attempt restores.
    """

    def __init__(self, stores: Mapping[str, Store]) -> None:
        """`stores` are READY."""
        self.held = dict(stores)
        self.stores: Mapping[str, StoreLayer[Any, Any]] = {name: _visible(store) for name, store in stores.items()}
        self.restored = {name: store.result for name, store in stores.items()}
        #: The stores that streams fill: before the task starts and, if they are read-only, while it runs.
        self.sourced = {name: store for name, store in stores.items() if store.filling is not None}
        self._logged = {name: store for name, store in stores.items() if store.changelog is not None}
        #: The serdes of each store with a changelog.
        self.serdes = {name: store.identity.serdes for name, store in self._logged.items()}
        self._own = {name: store for name, store in stores.items() if not store.read_only}
        self._failure: BaseException | None = None

    @property
    def engines(self) -> Mapping[str, tuple[int, StorageEngine]]:
        """The task's changelog partition and the engine with its committed entries, by store."""
        return {name: (store.identity.partition, store.engine) for name, store in self.held.items()}

    def as_seen(self, stores: Mapping[str, KeyValueStore[Any, Any]]) -> dict[str, Any]:
        """The stores as the task gets them: each of `stores` (these, or wrapped ones), or its engine's view of it."""
        return {name: self.held[name].spec.seen(store) for name, store in stores.items()}

    def flush(self) -> None:
        """Serialize the dirty objects of every store. Raises StoreError if the task has caught an error of a read."""
        with self._poisoned_by_failure():
            for store in self._own.values():
                store.stack.store.flush()
            for store in self.held.values():
                store.stack.uncommitted.check()

    @property
    def has_changes(self) -> bool:
        """Whether some store has changes that no commit has."""
        return any(s.stack.store.has_unserialized or s.stack.uncommitted.changes for s in self._own.values())

    def over_budget(self) -> bool:
        """Whether some store holds more uncommitted bytes than it may, so that the task should commit."""
        return any(store.stack.over_budget() for store in self._own.values())

    def send_changes(self, producer_of: Callable[[str], SystemProducer]) -> None:
        """Queue one changelog record per changed key of every store that has a changelog."""
        with self._poisoned_by_failure():
            for ssp, store in self._changed():
                store.send_changes(producer_of(ssp.system))

    def changed(self) -> Iterator[SystemStreamPartition]:
        """The changelog partitions that `send_changes` has records for."""
        return (ssp for ssp, _ in self._changed())

    def _changed(self) -> Iterator[tuple[SystemStreamPartition, Store]]:
        for store in self._logged.values():
            if store.changelog is not None and store.stack.uncommitted.changes:
                yield store.changelog, store

    def changelog_offsets(self, last_of: Callable[[SystemStreamPartition], int | None]) -> dict[str, int]:
        """The offset of the last changelog record of each store, once the producers are flushed; -1: none ever.
        `last_of` gives the offset of the last record in each of the `changed` partitions."""
        with self._poisoned_by_failure():
            return {name: store.acknowledged_offset(last_of) for name, store in self._logged.items()}

    def offsets(self) -> dict[str, int]:
        """The offset of the task's last changelog record of each store; -1 for none."""
        return {name: store.own_offset for name, store in self._logged.items()}

    def changelog_ends(self, system: str) -> Iterator[ChangelogEnd]:
        """The ends of the stores' changelogs on that system, which detect another writer."""
        for store in self._logged.values():
            if store.end is not None and store.end.ssp.system == system:
                yield store.end

    def refuse(self, changelog: object, reason: object) -> None:
        """Refuse the store with that changelog: another writer has written to it."""
        for store in self._logged.values():
            if store.changelog == changelog:
                store.refuse(reason)

    def changes_committed(self, marker_offsets: int) -> None:
        """The records of `send_changes` are durable; the end of their transaction took so many offsets more."""
        for store in self._logged.values():
            if store.end is not None:
                store.end.committed(marker_offsets)

    def apply(self, changelog_offsets: Mapping[str, int], input_offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Write every store's changes and marker to its engine; afterwards nothing is uncommitted."""
        with self._poisoned_by_failure():
            for name, store in self._own.items():
                store.apply(changelog_offsets.get(name, store.offset), input_offsets)

    def discard(self) -> None:
        """Throw away everything since the last commit, cached objects included."""
        for store in self._own.values():
            store.stack.discard()

    def flush_if_due(self) -> None:
        """Flush engines that have not been flushed for long. A commit does so itself, but an idle task has no
        commits."""
        with self._poisoned_by_failure():
            for store in self.held.values():
                store.flushing.flush_if_due()

    def flush_engines(self) -> None:
        """Flush the engines' memory to disk: at a graceful stop, so that the next start is quick."""
        with self._poisoned_by_failure():
            for store in self.held.values():
                store.flushing.flush()
        for store in self.held.values():
            if store.backup is not None:
                store.backup.settle()

    def close(self) -> None:
        """Close every store, also when one of them fails. Uncommitted changes are lost."""
        with ExitStack() as closing:
            for store in self.held.values():
                closing.callback(store.close)

    def metrics(self) -> dict[str, float]:
        """The counts and sizes of every layer, as `store.name`, and the amount of changelog read at the start."""
        metrics = {f"{name}.{key}": value for name, s in self.held.items() for key, value in s.metrics().items()}
        for name, result in self.restored.items():
            metrics[f"{name}.messages-restored"] = result.records
            metrics[f"{name}.messages-bytes"] = result.bytes
        return metrics

    @contextmanager
    def _poisoned_by_failure(self) -> Iterator[None]:
        if self._failure is not None:
            raise StoreError(f"the task's stores failed before: {self._failure}") from self._failure
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            raise


def _visible(store: Store) -> StoreLayer[Any, Any]:
    """The store as the task gets it, apart from views."""
    if not store.read_only:
        return store.stack.store
    name = store.identity.store
    return ReadOnlyStore(store.stack.store, f"store '{name}' is filled by stores.{name}.side.inputs; the task reads it")
