"""The snapshots of one task's stores: where they are, and what reads and makes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from samzapy.api.engine import EngineSettings, StorageEngine, StorageEngineFactory
from samzapy.clock import Clock
from samzapy.config.stores import StoreConfig
from samzapy.storage.backup.folder import BackupFolder, BackupUnavailable, open_folder
from samzapy.storage.backup.restoring import newest_snapshot
from samzapy.storage.backup.schedule import StoreBackup
from samzapy.storage.marker import Marker

_LOG = logging.getLogger(__name__)


class TaskBackups:
    """One task's folders of snapshots, by store."""

    def __init__(self, job: str, task: str, clock: Clock) -> None:
        self._job = job
        self._task = task.replace(" ", "_")
        self._clock = clock

    def reader(
        self, config: StoreConfig, refuse: Callable[[Marker], str | None]
    ) -> Callable[[Path], Marker | None] | None:
        """What downloads the store's newest snapshot into a directory; None if it has none, or nobody can tell."""
        if config.backup is None:
            return None
        try:
            folder = self._folder(config)
        except BackupUnavailable as cause:
            _LOG.warning("Snapshots cannot be read: %s", cause)
            return None
        return lambda directory: newest_snapshot(folder, directory, refuse)

    def maker(
        self,
        config: StoreConfig,
        engine: StorageEngine,
        factory: StorageEngineFactory,
        settings: EngineSettings,
        directory: Path,
    ) -> StoreBackup | None:
        """What makes the store's snapshots; None if it is not to have any."""
        if config.backup is None:
            return None

        def marker_of(checkpoint: Path) -> bytes | None:
            with closing(factory.open_read_only(checkpoint, settings)) as opened:
                return opened.marker()

        return StoreBackup(engine, directory, marker_of, partial(self._folder, config), config.backup, self._clock)

    def _folder(self, config: StoreConfig) -> BackupFolder:
        assert config.backup is not None
        return open_folder(config.backup.path, config.backup.options, self._job, config.name, self._task)
