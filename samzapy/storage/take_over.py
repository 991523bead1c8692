"""A task that starts puts the copy of its store that a standby has left here in its store's place, if that is further."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from samzapy.api.engine import EngineSettings, StorageEngineFactory
from samzapy.errors import StoreCorrupted, StoreError, StoreLocked
from samzapy.storage.directory import set_aside, standbys_beside
from samzapy.storage.marker import Marker

logger = logging.getLogger(__name__)


def take_over_standby(
    path: Path,
    factory: StorageEngineFactory,
    settings: EngineSettings,
    refuse: Callable[[Marker], str | None],
    now_ms: int,
) -> bool:
    """Put the furthest usable copy beside the store at `path` in its place, if it is further; whether one was.

    What was there is set aside. What somebody has open is left alone, be it a copy or the store. Raises StoreError.
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
        raise StoreError(f"{path}: cannot take over {best.name}: {cause.strerror or cause}") from cause
    logger.info(
        "The local store %s is the standby %s from now on, at changelog offset %d", path, best.name, offsets[best]
    )
    return True


def _usable_offset(
    copy: Path, factory: StorageEngineFactory, settings: EngineSettings, refuse: Callable[[Marker], str | None]
) -> int:
    try:
        return _offset(copy, factory, settings, refuse)
    except StoreLocked as cause:
        logger.info("The standby %s is not taken over: %s", copy.name, cause)
        return -1


def _offset(
    path: Path, factory: StorageEngineFactory, settings: EngineSettings, refuse: Callable[[Marker], str | None]
) -> int:
    """The changelog offset that the store there is at, -1 if it cannot be used. Raises StoreLocked."""
    try:
        # Damage may show when it is closed, too.
        with closing(factory.open(path, settings)) as engine:
            data = engine.marker()
        marker = None if data is None else Marker.from_bytes(data)
    except (StoreCorrupted, ValueError):
        return -1
    return -1 if marker is None or refuse(marker) else marker.changelog_offset
