"""`task.checkpoint.*` and `state.checkpoint.*`: where the positions of the tasks are kept, and the states of
PersistentTasks.

The keys of the state checkpoints have Gearpump's names where it has any.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from samzapy.config.reading.classes import CHECKPOINTS, FILE_CHECKPOINTS, NO_CHECKPOINTS, TOPIC_CHECKPOINTS
from samzapy.config.reading.keys import FOLDER, TEXT, Kind, Reader, integer, key, split_list
from samzapy.config.streams.stream import check_system

_COPIES = integer(1, 32_767)


def _samza_records(text: str) -> bool:
    versions = set(split_list(text))
    if not versions or not versions <= {"1", "2"}:
        raise ValueError("1, 2 or 1,2")
    return "1" in versions


@dataclass(frozen=True)
class CheckpointConfig:
    """Where positions are kept: `system` is set for a topic, `path` for files."""

    factory: str = key("task.checkpoint.factory", CHECKPOINTS.kind, TOPIC_CHECKPOINTS, shown="topic")
    """The storage of positions: topic, file, a class, Samza's Java class name, or none. Samza's default is none.
    samzapy's default is topic, because without positions a restart loses or repeats messages."""
    system: str | None = key(
        "task.checkpoint.system", TEXT, None, shown="job.default.system, else the only input system"
    )
    """The system of the checkpoint topic."""
    path: Path | None = key("task.checkpoint.path", FOLDER, None, shown="required with file")
    """The folder of file checkpoints."""
    replication_factor: int | None = key(
        "task.checkpoint.replication.factor",
        _COPIES,
        None,
        shown="the system's",
        otherwise=("systems.{system}.default.stream.replication.factor",),
    )
    """Copies of the checkpoint topic."""
    samza_records: bool = key(
        "task.checkpoint.write.versions", Kind("1, 2 or 1,2", _samza_records), False, shown="none"
    )
    """With 1 each commit also writes Samza's version 1 record next to samzapy's own, so that a JVM job can continue.
    samzapy never writes Samza's version 2. A start reads its own records or Samza's, whichever are newer."""


@dataclass(frozen=True)
class StateCheckpointConfig:
    """Where the states of PersistentTasks are kept: in a topic next to the checkpoint topic, with as many copies."""

    interval_ms: int = key("state.checkpoint.interval.ms", integer(1), 10_000)
    """Milliseconds of event time between two checkpoints. Checkpoint times are multiples of it. A PersistentTask takes
    a checkpoint with the first commit after its clock has passed such a time."""
    system: str | None = None
    replication_factor: int | None = None


def parse_checkpoint(
    reader: Reader, default_system: str | None, input_systems: Collection[str], systems: Collection[str]
) -> CheckpointConfig | None:
    """Read where checkpoints are kept; None if the job has none. Notes a problem if no system or path is given."""
    system = reader.value(CheckpointConfig, "system") or default_system
    if system is None and len(set(input_systems)) == 1:
        system = next(iter(input_systems))
    config = reader.read(CheckpointConfig, {} if system is None else {"system": system}, system=system)
    if config.factory == NO_CHECKPOINTS:
        return None
    if reader.is_set("task.checkpoint.system") and system is not None:
        check_system(reader, "task.checkpoint.system", system, systems)
    if reader.values.get("task.checkpoint.write.versions") == "2":
        reader.warn("task.checkpoint.write.versions: samzapy writes version 1 of Samza's records, not version 2")
    if config.factory == TOPIC_CHECKPOINTS and system is None and input_systems:
        message = "required when there are several input systems and no job.default.system"
        reader.problem("task.checkpoint.system", message)
    if config.factory == FILE_CHECKPOINTS:
        if config.path is None:
            reader.missing("task.checkpoint.path", "state/checkpoints", "with file checkpoints")
        return replace(config, system=None)
    return config


def parse_state_checkpoint(
    reader: Reader, positions: CheckpointConfig | None, default_system: str | None
) -> StateCheckpointConfig:
    """Read where state checkpoints are kept; `positions`: where the job's positions are."""
    system = (positions and positions.system) or default_system
    copies = positions.replication_factor if positions else None
    return reader.read(StateCheckpointConfig, system=system, replication_factor=copies)
