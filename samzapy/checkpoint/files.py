"""Checkpoints in files, one a task: written beside, synced, renamed over the old one, the folder synced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.system import SystemProducer
from samzapy.checkpoint import codec
from samzapy.errors import EnvironmentFailure, TaskMigrated

_PARTITIONS = "changelog-partitions.json"
_OWNER = "owner.json"


class FileCheckpointManager(CheckpointManager):
    """For jobs with all containers on one file system. Contents are the checkpoint topic's record values."""

    def __init__(self, folder: Path) -> None:
        """`folder` belongs to one job; it is made when the job starts."""
        self._folder = folder

    def start(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as cause:
            raise EnvironmentFailure(f"task.checkpoint.path: cannot make {self._folder} ({cause.strerror})") from cause

    def read(self, task_name: str) -> Checkpoint | None:
        path = self._path(task_name)
        data = self._load(path)
        return None if data is None else codec.decode(data, str(path))

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        for task_name, checkpoint in checkpoints.items():
            known = self.read(task_name)
            if known is not None and known.epoch > checkpoint.epoch:
                raise TaskMigrated(
                    f"{task_name}: an attempt of epoch {known.epoch} has written its checkpoint, this one has epoch "
                    f"{checkpoint.epoch}"
                )
            self._store(self._path(task_name), codec.encode(checkpoint))

    def read_changelog_partitions(self) -> dict[str, int]:
        path = self._folder / _PARTITIONS
        data = self._load(path)
        return {} if data is None else codec.decode_partitions(data, str(path))

    def write_changelog_partitions(self, partitions: Mapping[str, int]) -> None:
        self._store(self._folder / _PARTITIONS, codec.encode_partitions(partitions))

    def read_owner(self) -> JobRun | None:
        path = self._folder / _OWNER
        data = self._load(path)
        return None if data is None else codec.decode_owner(data, str(path))

    def write_owner(self, run: JobRun) -> None:
        self._store(self._folder / _OWNER, codec.encode_owner(run))

    def read_record(self, record: JobRecord) -> dict[str, Any] | None:
        path = self._folder / f"{record.value}.json"
        data = self._load(path)
        return None if data is None else codec.decode_record(data, str(path))

    def write_record(self, record: JobRecord, value: Mapping[str, Any]) -> None:
        self._store(self._folder / f"{record.value}.json", codec.encode_record(value))

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, task_name: str) -> Path:
        return self._folder / f"task-{quote(task_name, safe='')}.json"

    def _load(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot read the checkpoint ({cause.strerror})") from cause

    def _store(self, path: Path, data: bytes) -> None:
        beside = path.with_suffix(".tmp")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot write the checkpoint ({cause.strerror})") from cause
