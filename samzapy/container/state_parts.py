"""A task's own state checkpoints made from the configuration, and its progress in event time as the coordinator hears it."""

from __future__ import annotations

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.lease import ContainerLease, TaskProgress
from samzapy.api.state_checkpoint import StateCheckpointTask
from samzapy.checkpoint.states import store_factory
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.container.clients import SystemClients
from samzapy.container.state_checkpoints import KeptStateCheckpoints
from samzapy.container.task_instance import TaskInstance


def state_checkpoints_of(
    config: JobConfig,
    task: TaskInstance,
    clients: SystemClients,
    lease: ContainerLease,
    clock: Clock,
    checkpoint: Checkpoint | None,
) -> KeptStateCheckpoints | None:
    """None for a task that keeps no state of its own. `lease` knows the job's checkpoint clock; `checkpoint` is the
    task's last. Raises ConfigError."""
    if not isinstance(task.task, StateCheckpointTask):
        return None
    return KeptStateCheckpoints(
        task.name,
        store_factory(config).store(config, task.name, clients),
        config.state_checkpoint.interval_ms,
        lambda: lease.checkpoint_clock,
        task.offsets,
        clock,
        committed=checkpoint is not None,
        reset=all(config.stream(ssp.system_stream).reset_offset for ssp in task.offsets),
    )


def progress_of(task: TaskInstance) -> TaskProgress:
    """What the coordinator hears; may be called from any thread."""
    clock = task.event_clock
    kept = None if task.checkpoints is None else task.checkpoints.kept
    return TaskProgress(
        clock.time_ms,
        clock.held_by,
        clock.idle,
        None if kept is None else kept.times,
        kept is not None and kept.open,
    )
