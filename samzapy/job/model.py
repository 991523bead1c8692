"""The job model: a job's containers, their tasks, the tasks' partitions."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.api.stream import SystemStreamPartition


@dataclass(frozen=True, slots=True)
class TaskModel:
    """One task: its name, its partitions (broadcast ones included), and the partition it owns in every changelog.
    `late` partitions came after the job's first start: they begin at their oldest record.

    It has slots, since a driver may have twenty thousand: each would get a `__dict__` when it is sent to its container.
    """

    name: str
    ssps: frozenset[SystemStreamPartition]
    changelog_partition: int
    late: frozenset[SystemStreamPartition] = frozenset()


@dataclass(frozen=True)
class ContainerModel:
    """One container: its id (`0`, `1`, ...), its tasks in order of name, and the number of tasks in all containers of
    the job (0: these are all)."""

    id: str
    tasks: tuple[TaskModel, ...]
    tasks_of_job: int = 0

    @property
    def ssps(self) -> frozenset[SystemStreamPartition]:
        return frozenset().union(*(task.ssps for task in self.tasks))


@dataclass(frozen=True)
class JobModel:
    """All containers, in order of id. `standbys` (`0-1`: the first of container `0`) keep copies of the state of the
    same tasks, and run none of them."""

    containers: tuple[ContainerModel, ...]
    standbys: tuple[ContainerModel, ...] = ()

    @property
    def tasks(self) -> tuple[TaskModel, ...]:
        return tuple(sorted((t for c in self.containers for t in c.tasks), key=lambda t: t.changelog_partition))

    def container(self, container_id: str) -> ContainerModel:
        """The container, or standby container, of that id. Raises StopIteration."""
        return next(c for c in (*self.containers, *self.standbys) if c.id == container_id)

    def standbys_of(self, container_id: str) -> tuple[str, ...]:
        """The ids of a container's standbys."""
        return tuple(c.id for c in self.standbys if active_of(c.id) == container_id)


def standby_id(container_id: str, replica: int) -> str:
    """The id of a container's standby; `replica` counts from 1."""
    return f"{container_id}-{replica}"


def active_of(container_id: str) -> str:
    """The active container of the standby with that id; any other id is returned unchanged."""
    return container_id.partition("-")[0]


def replica_of(container_id: str) -> int:
    """The number of the standby; 0 for a container that runs its tasks."""
    return int(container_id.partition("-")[2] or 0)
