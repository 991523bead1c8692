"""Reads one part of a store in an executor: a partition of its changelog, or the files of one task."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.errors import EnvironmentFailure
from samzapy.storage.changelog.reading import scan
from samzapy.storage.engines import load_engines
from samzapy.storage.inspection import ChangelogReader, Contents, Entry, Selection, read_files
from samzapy.system.clients import job_clients

#: Names the clients of frames.
PURPOSE = "dataframe"


class StorePart(ABC):
    """Some of a store's committed entries."""

    @abstractmethod
    def opened(self, config: JobConfig, store: StoreConfig) -> AbstractContextManager[Contents]:
        """The entries, for as long as the context lasts. Raises what reading them may raise."""

    @abstractmethod
    def place(self, config: JobConfig, entry: Entry) -> str:
        """Where an entry is from, for an error about it."""


@final
@dataclass(frozen=True)
class ChangelogPart(StorePart):
    """A partition of the changelog, up to the end it had when it was asked for."""

    ssp: SystemStreamPartition
    log: OffsetRange

    @contextmanager
    def opened(self, config: JobConfig, store: StoreConfig) -> Iterator[Contents]:
        with (
            tempfile.TemporaryDirectory(prefix="samzapy-store-") as folder,
            closing(job_clients(config, PURPOSE)) as clients,
        ):
            now = clients.admin(self.ssp.system).offsets([self.ssp])[self.ssp]
            if now.upcoming < self.log.upcoming:
                raise EnvironmentFailure(
                    f"{self.ssp}: ends before {now.upcoming}, and ended before {self.log.upcoming} when it was asked for: it "
                    "was deleted or made anew meanwhile"
                )
            bounds = {self.ssp: OffsetRange(max(self.log.oldest, now.oldest), self.log.upcoming)}
            reader = ChangelogReader(
                clients.admin, clients.consumer, SYSTEM_CLOCK, Path(folder), stall_s=patience_s(config)
            )
            with reader.read(store, [], Selection(), bounds) as contents:
                yield contents

    def place(self, config: JobConfig, entry: Entry) -> str:
        """The record that the entry is from; looked for only now, since no store keeps offsets."""
        found: int | None = None
        with closing(job_clients(config, PURPOSE)) as clients, closing(clients.consumer(self.ssp.system)) as consumer:
            for batch in scan(consumer, self.ssp, self.log, SYSTEM_CLOCK, patience_s(config)):
                for offset, key in zip(batch.offsets, batch.keys, strict=True):
                    if key == entry.key:
                        found = offset
        return f"{self.ssp}@{'?' if found is None else found}"


@final
@dataclass(frozen=True)
class LocalPart(StorePart):
    """The files of one task's store, as their owner's last flush left them; the owner is not disturbed."""

    directory: str

    @contextmanager
    def opened(self, config: JobConfig, store: StoreConfig) -> Iterator[Contents]:
        factory = load_engines(config)[store.name]
        with read_files(store, factory, [Path(self.directory)], SYSTEM_CLOCK) as contents:
            yield contents

    def place(self, config: JobConfig, entry: Entry) -> str:
        return f"{self.directory}, key {entry.key!r:.100}"


def patience_s(config: JobConfig) -> float:
    """Seconds that a reader waits before an open transaction: longer than a crashed writer's takes to be aborted."""
    return 30.0 + config.task.transaction_timeout_ms / 1000
