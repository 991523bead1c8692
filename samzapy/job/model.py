"""The job model: a job's containers, their tasks, the tasks' partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from samzapy.api.stream import SystemStreamPartition


@dataclass(frozen=True)
class TaskModel:
    """One task: its name, its partitions (broadcast ones included), and the partition it owns in every changelog.
    `late` partitions came after the job's first start: they begin at their oldest record."""

    name: str
    ssps: frozenset[SystemStreamPartition]
    changelog_partition: int
    late: frozenset[SystemStreamPartition] = frozenset()


@dataclass(frozen=True)
class ContainerModel:
    """One container: its id (`0`, `1`, ...) and its tasks in order of name."""

    id: str
    tasks: tuple[TaskModel, ...]

    @property
    def ssps(self) -> frozenset[SystemStreamPartition]:
        """Every partition that some task of the container reads."""
        return frozenset().union(*(task.ssps for task in self.tasks))


@dataclass(frozen=True)
class JobModel:
    """All containers, in order of id."""

    containers: tuple[ContainerModel, ...]

    @property
    def tasks(self) -> tuple[TaskModel, ...]:
        """All tasks, in order of changelog partition."""
        return tuple(sorted((t for c in self.containers for t in c.tasks), key=lambda t: t.changelog_partition))

    def container(self, container_id: str) -> ContainerModel:
        """The container of that id. Raises KeyError."""
        return next(c for c in self.containers if c.id == container_id)

    def to_json(self) -> dict[str, Any]:
        """As plain lists and strings, for the wire and for people."""
        return {
            "containers": [
                {
                    "id": c.id,
                    "tasks": [
                        {
                            "name": t.name,
                            "changelog-partition": t.changelog_partition,
                            "ssps": sorted(map(str, t.ssps)),
                            "late": sorted(map(str, t.late)),
                        }
                        for t in c.tasks
                    ],
                }
                for c in self.containers
            ]
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobModel:
        """The inverse of `to_json`."""
        return cls(
            tuple(
                ContainerModel(
                    c["id"],
                    tuple(
                        TaskModel(
                            t["name"],
                            frozenset(map(SystemStreamPartition.parse, t["ssps"])),
                            t["changelog-partition"],
                            frozenset(map(SystemStreamPartition.parse, t["late"])),
                        )
                        for t in c["tasks"]
                    ),
                )
                for c in data["containers"]
            )
        )
