"""Which partitions bring nothing: they do not hold their task's clock, and a task of which all are so not the job's."""

from __future__ import annotations

from collections.abc import Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.container.schedule import Schedule
from samzapy.container.tasks.task_instance import TaskInstance

_LOOK_MS = 1_000


class IdleWatch:
    """Looks at positions about once a second; nothing is done for a message.

    A partition is idle once its position has stood still for `idle_ms` (< 0: never), for whatever reason, and no more
    with the next message. One that has ended is so at once.
    """

    def __init__(self, tasks: Sequence[TaskInstance], idle_ms: int, now: float) -> None:
        self._tasks = tasks
        self._idle_s = idle_ms / 1000.0
        self._look = Schedule(min(idle_ms, _LOOK_MS), now)
        self._moved: dict[tuple[str, SystemStreamPartition], tuple[int, float]] = {
            (task.name, ssp): (offset, now) for task in tasks for ssp, offset in task.offsets.items()
        }

    @property
    def due_at(self) -> float:
        """When to call `look` next."""
        return self._look.due_at

    def look(self, now: float) -> list[TaskInstance]:
        """The tasks whose clocks have moved, as partitions of theirs hold them no longer."""
        return [task for task in self._tasks if self._look_at(task, now)] if self._look.due(now) else []

    def _look_at(self, task: TaskInstance, now: float) -> bool:
        moved, all_idle = False, True
        for ssp, offset in task.offsets.items():
            before, since = self._moved[task.name, ssp]
            if offset != before:
                self._moved[task.name, ssp] = offset, now
                all_idle = False
            elif now - since >= self._idle_s:
                moved |= task.clock.set_aside(ssp)
            else:
                all_idle = False
        task.idle = all_idle or task.ended
        return moved
