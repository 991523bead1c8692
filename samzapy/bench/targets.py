"""The targets that are measured: `store`, the whole stack of a task's store, and `raw`, RocksDB on bytes with the same
options, which is the cost of the binding alone."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from rocksdict import AccessType, Cache, Rdict, WriteBatch, WriteOptions

from samzapy.api.stream import SystemStream
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, EnvironmentFailure
from samzapy.storage.rocksdb.options import RocksDbOptions
from samzapy.testing.store import open_store


class Target(ABC):
    """A measured object, read and written through `store`, which has the calls of a `KeyValueStore`. By default every
    write is final, nothing is counted, and there is no changelog."""

    store: Any

    def commit(self) -> None:  # noqa: B027  # nothing to do
        """Make the writes durable."""

    def over_budget(self) -> bool:
        """Whether a container would commit now."""
        return False

    def counts(self) -> Counter[str]:
        """The gets, hits, changes and changelog records since it was opened; empty if it does not count."""
        return Counter()

    @abstractmethod
    def empty(self) -> None:
        """Start again with nothing in it; `store` is another object."""

    def restore(self) -> int:
        """Lose the local state and restore it; returns the number of records read."""
        raise EnvironmentFailure("scenario restore: needs target store: RocksDB alone has no changelog")

    @abstractmethod
    def close(self) -> None:
        """Release everything, and delete its files."""


class StoreTarget(Target):
    """A store of a job: its whole stack, and its changelog if it has one. Each opening has a separate folder and
    changelog: the configured name is only the prefix."""

    def __init__(self, job: JobConfig, name: str, folder: Path) -> None:
        self._job = job
        self._name = name
        self._folder = folder
        self._number = 0
        self._run = uuid4().hex[:8]
        self._open()

    def _open(self) -> None:
        self._held = ExitStack()
        self._path = self._folder / str(self._number)
        store, changelogs = self._job.stores[self._name], None
        if store.changelog is not None:
            system, stream = store.changelog
            changelogs = self._job.systems[system]
            store = replace(store, changelog=SystemStream(system, f"{stream}-{self._run}-{self._number}"))
        self._logged = store.changelog is not None
        alone = replace(self._job, stores={self._name: store})
        self._opened = self._held.enter_context(open_store(alone, self._name, self._path, changelogs=changelogs))
        self.store: Any = self._opened.store
        self._sent = 0

    def commit(self) -> None:
        """Commit like a container: serialize, changelog and its acknowledgement, engine."""
        opened = self._opened
        opened.stores.flush()
        if self._logged:
            self._sent += self._metric("uncommitted-entries")
        opened.commit()

    def over_budget(self) -> bool:
        return self._opened.stores.over_budget()

    def counts(self) -> Counter[str]:
        changes = self._metric("puts") + self._metric("deletes")
        return Counter(
            gets=self._metric("gets"), hits=self._metric("hits"), changes=changes, changelog_records=self._sent
        )

    def empty(self) -> None:
        """Another directory, and another changelog."""
        self.close()
        self._number += 1
        self._open()

    def restore(self) -> int:
        """The directory is deleted and the changelog read."""
        if not self._logged:
            raise ConfigError.of(f"stores.{self._name}.changelog", None, "required by scenario restore")
        self._opened.lose_local_state()
        self.store = self._opened.store
        self._sent = 0
        return self._opened.restored.records

    def close(self) -> None:
        self._held.close()
        shutil.rmtree(self._path, ignore_errors=True)

    def _metric(self, name: str) -> int:
        return int(self._opened.stores.metrics().get(f"{self._name}.{name}", 0))


#: Pairs in order; a generator, so that it can be closed.
Rows = Generator[tuple[bytes, bytes], None, None]


class RawStore:
    """The calls of a store on bytes. No write-ahead log, as in a store."""

    def __init__(self, db: Rdict) -> None:
        self._db = db
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True
        db.set_write_options(self._without_log)
        self.get: Callable[[bytes], bytes | None] = db.get
        self.put: Callable[[bytes, bytes], None] = db.put
        self.delete: Callable[[bytes], None] = db.delete

    def put_all(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """One WriteBatch."""
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        for key, value in entries:
            put(key, value)
        self._db.write(batch, self._without_log)

    def get_all(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """One multi-get."""
        return dict(zip(keys, self._db.get(list(keys)), strict=True))

    def delete_all(self, keys: Iterable[bytes]) -> None:
        """One WriteBatch."""
        batch = WriteBatch(raw_mode=True)
        for key in keys:
            batch.delete(key)
        self._db.write(batch, self._without_log)

    def range(self, from_key: bytes, to_key: bytes) -> closing[Rows]:
        """Pairs with from_key <= key < to_key."""
        return closing(self._rows(from_key, to_key))

    def all(self) -> closing[Rows]:
        """Every pair."""
        return closing(self._rows(b"", None))

    def _rows(self, lower: bytes, upper: bytes | None) -> Rows:
        rows = self._db.iter()
        rows.seek(lower)
        while rows.valid():
            key = rows.key()
            if upper is not None and key >= upper:
                break
            yield key, rows.value()
            rows.next()
        rows.status()


class RawTarget(Target):
    """RocksDB, in a database of its own."""

    def __init__(self, folder: Path, options: RocksDbOptions) -> None:
        self._folder = folder
        self._options = options
        self._open()

    def _open(self) -> None:
        self._folder.mkdir(parents=True)
        options = self._options.to_options(Cache(size) if (size := self._options.block_cache_bytes) else None)
        self._db = Rdict(str(self._folder), options, {"default": options}, AccessType.read_write())
        self.store: Any = RawStore(self._db)

    def empty(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)
