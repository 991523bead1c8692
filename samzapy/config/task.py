"""`task.*`."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.guarantee import Guarantee


@dataclass(frozen=True)
class CheckpointConfig:
    """`task.checkpoint.*`. `factory` is a class path; `system` is set for a topic, `path` for files."""

    factory: str
    system: str | None = None
    path: str | None = None
    replication_factor: int | None = None
    segment_bytes: int = 26_214_400
    max_message_bytes: int = 1_000_012


@dataclass(frozen=True)
class TaskConfig:
    """What a task is, reads and promises. Durations in milliseconds; `window_ms` <= 0: never; `commit_ms` <= 0: only
    when asked for and at the end."""

    task_class: str
    inputs: tuple[SystemStream, ...]
    broadcast_inputs: frozenset[SystemStreamPartition] = frozenset()
    window_ms: int = -1
    commit_ms: int = 60_000
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    shutdown_ms: int = 30_000
    max_idle_ms: int = 10
    poll_batch_size: int = 2_000
    drop_deserialization_errors: bool = False
    drop_serialization_errors: bool = False
    checkpoint: CheckpointConfig | None = None
