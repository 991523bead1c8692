"""Finds the containers that can have a key, or a part of a store.

A task may put any key into its store, so all tasks are asked for a key. Where the keys of a store are the keys of the
input messages (`job.query.keyed.stores`), one task has it: for each input, the reader of the partition into which
producers put that key. Producers choose partitions as Kafka's Java producers do (`samzapy.system.partitioner`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.job.model import JobModel
from samzapy.system.partitioner import partition_of

#: By container, the changelog partitions of the tasks that are asked; None for all of the container.
Owners = Mapping[str, "tuple[int, ...] | None"]


class StoreOwners:
    """The owners of one job's stores."""

    def __init__(
        self,
        model: JobModel,
        keyed: Collection[str] = (),
        broadcast: Collection[SystemStreamPartition] = (),
    ) -> None:
        """`keyed`: the stores with keys of the input messages. `broadcast`: partitions that every task reads."""
        self._model = model
        self._keyed = frozenset(keyed)
        self._containers = {
            task.changelog_partition: container.id for container in model.containers for task in container.tasks
        }
        self._everyone: Owners = dict.fromkeys(container.id for container in model.containers)
        readers: dict[SystemStream, dict[int, int]] = defaultdict(dict)
        for task in model.tasks:
            for ssp in task.ssps - frozenset(broadcast):
                readers[ssp.system_stream][ssp.partition] = task.changelog_partition
        # By input, the task of each partition. A broadcast partition of an input that is read has no single reader.
        self._readers = [
            [tasks[number] for number in range(len(tasks))]
            for tasks in readers.values()
            if tasks.keys() == set(range(len(tasks)))
        ]
        self._complete = len(self._readers) == len(readers) and not any(
            ssp.system_stream in readers for ssp in broadcast
        )

    @property
    def partitions(self) -> Collection[int]:
        """The changelog partitions of the job's tasks."""
        return self._containers.keys()

    def of_key(self, store: str, key: bytes) -> Owners:
        """The containers that can have the key, and their tasks that can."""
        if store not in self._keyed or not self._complete or not self._readers:
            return self._everyone
        return self._of({tasks[partition_of(key, len(tasks))] for tasks in self._readers})

    def of_partition(self, partition: int) -> Owners:
        """The container of a task. Raises KeyError for a partition that is not in `partitions`."""
        return self._of([partition])

    def of_all(self) -> Owners:
        """All containers."""
        return self._everyone

    def standbys_of(self, container_id: str) -> tuple[str, ...]:
        """The standbys of that container."""
        return self._model.standbys_of(container_id)

    def _of(self, partitions: Iterable[int]) -> Owners:
        found: dict[str, tuple[int, ...]] = {}
        for partition in sorted(partitions):
            container = self._containers[partition]
            found[container] = (*found.get(container, ()), partition)
        return found
