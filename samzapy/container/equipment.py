"""What only some tasks have: timers, and tasks upstream that tell them the time and the end."""

from __future__ import annotations

from samzapy.api.checkpoint import Checkpoint
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.container.control.upstream import Upstream
from samzapy.container.event_clock import EventClock
from samzapy.container.inputs.starting_offsets import still_true
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.container.timing import TaskTiming
from samzapy.storage.views.timers import TimerStore


def equip(
    task: TaskInstance, config: JobConfig, checkpoint: Checkpoint | None, timers: TimerStore | None, clock: Clock
) -> None:
    """Give the task what its job asks for, as its checkpoint left it; its offsets are those it starts from."""
    idle_ms = config.task.watermark_idle_ms
    intermediate = {ssp for ssp in task.offsets if config.stream(ssp.system_stream).intermediate}
    if intermediate:
        senders = {} if checkpoint is None else still_true(checkpoint.senders, checkpoint, task.offsets)
        task.upstream = Upstream(intermediate, senders, clock, idle_ms)
    if timers is not None:
        times = {} if checkpoint is None else still_true(checkpoint.event_times, checkpoint, task.offsets)
        task.timing = TaskTiming(
            timers,
            EventClock(task.offsets, times),
            clock,
            task.requests.interrupt,
            watermarked=intermediate,
            idle_ms=idle_ms,
        )
