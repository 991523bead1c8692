"""What is measured."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemSettings
from samzapy.config.job import JobConfig
from samzapy.testing.store import OpenStore, open_store


@dataclass(frozen=True)
class Counts:
    """Since the target was opened."""

    gets: int = 0
    hits: int = 0
    changes: int = 0
    changelog_records: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.gets - other.gets,
            self.hits - other.hits,
            self.changes - other.changes,
            self.changelog_records - other.changelog_records,
        )


class Target(Protocol):
    """Something that is read and written through `store`, which has the calls of a `KeyValueStore`."""

    store: Any

    def commit(self) -> None:
        """Make what was written last."""

    def over_budget(self) -> bool:
        """Whether a container would commit now."""

    def counts(self) -> Counts:
        """What happened so far."""

    def empty(self) -> None:
        """Start again with nothing in it; `store` is another object."""

    def restore(self) -> int:
        """Lose the local state and get it back; the number of records read for it."""

    def close(self) -> None:
        """Release everything."""


class StoreTarget:
    """The store of a task: its whole stack, and on `changelogs` its changelog if it has one. A changelog is one of this
    run and this opening: the configured name is only what its name begins with."""

    def __init__(
        self, job: JobConfig, name: str, folder: Path, changelogs: SystemSettings | None, tasks_in_container: int
    ) -> None:
        self._job = job
        self._name = name
        self._folder = folder
        self._changelogs = changelogs
        self._tasks = tasks_in_container
        self._logged = job.stores[name].changelog is not None
        self._number = 0
        self._run = uuid4().hex[:8]
        self._open()

    def _open(self) -> None:
        self._held = ExitStack()
        path = self._folder / str(self._number)
        store = self._job.stores[self._name]
        if store.changelog is not None:
            stream = f"{store.changelog.stream}-{self._run}-{self._number}"
            store = replace(store, changelog=SystemStream(store.changelog.system, stream))
        job = replace(self._job, stores={self._name: store})
        opening = open_store(job, self._name, path, changelogs=self._changelogs, tasks_in_container=self._tasks)
        self._opened: OpenStore = self._held.enter_context(opening)
        self._path = path
        self.store: Any = self._opened.store
        self._sent = 0

    def commit(self) -> None:
        """As a container does it: serialize, changelog and its acknowledgement, engine."""
        opened = self._opened
        opened.stores.flush()
        if self._logged:
            self._sent += int(self._metric("uncommitted-entries"))
        opened.commit()

    def over_budget(self) -> bool:
        """Whether the uncommitted bytes have passed their budget."""
        return self._opened.stores.over_budget()

    def counts(self) -> Counts:
        """From the store's own metrics."""
        return Counts(
            gets=int(self._metric("gets")),
            hits=int(self._metric("hits")),
            changes=int(self._metric("puts") + self._metric("deletes")),
            changelog_records=self._sent,
        )

    def empty(self) -> None:
        """Another directory, and another changelog."""
        self.close()
        self._number += 1
        self._open()

    def restore(self) -> int:
        """The directory is deleted and the changelog read."""
        self._opened.lose_local_state()
        self.store = self._opened.store
        self._sent = 0
        return self._opened.restored.records

    def close(self) -> None:
        """Close the store and delete its files."""
        self._held.close()
        shutil.rmtree(self._path, ignore_errors=True)

    def _metric(self, name: str) -> float:
        return self._opened.stores.metrics().get(f"{self._name}.{name}", 0.0)
