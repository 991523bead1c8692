"""RocksDB itself, opened with the options a store would get, called directly.

`raw` takes the bytes as they are: what the binding alone costs. `write-through` adds the serdes and nothing else: every
get reads RocksDB and every put writes it, as a store without a cache does in Apache Samza.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

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


class WriteThroughStore:
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


class RawTarget:
    """A database of its own; `between` puts serdes before it."""

    def __init__(self, folder: Path, options: RocksDbOptions, between: tuple[Serde, Serde] | None = None) -> None:
        self._folder = folder
        self._options = options
        self._between = between
        self._open()

    def _open(self) -> None:
        self._folder.mkdir(parents=True)
        options = self._options.to_options(Cache(self._options.cache_bytes) if self._options.cache_bytes else None)
        self._db = Rdict(str(self._folder), options, {"default": options}, AccessType.read_write())
        raw = RawStore(self._db)
        self.store: Any = raw if self._between is None else WriteThroughStore(raw, *self._between)

    def commit(self) -> None:
        """Every write was final."""

    def over_budget(self) -> bool:
        """Nothing is held back."""
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
