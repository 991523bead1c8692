"""`task.checkpoint.factory=none`, as in Samza: nothing is kept, so every start begins where the streams' defaults say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.system import SystemProducer


class NoCheckpointManager(CheckpointManager):
    """Forgets. A job without checkpoints has no owner either: two copies of it run side by side."""

    def start(self) -> None:
        """There is nothing to create."""

    def read(self, task_name: str) -> Checkpoint | None:
        return None

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        """Nothing is kept."""

    def read_changelog_partitions(self) -> dict[str, int]:
        return {}

    def write_changelog_partitions(self, partitions: Mapping[str, int]) -> None:
        """Nothing is kept: the planner numbers the tasks of the same inputs in the same way."""

    def read_owner(self) -> JobRun | None:
        return None

    def write_owner(self, run: JobRun) -> None:
        """Nothing is kept."""

    def read_record(self, record: JobRecord) -> None:
        return None

    def write_record(self, record: JobRecord, value: Mapping[str, Any]) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held open."""
