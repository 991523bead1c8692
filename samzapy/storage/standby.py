"""Keeps copies of a task's logged stores that follow their changelogs. A machine that takes the task over then reads only
the tails.

A copy is a store like the task's own: the same layout, the same marker, the same rules for its use. It lies beside the
task's (`Partition_0.standby-1`), and is put in its place when the task starts on this machine and the copy is further.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.storage.local.directory import standby_name
from samzapy.storage.opening import JobStores, StoreOpener, TaskSettings


class StandbyStores:
    """The copies that one standby container keeps of one task's stores. One thread."""

    def __init__(self, job: JobStores, task: TaskSettings, replica: int) -> None:
        """Opens them. Raises StoreLocked while an earlier attempt still has them, EnvironmentFailure."""
        kept = {
            name: store
            for name, store in job.configs.items()
            if store.changelog is not None and job.engines[name].persistent
        }
        own = replace(task, name=standby_name(task.name, replica))
        self._opener = StoreOpener(replace(job, configs=kept), own)
        self._opener.begin()
        self._following = {store.ssp: store for store in self._opener.following()}
        for store in self._following.values():
            store.share(len(self._following) * task.tasks_in_container)

    @property
    def starts(self) -> dict[SystemStreamPartition, int]:
        """Where the changelogs are read from."""
        return {ssp: store.start for ssp, store in self._following.items()}

    def add(self, batch: RecordBatch) -> None:
        """Take records of one changelog partition, in order. Raises RestoreError, KeyError for another task's."""
        self._following[batch.ssp].add(batch)

    def write(self) -> None:
        """Put the taken records into the engines."""
        for store in self._following.values():
            store.write_gathered()

    def complete(self, ends: Mapping[SystemStreamPartition, int], now_ms: int) -> None:
        """Note that everything before these ends was taken, and that they were the ends at `now_ms`: a changelog that is
        silent for longer than it keeps deletions must not make its copy look old."""
        for ssp, end in ends.items():
            self._following[ssp].complete(end - 1, now_ms)

    def flush(self) -> None:
        """Flush the engines' memory to disk."""
        for store in self._following.values():
            store.flush()

    def close(self) -> None:
        """Close the engines. The next attempt reads the records again that were not written."""
        self._opener.abandon()
