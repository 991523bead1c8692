"""Opens RocksDB stores, for their task or for reading; one factory per store and container.

The stores of a container share one block cache and one limit of all memtables. A container is a process, so its share
is found by the process; it is given back with the last store's factory.

1. Stores without a `container.cache.size.bytes` of their own share one cache of the blocks used last.
2. Stores without a `container.write.buffer.size.bytes` of their own count their memtables together. Past seven eighths
   of the limit, a write flushes the memtable of its own store; RocksDB does not flush an idle store's. So memory stays
   near the limit, no write waits, and many idle stores with full memtables make the files of the others small.

Each part of a store that was written to has at least an arena block: an eighth of its write buffer, and 1 MiB at most.
A limit below the sum of these has no further effect. Filters and indexes of open tables are outside of both: about 1.5
bytes per key of the store, for as long as a table is open.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from rocksdict import AccessType, Cache, Options, Rdict, WriteBufferManager

from samzapy.api.engine import EngineSettings, Problems, StorageEngineFactory
from samzapy.errors import ConfigProblem, StoreCorrupted, StoreDiskFailed, StoreError, raise_if_any
from samzapy.storage.rocksdb.engine import RocksDbStorageEngine, remove_leftover
from samzapy.storage.rocksdb.options import RocksDbOptions
from samzapy.storage.rocksdb.ownership import OPENING, Ownership, noted_damage, translated

_READING_ATTEMPTS = 100
#: Files that a reader leaves out: the owner's lock and message log, and the file that rocksdict writes.
_NOT_READ: Final = ("LOCK", "LOG", "rocksdict-config.json")
#: Linux shows the open files of this process here, including deleted ones.
_OPEN_FILES: Final = Path("/proc/self/fd")


class SharedMemory:
    """`cache` is None for none; `memtables` counts all memtables that are opened with it."""

    def __init__(self, cache_bytes: int, memtable_bytes: int) -> None:
        self.cache = Cache(cache_bytes) if cache_bytes else None
        # A stall would make writers wait for a flush that, with many stores, only another store's write begins.
        self.memtables = WriteBufferManager(memtable_bytes, False)


_SHARED: WeakValueDictionary[tuple[int, int, int], SharedMemory] = WeakValueDictionary()
_LOCK = threading.Lock()


def shared_memory(cache_bytes: int, memtable_bytes: int) -> SharedMemory:
    """The memory that the stores of this process share, as long as one of them holds it; the same for the same
    sizes."""
    key = os.getpid(), cache_bytes, memtable_bytes
    with _LOCK:
        shared = _SHARED.get(key)
        if shared is None:
            shared = _SHARED[key] = SharedMemory(cache_bytes, memtable_bytes)
        return shared


class RocksDbStorageEngineFactory(StorageEngineFactory):
    """`stores.NAME.factory = rocksdb`. The block cache is made at the first open, in the process that opens."""

    persistent = True

    def __init__(self) -> None:
        self._caches: dict[tuple[int, str, int], Cache] = {}
        self._shared: SharedMemory | None = None

    def checkpoint(self, engine: RocksDbStorageEngine, directory: Path) -> None:
        """Copy the committed state of an engine in use; any thread."""
        engine.checkpoint(directory)

    def check(self, settings: EngineSettings) -> Problems:
        return RocksDbOptions.read(settings)[1]

    def open(
        self, directory: Path | None, settings: EngineSettings, *, read_only: bool = False
    ) -> RocksDbStorageEngine:
        """Open the directory, and create missing parts; or, for reading, as of its last flush, without disturbing its
        owner and without writing there."""
        options, problems = RocksDbOptions.read(settings)
        raise_if_any(ConfigProblem(f"stores.{settings.store}.{key}", value, text) for key, value, text in problems)
        if directory is None:
            raise StoreError(f"store '{settings.store}': RocksDB needs a directory")
        if read_only:
            return self._open_read_only(directory, settings)
        path = _private(directory)
        damage = noted_damage(path)
        if damage is not None:
            raise StoreCorrupted(f"{path}: damage was found when it was last used: {damage}")
        ownership = Ownership(path)
        try:
            tuned = self._with_memory(settings.store, options)
            # Without its column family named, rocksdict opens an existing store with the options it was made with.
            db = Rdict(str(path), tuned, {"default": tuned}, AccessType.read_write())
            remove_leftover(path)
        except Exception as cause:
            failure = translated(cause, path, OPENING)
            ownership.release()
            raise failure from cause
        return RocksDbStorageEngine(db, path, tuned, ownership, options.gauges, wal=options.wal)

    def _open_read_only(self, directory: Path, settings: EngineSettings) -> RocksDbStorageEngine:
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


def written_folder() -> Path | None:
    """The folder in which `links_to` makes its folders; None before the first one."""
    return None if tempfile.tempdir is None else Path(os.fsdecode(tempfile.tempdir))


@contextmanager
def links_to(path: Path) -> Iterator[Path]:
    """Make a temporary folder with a copy of the store's manifest and links to its files, for the time of an opening.

    1. rocksdict writes its own file at each opening, also for reading. In the store's directory it would need the right
       to write, and a full disk would leave the owner's file empty.
    2. The copy ends where the manifest ended before the files were listed. So every table that it names has a link,
       whatever the owner flushes meanwhile. On Linux the tables are also held open against compactions.
    3. If a table or a write-ahead log disappears too early, the opening fails and can be tried again. A missing log
       must not pass without an error, since RocksDB would read the later logs all the same.
    4. RocksDB's errors name the store's directory instead of the folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="samzapy-read-"))
    try:
        with ExitStack() as held:
            logs = {file.name for file in path.glob("*.log")}
            name = (path / "CURRENT").read_text().strip()
            manifest = held.enter_context((path / name).open("rb"))
            length = os.fstat(manifest.fileno()).st_size
            with os.scandir(path) as entries:
                names = {entry.name for entry in entries if entry.name not in _NOT_READ and entry.is_file()}
            tables = {entry for entry in names if entry.endswith(".sst")} if _OPEN_FILES.is_dir() else set()
            for table in tables:
                opened = held.enter_context((path / table).open("rb", buffering=0))
                (folder / table).symlink_to(_OPEN_FILES / str(opened.fileno()))
            for other in (names | logs) - tables - {name, "CURRENT"}:
                (folder / other).symlink_to(path / other)
            (folder / name).write_bytes(manifest.read(length))
            (folder / "CURRENT").write_text(f"{name}\n")
            yield folder
    except OSError:
        # The error names its file: one of the store, or one in the folder if there was no room for it.
        raise
    except Exception as cause:
        raise StoreError(str(cause).replace(str(folder), str(path))) from cause
    finally:
        shutil.rmtree(folder)
