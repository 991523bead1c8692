"""Schedules the snapshots of a task's stores, and makes them in a thread."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from samzapy.api.engine import StorageEngine
from samzapy.clock import Clock
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.store import BackupConfig
from samzapy.errors import StoreError
from samzapy.storage.backup.folder import BackupFolder, BackupUnavailable, open_folder
from samzapy.storage.backup.snapshot import SnapshotUploader, UploadStopped, newest_snapshot
from samzapy.storage.local.directory import checkpoints_beside, new_checkpoint
from samzapy.storage.local.marker import Marker
from samzapy.storage.spec import MakesCheckpoints, StoreSpec

_LOG = logging.getLogger(__name__)
#: Limits the uploads of a process: it may have many tasks, but has one network.
_UPLOADS_AT_ONCE = threading.Semaphore(2)
_TURN_S = 0.2
#: Seconds that a stop waits for an upload. After one that took longer, the process waits for no other.
_PATIENCE_S = 10.0
_HANGING = threading.Event()


class StoreBackup:
    """Makes snapshots of one store in a thread: the run loop only looks at the time.

    A snapshot that fails is logged, counted, and made again when the next one is due; it never ends the attempt.
    """

    def __init__(
        self,
        checkpoint: Callable[[Path], None],
        directory: Path,
        marker_of: Callable[[Path], bytes | None],
        open_folder: Callable[[], BackupFolder],
        config: BackupConfig,
        clock: Clock,
    ) -> None:
        """`checkpoint` copies the store's committed files, `marker_of` reads the marker of a copy. The copies are next
        to the store's `directory` for a time. `open_folder` is called by the thread, once."""
        self._checkpoint = checkpoint
        self._directory = directory
        self._marker_of = marker_of
        self._open_folder = open_folder
        self._config = config
        self._clock = clock
        self._uploader: SnapshotUploader | None = None
        self._begun_s = clock.monotonic()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._engine_in_use = threading.Lock()
        self._counts = {"snapshots": 0, "snapshot-failures": 0, "snapshot-files": 0, "snapshot-bytes": 0}

    def committed(self) -> None:
        """The store has changed: start a snapshot if one is due and none is being made."""
        due = (self._clock.monotonic() - self._begun_s) * 1000.0 >= self._config.interval_ms
        if due and (self._thread is None or not self._thread.is_alive()):
            self._begun_s = self._clock.monotonic()
            thread = threading.Thread(target=self._make, name="samzapy-backup", daemon=True)
            try:
                thread.start()
            except RuntimeError as cause:  # the system has no thread left
                self._failed(cause)
            else:
                self._thread = thread

    def settle(self) -> None:
        """Wait some seconds for a snapshot that is being made."""
        if self._thread is not None and not _HANGING.is_set():
            self._thread.join(_PATIENCE_S)
            if self._thread.is_alive():
                _HANGING.set()

    def close(self) -> None:
        """End the snapshot that is being made, at its next file. Afterwards no thread uses the engine. An upload that
        hangs is abandoned."""
        self._stopped.set()
        with self._engine_in_use:
            pass
        self.settle()

    def metrics(self) -> dict[str, float]:
        """Snapshots, failures, uploaded files and bytes since the start."""
        return {name: float(count) for name, count in self._counts.items()}

    def _make(self) -> None:
        while not _UPLOADS_AT_ONCE.acquire(timeout=_TURN_S):
            if self._stopped.is_set():
                return
        try:
            self._upload()
        except UploadStopped as stopped:
            _LOG.info("%s", stopped)
        except Exception as cause:  # noqa: BLE001  # a job does not depend on its snapshots
            self._failed(cause)
        else:
            _HANGING.clear()
        finally:
            _UPLOADS_AT_ONCE.release()

    def _failed(self, cause: Exception) -> None:
        self._counts["snapshot-failures"] += 1
        _LOG.warning("No snapshot of %s: %s", self._directory, cause)

    def _upload(self) -> None:
        if self._uploader is None:
            self._uploader = SnapshotUploader(self._open_folder(), self._config.kept, self._stopped.is_set)
        for left in checkpoints_beside(self._directory):
            shutil.rmtree(left, ignore_errors=True)
        checkpoint = new_checkpoint(self._directory)
        try:
            data = self._made(checkpoint)
            if data is None:
                return
            made = self._uploader.upload(checkpoint, Marker.from_bytes(data))
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
        self._counts["snapshots"] += 1
        self._counts["snapshot-files"] += made.files
        self._counts["snapshot-bytes"] += made.bytes

    def _made(self, checkpoint: Path) -> bytes | None:
        """The marker of a new checkpoint, None if the store was closed before. The task commits meanwhile, so the
        marker inside the checkpoint gives its position."""
        with self._engine_in_use:
            if self._stopped.is_set():
                return None
            self._checkpoint(checkpoint)
        data = self._marker_of(checkpoint)
        if data is None:
            raise StoreError(f"{checkpoint}: the checkpoint has no marker")
        return data


def snapshot_reader(
    job: str, task: str, config: StoreConfig, refuse: Callable[[Marker], str | None]
) -> Callable[[Path], Marker | None] | None:
    """A function that downloads the store's newest snapshot into a directory; None if the store has no snapshots, or
    their folder cannot be opened."""
    if config.backup is None:
        return None
    try:
        folder = _folder(job, task, config, config.backup)
    except BackupUnavailable as cause:
        _LOG.warning("Snapshots cannot be read: %s", cause)
        return None
    return lambda directory: newest_snapshot(folder, directory, refuse)


def open_backup(
    job: str, task: str, spec: StoreSpec, engine: StorageEngine, directory: Path, clock: Clock
) -> StoreBackup | None:
    """The maker of the snapshots of a task's part of a store; None if the job file asks for none."""
    backup = spec.config.backup
    if backup is None or not isinstance(spec.factory, MakesCheckpoints):
        return None

    def marker_of(checkpoint: Path) -> bytes | None:
        with closing(spec.open(checkpoint, read_only=True)) as opened:
            return opened.marker()

    make = partial(spec.factory.checkpoint, engine)
    return StoreBackup(make, directory, marker_of, partial(_folder, job, task, spec.config, backup), backup, clock)


def _folder(job: str, task: str, config: StoreConfig, backup: BackupConfig) -> BackupFolder:
    return open_folder(backup.path, backup.options, job, config.name, task.replace(" ", "_"))
