"""The targets that are measured: a store as a task gets it, and three to compare it with.

store           the whole stack of a task's store
raw             RocksDB on bytes, with the options that the store would get: the cost of the binding alone
write-through   raw between two serdes: every get reads RocksDB and every put writes it, as a store without a cache does
                in Apache Samza
dict            every object in a dictionary that is called directly; a commit writes the changed ones: no cache in Python
                is faster
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn, Protocol
from uuid import uuid4

from rocksdict import AccessType, Cache, Rdict, WriteBatch, WriteOptions

from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemSettings
from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure
from samzapy.storage.rocksdb.options import RocksDbOptions
from samzapy.testing.store import OpenStore, open_store


@dataclass(frozen=True)
class Counts:
    """The counts since the target was opened."""

    gets: int = 0
    hits: int = 0
    changes: int = 0
    changelog_records: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.gets - other.gets,
            self.hits - other.hits,
            self.changes - other.changes,
            self.changelog_records - other.changelog_records,
        )


class Target(Protocol):
    """A measured object, read and written through `store`, which has the calls of a `KeyValueStore`."""

    store: Any

    def commit(self) -> None:
        """Make the writes durable."""

    def over_budget(self) -> bool:
        """Whether a container would commit now."""

    def counts(self) -> Counts:
        """The counts so far."""

    def empty(self) -> None:
        """Start again with nothing in it; `store` is another object."""

    def restore(self) -> int:
        """Lose the local state and restore it; returns the number of records read."""

    def close(self) -> None:
        """Release everything."""


#: Opens a store in a folder, with a suffix for the name of its changelog.
Opening = Callable[[Path, str], AbstractContextManager[OpenStore]]


class StoreTarget:
    """The store of a task: its whole stack, and its changelog on `changelogs` if it has one. Each opening has a
    changelog of its own: the configured name is only the prefix."""

    def __init__(self, name: str, folder: Path, opening: Opening, *, logged: bool) -> None:
        """`opening` opens the store in a folder, with a suffix for its changelog's name; `logged`: whether it has
        one."""
        self._name = name
        self._folder = folder
        self._opening = opening
        self._logged = logged
        self._number = 0
        self._run = uuid4().hex[:8]
        self._open()

    @classmethod
    def of(
        cls, job: JobConfig, name: str, folder: Path, changelogs: SystemSettings | None, tasks_in_container: int
    ) -> StoreTarget:
        """The store of a job."""
        store = job.stores[name]

        def opening(path: Path, suffix: str) -> AbstractContextManager[OpenStore]:
            own = store
            if store.changelog is not None:
                stream = SystemStream(store.changelog.system, f"{store.changelog.stream}-{suffix}")
                own = replace(store, changelog=stream)
            alone = replace(job, stores={name: own})
            return open_store(alone, name, path, changelogs=changelogs, tasks_in_container=tasks_in_container)

        return cls(name, folder, opening, logged=store.changelog is not None)

    def _open(self) -> None:
        self._held = ExitStack()
        self._path = self._folder / str(self._number)
        self._opened = self._held.enter_context(self._opening(self._path, f"{self._run}-{self._number}"))
        self.store: Any = self._opened.store
        self._sent = 0

    def commit(self) -> None:
        """Commit like a container: serialize, changelog and its acknowledgement, engine."""
        opened = self._opened
        opened.stores.flush()
        if self._logged:
            self._sent += int(self._metric("uncommitted-entries"))
        opened.commit()

    def over_budget(self) -> bool:
        """Whether the uncommitted bytes have passed their budget."""
        return self._opened.stores.over_budget()

    def counts(self) -> Counts:
        """From the store's own metrics."""
        return Counts(
            gets=int(self._metric("gets")),
            hits=int(self._metric("hits")),
            changes=int(self._metric("puts") + self._metric("deletes")),
            changelog_records=self._sent,
        )

    def empty(self) -> None:
        """Another directory, and another changelog."""
        self.close()
        self._number += 1
        self._open()

    def restore(self) -> int:
        """The directory is deleted and the changelog read."""
        self._opened.lose_local_state()
        self.store = self._opened.store
        self._sent = 0
        return self._opened.restored.records

    def close(self) -> None:
        """Close the store and delete its files."""
        self._held.close()
        shutil.rmtree(self._path, ignore_errors=True)

    def _metric(self, name: str) -> float:
        return self._opened.stores.metrics().get(f"{self._name}.{name}", 0.0)


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

    def commit(self) -> None:
        """Do nothing: every write was final."""

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


class _Objects:
    """Has only the compared calls; any other call raises an error."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise EnvironmentFailure(f"this scenario calls {name}: needs target store or raw")


class WriteThroughStore(_Objects):
    """A RawStore between two serdes."""

    def __init__(self, raw: RawStore, key_serde: Serde, msg_serde: Serde) -> None:
        self._raw = raw
        self._key = key_serde.to_bytes
        self._bytes = msg_serde.to_bytes
        self._object = msg_serde.from_bytes

    def get(self, key: Any) -> Any:
        """Read and deserialize."""
        data = self._raw.get(self._key(key))
        return None if data is None else self._object(data)

    def put(self, key: Any, value: Any) -> None:
        """Serialize and write."""
        self._raw.put(self._key(key), self._bytes(value))

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Serialize and write in one batch."""
        to_key, to_bytes = self._key, self._bytes
        self._raw.put_all([(to_key(key), to_bytes(value)) for key, value in entries])

    def commit(self) -> None:
        """Every write was final."""


class DictStore(_Objects):
    """Objects by key, all of them. Its `get` and `put` are the dictionary's own: no check, no copy, nothing noted."""

    def __init__(self, raw: RawStore, key_serde: Serde, msg_serde: Serde) -> None:
        self._below = WriteThroughStore(raw, key_serde, msg_serde)
        self._held: dict[Any, Any] = {}
        self._committed: dict[Any, Any] = {}
        self.get: Callable[[Any], Any] = self._held.get
        self.put: Callable[[Any, Any], None] = self._held.__setitem__
        self.put_all: Callable[[Iterable[tuple[Any, Any]]], None] = self._held.update

    def commit(self) -> None:
        """Write the objects that changed since the last commit in one batch, in key order, as a store does."""
        committed = self._committed
        changed = [(key, value) for key, value in self._held.items() if committed.get(key) is not value]
        self._below.put_all(sorted(changed, key=itemgetter(0)))
        self._committed = self._held.copy()


class RawTarget:
    """A separate database; `over` makes the called object from it."""

    def __init__(self, folder: Path, options: RocksDbOptions, over: Callable[[RawStore], Any] | None = None) -> None:
        self._folder = folder
        self._options = options
        self._over = over
        self._open()

    def _open(self) -> None:
        self._folder.mkdir(parents=True)
        options = self._options.to_options(Cache(size) if (size := self._options.block_cache_bytes) else None)
        self._db = Rdict(str(self._folder), options, {"default": options}, AccessType.read_write())
        raw = RawStore(self._db)
        self.store: Any = raw if self._over is None else self._over(raw)

    def commit(self) -> None:
        """Write the pending changes."""
        self.store.commit()

    def over_budget(self) -> bool:
        """There is no budget."""
        return False

    def counts(self) -> Counts:
        """There are no counters."""
        return Counts()

    def empty(self) -> None:
        """Delete it and start again."""
        self.close()
        self._open()

    def restore(self) -> int:
        """There is nothing to restore from."""
        raise EnvironmentFailure("scenario restore: needs target store: RocksDB alone has no changelog")

    def close(self) -> None:
        """Close and delete it."""
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)
