"""What a store is compared with, over RocksDB with the options the store would get.

`raw` takes the bytes as they are: what the binding alone costs. `write-through` adds the serdes and nothing else: every
get reads RocksDB and every put writes it, as a store without a cache does in Apache Samza. `dict` holds every object in
a dictionary, calls that directly, and writes what changed at a commit: no cache in Python is faster.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

from rocksdict import AccessType, Cache, Rdict, WriteBatch, WriteOptions

from samzapy.api.serde import Serde
from samzapy.bench.store.targets import Counts
from samzapy.errors import EnvironmentFailure
from samzapy.storage.rocksdb.options import RocksDbOptions

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
        """Every write was final."""

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
    """Has the calls that its comparison is about, and says so of any other."""

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
        """One batch of what is another object than at the last commit, in the order of the keys, as a store writes it."""
        committed = self._committed
        changed = [(key, value) for key, value in self._held.items() if committed.get(key) is not value]
        self._below.put_all(sorted(changed, key=itemgetter(0)))
        self._committed = self._held.copy()


class RawTarget:
    """A database of its own; `over` makes what is called of it."""

    def __init__(self, folder: Path, options: RocksDbOptions, over: Callable[[RawStore], Any] | None = None) -> None:
        self._folder = folder
        self._options = options
        self._over = over
        self._open()

    def _open(self) -> None:
        self._folder.mkdir(parents=True)
        options = self._options.to_options(Cache(self._options.cache_bytes) if self._options.cache_bytes else None)
        self._db = Rdict(str(self._folder), options, {"default": options}, AccessType.read_write())
        raw = RawStore(self._db)
        self.store: Any = raw if self._over is None else self._over(raw)

    def commit(self) -> None:
        """Write what is held back."""
        self.store.commit()

    def over_budget(self) -> bool:
        """Nobody asks how much is held back."""
        return False

    def counts(self) -> Counts:
        """Nobody counts here."""
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
