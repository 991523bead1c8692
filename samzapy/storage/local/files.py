"""Opens the files of a store on this machine.

1. A copy that a standby has left, and that is further than the store, replaces the store.
2. Other files are used if they pass the check, else set aside. None is deleted because it does not open.
3. Without files, the store starts from a snapshot if there is one, else empty.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Event

from samzapy.api.engine import StorageEngine
from samzapy.api.serde import Serde, hinted
from samzapy.clock import Clock
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, EnvironmentFailure, StoreCorrupted, StoreDiskFailed, StoreLocked
from samzapy.storage.kv.expiring import unstamped
from samzapy.storage.local.directory import RefusedAs, make_private, set_aside, standbys_beside, wipe
from samzapy.storage.local.marker import Marker
from samzapy.storage.spec import StoreSpec

_LOG = logging.getLogger(__name__)
_LOCK_RETRY_S = 0.1
_NO_MARKER = "it holds data without a marker, so their owner and age are unknown"

#: Gives the reason (a clause) why files with this marker must not be used; None if they may.
Refuse = Callable[[Marker], "str | None"]


@dataclass(frozen=True)
class OpenedFiles:
    """An open engine, and the directory of its files, if it keeps any. `source`: the origin of its entries (`local
    store`, `standby`, `snapshot`), empty if it has none; `marker` is None then. `reason`: why earlier files were set
    aside, if any were."""

    engine: StorageEngine
    path: Path | None
    marker: Marker | None = None
    source: str = ""
    reason: str = ""


class LocalFiles:
    """The files of one task's part of a store, in the directory `path`; without one if its engine keeps none."""

    def __init__(
        self, spec: StoreSpec, path: Path | None, clock: Clock, tasks: int = 1, lock_wait_s: float = 10.0
    ) -> None:
        """`tasks` of a container share the engine's memory. `lock_wait_s`: seconds to wait for a locked store."""
        self.path = path if spec.persistent else None
        self._spec = spec
        self._clock = clock
        self._tasks = tasks
        self._lock_wait_s = lock_wait_s

    def open_kept(self, refuse: Refuse, source: str = "local store") -> OpenedFiles:
        """The store as an earlier attempt left it, with that `source`. It is set aside and a new one is opened, if it
        is damaged, has data without a marker, or `refuse` gives a reason. An error of `refuse` passes through, and
        nothing is set aside."""
        if self.path is None:
            return OpenedFiles(self._spec.open(None, self._tasks), None)
        engine: StorageEngine | None = None
        kind: RefusedAs = "stale"
        try:
            engine = self._open(self.path)
            data = engine.marker()
            if data is None and is_empty(engine):
                return OpenedFiles(engine, self.path)
            marker = None if data is None else Marker.from_bytes(data)
            reason = _NO_MARKER if marker is None else refuse(marker) or ""
            if not reason:
                return OpenedFiles(engine, self.path, marker, source)
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
        aside = set_aside(self.path, kind, self._clock.wall_ms())
        _LOG.warning("The local store %s is not used: %s. It was set aside as %s.", self.path, reason, aside.name)
        return OpenedFiles(self._open(self.path), self.path, reason=reason)

    def open_empty(self) -> OpenedFiles:
        """An empty store. Files that an earlier attempt left are deleted; files that are damaged or have no marker are
        set aside."""
        if self.path is None:
            return OpenedFiles(self._spec.open(None, self._tasks), None)
        # Opened before it is deleted: another process that has it open holds its lock.
        opened = self.open_kept(lambda _: None)
        if opened.marker is None:
            return OpenedFiles(opened.engine, self.path)
        opened.engine.close()
        wipe(self.path)
        return OpenedFiles(self._open(self.path), self.path)

    def fetch(self, empty: OpenedFiles, fetch: Callable[[Path], Marker | None]) -> OpenedFiles:
        """Replace an `empty` store by the store that `fetch` puts into its directory. If `fetch` puts nothing there, or
        the store does not open with the marker that `fetch` returned, open an empty one again."""
        path = self.path
        if path is None:
            return empty
        empty.engine.close()
        wipe(path)
        marker = fetch(path)
        if marker is None:
            return replace(empty, engine=self._open(path))
        try:
            engine = self._open(path)
            if engine.marker() == marker.to_bytes():
                return OpenedFiles(engine, path, marker, "snapshot", empty.reason)
            engine.close()
            damage = "its contents differ from its index"
        except StoreCorrupted as cause:
            damage = str(cause)
        _LOG.warning("The snapshot in %s is not used: %s", path, damage)
        wipe(path)
        return replace(empty, engine=self._open(path))

    def take_over_standby(self, refuse: Refuse) -> bool:
        """Replace the store by the furthest usable copy next to it, if that is further. Returns whether it did.

        The store that was there is set aside. A copy or store that is open elsewhere is left alone. Raises StoreError.
        """
        path = self.path
        copies = [] if path is None else standbys_beside(path)
        if path is None or not copies:
            return False
        offsets = {copy: self._usable_offset(copy, refuse) for copy in copies}
        best = max(copies, key=offsets.__getitem__)
        try:
            own = self._offset(path, refuse) if path.exists() else -1
        except StoreLocked:
            return False
        if offsets[best] <= own:
            return False
        if path.exists():
            set_aside(path, "stale", self._clock.wall_ms())
        try:
            best.rename(path)
        except OSError as cause:
            raise StoreDiskFailed(f"{path}: cannot take over {best.name}: {cause.strerror or cause}") from cause
        _LOG.info("The local store %s was the standby %s, at changelog offset %d", path, best.name, offsets[best])
        return True

    def _usable_offset(self, copy: Path, refuse: Refuse) -> int:
        try:
            return self._offset(copy, refuse)
        except StoreLocked as cause:
            _LOG.info("The standby %s is not taken over: %s", copy.name, cause)
            return -1

    def _offset(self, path: Path, refuse: Refuse) -> int:
        """The changelog offset of the store there, -1 if it cannot be used. Raises StoreLocked."""
        try:
            # A close may find damage as well.
            with closing(self._spec.open(path, self._tasks)) as engine:
                data = engine.marker()
            marker = None if data is None else Marker.from_bytes(data)
        except (StoreCorrupted, ValueError):
            return -1
        return -1 if marker is None or refuse(marker) else marker.changelog_offset

    def _open(self, path: Path) -> StorageEngine:
        make_private(path)
        pause = Event()
        for _ in range(int(self._lock_wait_s / _LOCK_RETRY_S)):
            try:
                return self._spec.open(path, self._tasks)
            except StoreLocked:
                pause.wait(_LOCK_RETRY_S)
        return self._spec.open(path, self._tasks)


def is_empty(engine: StorageEngine) -> bool:
    """Whether the engine has no entries; the marker does not count. Raises StoreCorrupted."""
    with engine.iterate(None, None) as pairs:
        return next(pairs, None) is None


#: Entries that a start reads with the classes of a store.
_SAMPLE = 1_000


def check_sample(config: StoreConfig, engine: StorageEngine, key_serde: Serde, value_serde: Serde) -> None:
    """Raise ConfigError if a class of the store does not read one of its first entries, or writes a key in other bytes:
    without the check it would fail, or miss entries, in the middle of a run. Nothing is read without classes."""
    if key_serde.object_type is None and value_serde.object_type is None:
        return
    with engine.iterate(None, None) as pairs:
        for key, value in islice(pairs, _SAMPLE):
            data = value if config.ttl_ms is None else unstamped(value)
            _try("key", config.name, config.key_type, key_serde, key, key)
            _try("msg", config.name, config.msg_type, value_serde, data, _shown(key_serde, key))


def _try(part: str, store: str, path: str | None, serde: Serde, data: bytes, key: object) -> None:
    if serde.object_type is None:
        return
    cause: Exception | None = None
    try:
        value = serde.from_bytes(data)
        if part == "msg" or (now := serde.to_bytes(value)) == data:
            return
        reason = f"the class writes it as {reprlib.repr(now)}, so it would not be found"
    except EnvironmentFailure:
        raise
    except Exception as failure:  # noqa: BLE001  # whatever a serde raises is about this entry
        cause, reason = failure, hinted(serde).misfit(failure)
    message = (
        f"does not read what the store holds: key {reprlib.repr(key)}: {reason}; give new fields defaults and old ones "
        "their types, or copy the store to another changelog (samzapy store copy)"
    )
    raise ConfigError.of(f"stores.{store}.{part}.type", path, message) from cause


def _shown(serde: Serde, key: bytes) -> object:
    try:
        return serde.from_bytes(key)
    except Exception:  # noqa: BLE001  # a serde may refuse in any way; the bytes are shown then
        return key
