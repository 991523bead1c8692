"""Reads a store from outside its job: committed data only. It writes nothing and does not disturb the job.

1. `ChangelogReader` reads the changelog, on any machine, while the job runs or not.
2. `read_files` reads the files of a local store on this machine. If the job runs, they are some commits behind.

Keys and values are bytes; the caller has the serdes.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple, final

from samzapy.api.engine import EngineSettings, StorageEngine
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, RecordBatch, SystemAdmin, SystemConsumer
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import BYTE_ENGINES
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, EnvironmentFailure, StoreError
from samzapy.plugins import load_class
from samzapy.storage.changelog.restore import ProgressCallback, StoreRestore, run_restores
from samzapy.storage.changelog.topic import Tail, usable
from samzapy.storage.kv.expiring import Expiry, put_time, unstamped
from samzapy.storage.kv.uncommitted import InMemoryStorageEngineFactory
from samzapy.storage.local.directory import is_empty, lies_beside, store_directory, wipe
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.spec import StoreSpec, store_specs

#: The longest changelog that is read into memory, in records; longer ones may have records of any size.
_FEW_RECORDS = 1_000


def store_of(stores: Mapping[str, StoreConfig], name: str) -> StoreConfig:
    """The store of that name. Raises ConfigError, naming the known ones."""
    store = stores.get(name)
    if store is None:
        known = ", ".join(sorted(stores)) or "none"
        raise ConfigError.of(f"stores.{name}.factory", None, f"no such store; the job has: {known}")
    return store


def key_value_store(config: JobConfig, name: str, *, changelog_for: str, engine_for: str) -> StoreConfig:
    """The store of keys and values with this name and a changelog. Raises ConfigError, with the purpose of the
    changelog (`what is written goes there`) and the ability of such stores only (`are filled from a frame`)."""
    store = store_of(config.stores, name)
    if store.changelog is None:
        message = f"is required: {changelog_for}"
        raise ConfigError.of(f"stores.{name}.changelog", None, message)
    if store_specs(config)[name].view is not None:
        message = f"has an encoding of its own; only key-value stores (rocksdb, inmemory) {engine_for}"
        raise ConfigError.of(f"stores.{name}.factory", store.factory, message)
    return store


def local_directories(job_name: str, store: str, folder: Path) -> list[Path]:
    """The directories of the store's tasks below `folder`, which may also be one of them. Raises EnvironmentFailure."""
    folder = Path(os.path.expanduser(folder))  # noqa: PTH111  # raises nothing for an unknown user
    _require_rights(folder)
    if (folder / "CURRENT").is_file():
        _require_rights(folder / "CURRENT")
        return [folder]
    parent = store_directory(folder, job_name, store, "task").parent
    _require_rights(parent)
    beside = [path for path in sorted(parent.glob("*")) if not lies_beside(path)]
    for path in beside:
        _require_rights(path)
    directories = [path for path in beside if (path / "CURRENT").is_file()]
    for path in directories:
        _require_rights(path / "CURRENT")
    if not directories:
        raise EnvironmentFailure(f"{parent}: there is no local store here")
    return directories


def _require_rights(path: Path) -> None:
    """Raise EnvironmentFailure if the path is there, but not for this user. A glob would only find nothing."""
    try:
        needed = os.R_OK | os.X_OK if stat.S_ISDIR(path.stat().st_mode) else os.R_OK
        allowed = os.access(path, needed, effective_ids=True)
    except PermissionError:
        allowed = False
    except OSError:
        return
    if not allowed:
        raise EnvironmentFailure(f"{path}: this user may not read it; run the command as the user of the job")


class Entry(NamedTuple):
    """One entry, and the changelog partition (so the task) that has it."""

    partition: int
    key: bytes
    value: bytes


@dataclass(frozen=True)
class Selection:
    """The selected keys: a list, or lower <= key < upper, None for any."""

    keys: frozenset[bytes] | None = None
    lower: bytes | None = None
    upper: bytes | None = None

    def holds(self, key: bytes) -> bool:
        """Whether `key` is selected."""
        if self.keys is not None:
            return key in self.keys
        return (self.lower is None or key >= self.lower) and (self.upper is None or key < self.upper)


@final
class Contents:
    """The parts of a store, open for reading. `close` removes its temporary files."""

    def __init__(
        self,
        parts: Mapping[int, StorageEngine],
        cleanup: ExitStack,
        expiry: Expiry | None,
        as_of: Mapping[int, Marker],
        unmarked: Sequence[Path] = (),
        empty: Sequence[Path] = (),
    ) -> None:
        """`as_of`: the markers, by changelog partition. `unmarked`: the directories with entries but without a marker;
        their parts have negative numbers. `empty`: the directories of tasks that have written nothing yet."""
        self.as_of = as_of
        self.unmarked = unmarked
        self.empty = empty
        self._parts = parts
        self._cleanup = cleanup
        self._expiry = expiry

    def entries(self, selection: Selection) -> Iterator[Entry]:
        """The selected entries of all parts, in unsigned byte order of their keys, without expired ones."""
        if selection.keys is not None:
            ranges = [(key, key + b"\x00") for key in sorted(selection.keys)]
            return chain.from_iterable(self._range(part, *bounds) for bounds in ranges for part in self._parts)
        return heapq.merge(
            *(self._range(partition, selection.lower, selection.upper) for partition in self._parts),
            key=lambda entry: (entry.key, entry.partition),
        )

    def timed(self, partition: int) -> Iterator[tuple[bytes, bytes, int | None]]:
        """Key, value and time of the put (None in a store without a time to live) of the entries of one part that have
        not expired, in unsigned byte order of their keys."""
        return self._alive(partition, None, None)

    def _range(self, partition: int, lower: bytes | None, upper: bytes | None) -> Iterator[Entry]:
        return (Entry(partition, key, value) for key, value, _ in self._alive(partition, lower, upper))

    def _alive(
        self, partition: int, lower: bytes | None, upper: bytes | None
    ) -> Iterator[tuple[bytes, bytes, int | None]]:
        with self._parts[partition].iterate(lower, upper) as pairs:
            for key, data in pairs:
                if self._expiry is None:
                    yield key, data, None
                elif (time_ms := put_time(data)) > self._expiry.horizon():
                    yield key, unstamped(data), time_ms

    def close(self) -> None:
        """Release it."""
        self._cleanup.close()

    def __enter__(self) -> Contents:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _SelectiveRestore(StoreRestore):
    """Keeps the selected keys only."""

    selection = Selection()

    def add(self, batch: RecordBatch) -> None:
        holds = self.selection.holds
        rows = [row for row, key in enumerate(batch.keys) if key is not None and holds(key)]
        if rows:
            super().add(
                RecordBatch(
                    batch.ssp,
                    [batch.offsets[row] for row in rows],
                    [batch.keys[row] for row in rows],
                    [batch.values[row] for row in rows],
                    [batch.timestamps[row] for row in rows],
                )
            )


@dataclass(frozen=True)
class ChangelogReader:
    """Reads stores back from their changelogs, into files below `folder` (`STORE/PARTITION`), or into memory for few
    keys or records. Several stores may be open at a time.

    The reader waits for transactions that are open at its start: `stall_s` seconds without progress are an error, so it
    should be longer than the time-out of a crashed writer's transaction.
    """

    admin_of: Callable[[str], SystemAdmin]
    consumer_of: Callable[[str], SystemConsumer]
    clock: Clock
    folder: Path
    on_progress: ProgressCallback | None = None
    stall_s: float = 60.0

    def ends(self, config: StoreConfig, partitions: Sequence[int]) -> dict[SystemStreamPartition, OffsetRange]:
        """The present ranges of these partitions of the store's changelog (none given: of all). Raises UnknownStream,
        and ConfigError for a store without a changelog or a partition that the changelog does not have."""
        ssps = self._ssps(config, partitions)
        return self.admin_of(ssps[0].system).offsets(ssps)

    def read(
        self,
        config: StoreConfig,
        partitions: Sequence[int],
        selection: Selection,
        bounds: Mapping[SystemStreamPartition, OffsetRange] | None = None,
    ) -> Contents:
        """The committed entries of the partitions of the store's changelog (none given: of all), up to its ends now, or
        to the `bounds` that were taken earlier. Raises as `ends`, and RestoreError."""
        bounds = self.ends(config, partitions) if bounds is None else bounds
        expiry = None if config.ttl_ms is None else Expiry(config.ttl_ms, self.clock)
        records = sum(upcoming - oldest for oldest, upcoming in bounds.values())
        small = selection.keys is not None or records <= _FEW_RECORDS
        factory = InMemoryStorageEngineFactory() if small else load_class(BYTE_ENGINES.short["rocksdb"])()
        with ExitStack() as cleanup:
            parts: dict[int, StorageEngine] = {}
            restores: list[StoreRestore] = []
            for ssp, log in bounds.items():
                directory = None if small else self.folder / config.name / str(ssp.partition)
                engine = factory.open(directory, EngineSettings(config.name, {}, len(bounds)))
                if directory is not None:
                    # A caller that reads many stores or partitions in turn may have disk space for one at a time.
                    cleanup.callback(wipe, directory)
                cleanup.callback(engine.close)
                parts[ssp.partition] = engine
                identity = StoreIdentity("", config.name, ssp.partition, stamped=expiry is not None)
                restore = _SelectiveRestore(engine, identity, Tail(ssp, *log), expiry=expiry)
                restore.selection = selection
                if restore.start < restore.bound:
                    restores.append(restore)
            if restores:
                with closing(self.consumer_of(restores[0].ssp.system)) as consumer:
                    run_restores(restores, consumer, self.clock, self.on_progress, self.stall_s)
            return Contents(parts, cleanup.pop_all(), expiry, {})

    def _ssps(self, config: StoreConfig, partitions: Sequence[int]) -> list[SystemStreamPartition]:
        stream = config.changelog
        if stream is None:
            message = "is required to read the store from elsewhere; --local reads its files"
            raise ConfigError.of(f"stores.{config.name}.changelog", None, message)
        description = usable(self.admin_of(stream.system).describe(stream.stream), config, 0)
        for partition in partitions:
            if not 0 <= partition < description.partitions:
                message = f"{stream} has partitions 0 to {description.partitions - 1}"
                raise ConfigError.of("--partition", str(partition), message)
        return [SystemStreamPartition(*stream, number) for number in partitions or range(description.partitions)]


def read_files(spec: StoreSpec, directories: Sequence[Path], clock: Clock) -> Contents:
    """The entries on disk in the directories of the store's tasks; they may be in use. Raises StoreError,
    EnvironmentFailure."""
    config = spec.config
    with ExitStack() as cleanup:
        parts: dict[int, StorageEngine] = {}
        as_of: dict[int, Marker] = {}
        unmarked: list[Path] = []
        empty: list[Path] = []
        for directory in directories:
            engine = spec.open(directory, read_only=True)
            cleanup.callback(engine.close)
            marker = _marker(engine, directory, config)
            # Only the marker holds the partition's number, and the store has none before its first entries.
            if marker is not None:
                number = marker.identity.partition
                if number in parts:
                    raise EnvironmentFailure(f"{directory}: another directory has partition {number} of the store, too")
                parts[number], as_of[number] = engine, marker
            elif is_empty(engine):
                empty.append(directory)
            else:
                parts[-1 - len(parts)] = engine
                unmarked.append(directory)
        expiry = None if config.ttl_ms is None else Expiry(config.ttl_ms, clock)
        return Contents(parts, cleanup.pop_all(), expiry, as_of, unmarked, empty)


def _marker(engine: StorageEngine, directory: Path, config: StoreConfig) -> Marker | None:
    if (data := engine.marker()) is None:
        return None
    try:
        marker = Marker.from_bytes(data)
    except ValueError as cause:
        raise StoreError(f"{directory}: its marker cannot be read ({cause})") from cause
    if marker.identity.store != config.name:
        raise EnvironmentFailure(f"{directory}: holds store '{marker.identity.store}', not '{config.name}'")
    if marker.identity.stamped != (config.ttl_ms is not None):
        raise EnvironmentFailure(f"{directory}: was written with another stores.{config.name}.rocksdb.ttl.ms")
    return marker
