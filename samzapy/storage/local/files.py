"""Opens the files of a store on this machine.

1. A copy that a standby has left, and that is further than the store, replaces the store.
2. Other files are used if they pass the check, else set aside. None is deleted because it does not open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from samzapy.api.engine import EngineSettings, StorageEngine, StorageEngineFactory
from samzapy.errors import StoreCorrupted, StoreDiskFailed, StoreLocked
from samzapy.storage.local.directory import RefusedAs, make_private, set_aside, standbys_beside, store_directory, wipe
from samzapy.storage.local.marker import Marker

_LOG = logging.getLogger(__name__)
_LOCK_RETRY_S = 0.1
_NO_MARKER = "it holds data without a marker, so their owner and age are unknown"


@dataclass(frozen=True)
class LocalStore:
    """An open engine. `marker` is None if the engine is empty. `reason` says why an earlier store was set aside, if one
    was. `snapshot`: the files were downloaded."""

    engine: StorageEngine
    marker: Marker | None
    reason: str = ""
    snapshot: bool = False


@dataclass(frozen=True)
class LocalStores:
    """The stores of one task, below `base`. `lock_wait_s`: the longest wait for a locked store, in seconds."""

    base: Path
    job: str
    task: str
    lock_wait_s: float = 10.0

    def open_kept(
        self,
        factory: StorageEngineFactory,
        settings: EngineSettings,
        refuse: Callable[[Marker], str | None],
        now_ms: int,
    ) -> LocalStore:
        """The store as an earlier attempt left it. If it is damaged, has data without a marker, or `refuse` gives a
        reason, it is set aside and a new one is opened. An error of `refuse` passes through, and nothing is set
        aside."""
        if not factory.persistent:
            return LocalStore(factory.open(None, settings), None)
        path = self.directory(settings.store)
        engine: StorageEngine | None = None
        kind: RefusedAs = "stale"
        try:
            engine = self._open(factory, path, settings)
            data = engine.marker()
            if data is None and is_empty(engine):
                return LocalStore(engine, None)
            marker = None if data is None else Marker.from_bytes(data)
            reason = _NO_MARKER if marker is None else refuse(marker) or ""
            if not reason:
                return LocalStore(engine, marker)
        except StoreCorrupted as damage:
            kind, reason = "corrupt", f"it is damaged ({damage})"
        except ValueError as cause:
            reason = f"its marker cannot be read ({cause})"
        except BaseException:
            if engine is not None:
                engine.close()
            raise
        if engine is not None:
            engine.close()
        _put_out_of_the_way(path, kind, reason, now_ms)
        return LocalStore(self._open(factory, path, settings), None, reason)

    def replace_empty(
        self,
        factory: StorageEngineFactory,
        settings: EngineSettings,
        empty: LocalStore,
        fetch: Callable[[Path], Marker | None],
    ) -> LocalStore:
        """Replace an empty store by the store that `fetch` puts into its directory. If `fetch` puts nothing there, or
        the store does not open with the marker that `fetch` returned, open an empty one again."""
        path = self.directory(settings.store)
        empty.engine.close()
        wipe(path)
        marker = fetch(path)
        if marker is None:
            return replace(empty, engine=self._open(factory, path, settings))
        try:
            engine = self._open(factory, path, settings)
            if engine.marker() == marker.to_bytes():
                return LocalStore(engine, marker, empty.reason, snapshot=True)
            engine.close()
            damage = "its contents differ from its index"
        except StoreCorrupted as cause:
            damage = str(cause)
        _LOG.warning("The snapshot in %s is not used: %s", path, damage)
        wipe(path)
        return replace(empty, engine=self._open(factory, path, settings))

    def open_empty(self, factory: StorageEngineFactory, settings: EngineSettings, now_ms: int) -> StorageEngine:
        """An empty store. Files that an earlier attempt left are deleted; files that are damaged or have no marker are
        set aside."""
        if not factory.persistent:
            return factory.open(None, settings)
        path = self.directory(settings.store)
        engine: StorageEngine | None = None
        kind: RefusedAs = "stale"
        try:
            # Opened before it is deleted: another process that has it open holds its lock.
            engine = self._open(factory, path, settings)
            marked = engine.marker() is not None
            if not marked and is_empty(engine):
                return engine
            reason = "" if marked else _NO_MARKER
        except StoreCorrupted as damage:
            kind, reason = "corrupt", f"it is damaged ({damage})"
        if engine is not None:
            engine.close()
        if reason:
            _put_out_of_the_way(path, kind, reason, now_ms)
        else:
            wipe(path)
        return self._open(factory, path, settings)

    def directory(self, store: str) -> Path:
        """The directory of the store of that name, which need not exist."""
        return store_directory(self.base, self.job, store, self.task)

    def _open(self, factory: StorageEngineFactory, path: Path, settings: EngineSettings) -> StorageEngine:
        make_private(path, self.base)
        pause = Event()
        for _ in range(int(self.lock_wait_s / _LOCK_RETRY_S)):
            try:
                return factory.open(path, settings)
            except StoreLocked:
                pause.wait(_LOCK_RETRY_S)
        return factory.open(path, settings)


def is_empty(engine: StorageEngine) -> bool:
    """Whether the engine has no entries; the marker does not count. Raises StoreCorrupted."""
    with engine.iterate(None, None) as pairs:
        return next(pairs, None) is None


def _put_out_of_the_way(path: Path, kind: RefusedAs, reason: str, now_ms: int) -> None:
    aside = set_aside(path, kind, now_ms)
    _LOG.warning("The local store %s is not used: %s. It was set aside as %s.", path, reason, aside.name)


def take_over_standby(
    path: Path,
    factory: StorageEngineFactory,
    settings: EngineSettings,
    refuse: Callable[[Marker], str | None],
    now_ms: int,
) -> bool:
    """Replace the store at `path` by the furthest usable copy beside it, if that is further. Returns whether it did.

    The store that was there is set aside. A copy or store that is open elsewhere is left alone. Raises StoreError.
    """
    copies = standbys_beside(path)
    if not copies:
        return False
    offsets = {copy: _usable_offset(copy, factory, settings, refuse) for copy in copies}
    best = max(copies, key=offsets.__getitem__)
    try:
        own = _offset(path, factory, settings, refuse) if path.exists() else -1
    except StoreLocked:
        return False
    if offsets[best] <= own:
        return False
    if path.exists():
        set_aside(path, "stale", now_ms)
    try:
        best.rename(path)
    except OSError as cause:
        raise StoreDiskFailed(f"{path}: cannot take over {best.name}: {cause.strerror or cause}") from cause
    _LOG.info(
        "The local store %s is the standby %s from now on, at changelog offset %d", path, best.name, offsets[best]
    )
    return True


def _usable_offset(
    copy: Path, factory: StorageEngineFactory, settings: EngineSettings, refuse: Callable[[Marker], str | None]
) -> int:
    try:
        return _offset(copy, factory, settings, refuse)
    except StoreLocked as cause:
        _LOG.info("The standby %s is not taken over: %s", copy.name, cause)
        return -1


def _offset(
    path: Path, factory: StorageEngineFactory, settings: EngineSettings, refuse: Callable[[Marker], str | None]
) -> int:
    """The changelog offset of the store there, -1 if it cannot be used. Raises StoreLocked."""
    try:
        # A close may find damage as well.
        with closing(factory.open(path, settings)) as engine:
            data = engine.marker()
        marker = None if data is None else Marker.from_bytes(data)
    except (StoreCorrupted, ValueError):
        return -1
    return -1 if marker is None or refuse(marker) else marker.changelog_offset
