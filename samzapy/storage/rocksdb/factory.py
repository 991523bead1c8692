"""Opens RocksDB stores; one factory per store and container, so that the container's tasks share its memory.

Stores without memory of their own share it with each other, too (`samzapy.storage.rocksdb.memory`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rocksdict import AccessType, Cache, Options, Rdict

from samzapy.api.engine import EngineSettings, StorageEngine, StorageEngineFactory
from samzapy.errors import ConfigError, ConfigProblem, StoreCorrupted, StoreDiskFailed, StoreError
from samzapy.storage.rocksdb.engine import RocksDbStorageEngine
from samzapy.storage.rocksdb.failures import OPENING, noted_damage, translated
from samzapy.storage.rocksdb.ingestion import remove_leftover
from samzapy.storage.rocksdb.memory import SharedMemory, shared_memory
from samzapy.storage.rocksdb.options import RocksDbOptions
from samzapy.storage.rocksdb.ownership import Ownership
from samzapy.storage.rocksdb.reading import links_to, written_folder

_READING_ATTEMPTS = 100


class RocksDbStorageEngineFactory(StorageEngineFactory):
    """`stores.NAME.factory = rocksdb`. The block cache is made at the first open, in the process that opens."""

    persistent = True
    makes_checkpoints = True
    opens_in_any_thread = True

    def __init__(self) -> None:
        self._caches: dict[tuple[int, str, int], Cache] = {}
        self._shared: SharedMemory | None = None

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """Problems of the `rocksdb.*` and memory keys."""
        return RocksDbOptions.read(settings)[1]

    def open(self, directory: Path | None, settings: EngineSettings) -> StorageEngine:
        """Open the directory, and create missing parts. See `StorageEngineFactory.open`."""
        options, problems = RocksDbOptions.read(settings)
        if problems:
            raise ConfigError(
                ConfigProblem(f"stores.{settings.store}.{key}", value, text) for key, value, text in problems
            )
        if directory is None:
            raise StoreError(f"store '{settings.store}': RocksDB needs a directory")
        path = _private(directory)
        damage = noted_damage(path)
        if damage is not None:
            raise StoreCorrupted(f"{path}: damage was found when it was last used: {damage}")
        ownership = Ownership(path)
        try:
            wanted = self._with_memory(settings.store, options)
            # Without its column family named, rocksdict opens an existing store with the options it was made with.
            db = Rdict(str(path), wanted, {"default": wanted}, AccessType.read_write())
            ownership.note_holder()
            remove_leftover(path)
        except Exception as cause:
            failure = translated(cause, path, OPENING)
            ownership.release_claim()
            raise failure from cause
        return RocksDbStorageEngine(db, path, wanted, ownership, options.gauges, wal=options.wal)

    def open_read_only(self, directory: Path, settings: EngineSettings) -> StorageEngine:
        """Open the directory as of its last flush, without disturbing its owner and without writing there."""
        path = directory.resolve()
        if not (path / "CURRENT").is_file():
            raise StoreError(f"{directory}: there is no RocksDB store here")
        # All files are opened now: the owner's compactions may unlink them later, but open files stay readable.
        properties = {key: value for key, value in settings.properties.items() if key != "rocksdb.max.open.files"}
        options = RocksDbOptions.read(EngineSettings(settings.store, properties))[0].to_options(None)
        for attempts_left in range(_READING_ATTEMPTS, 0, -1):
            files = _files(path)
            try:
                with links_to(path) as links:
                    db = Rdict(str(links), options, {"default": options}, AccessType.read_only(False))
            except Exception as cause:
                # A compaction may have deleted a file between our reading its name and opening it; else it is damage.
                if attempts_left == 1 or _files(path) == files:
                    raise translated(cause, path, "opening for reading", written_folder()) from cause
            else:
                return RocksDbStorageEngine(db, path, options, None)
        raise AssertionError

    def _with_memory(self, store: str, options: RocksDbOptions) -> Options:
        # Held for as long as the factory is: the container's memory is given back with its last store.
        keys = options.keys
        shared = self._shared = shared_memory(keys.shared_cache_bytes, keys.shared_write_buffer_bytes)
        cache = shared.cache if keys.cache_bytes is None else self._cache(store, keys.cache_bytes)
        return options.to_options(cache, shared.memtables if keys.write_buffer_bytes is None else None)

    def _cache(self, store: str, cache_bytes: int) -> Cache | None:
        if not cache_bytes:
            return None
        key = (os.getpid(), store, cache_bytes)
        if key not in self._caches:
            # Another thread may have made one meanwhile; the first one stays.
            self._caches.setdefault(key, Cache(cache_bytes))
        return self._caches[key]


def _files(path: Path) -> set[str]:
    """The tables, logs and manifests: the owner's flushes and compactions change them. A flush removes its log last."""
    names = (file.name for file in path.iterdir())
    return {name for name in names if name.endswith((".sst", ".log")) or name.startswith("MANIFEST")}


def _private(directory: Path) -> Path:
    try:
        path = directory.resolve()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as cause:
        raise StoreDiskFailed(f"{directory}: cannot make the store's directory: {cause.strerror or cause}") from cause
    return path
