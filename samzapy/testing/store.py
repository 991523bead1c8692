"""One store, exactly as a job would get it, on a messaging system inside the process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemSettings
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.config.stores import StoreConfig
from samzapy.errors import StoreError
from samzapy.plugins import path_of
from samzapy.serializers import task_serdes
from samzapy.storage.changelog.restore import RestoreResult
from samzapy.storage.changelog.topic import ensure_changelog, scan
from samzapy.storage.inspection import store_of
from samzapy.storage.local.directory import store_directory
from samzapy.storage.opening import StoreOpener, StoreOwner
from samzapy.storage.spec import store_specs
from samzapy.storage.store import TaskStores
from samzapy.system.clients import SystemClients, job_clients
from samzapy.system.local.factory import LogAdmin, MemorySystemFactory

_TASK = "Partition 0"
_CHANGELOGS = "changelogs"


@contextmanager
def open_store(
    config: JobConfig | Mapping[str, str] | Path | str,
    name: str,
    path: Path | str,
    clock: Clock = SYSTEM_CLOCK,
    changelogs: SystemSettings | None = None,
    tasks_in_container: int = 1,
) -> Iterator[OpenStore]:
    """Open store `name` of a job (its configuration, flat pairs, or a properties file) in the directory `path`.

    The stack, its options and its serdes are the job's. The changelog, if the store has one, is on the system
    `changelogs` (default: in this process, until the end of the context). Local files stay in `path`, but a later
    `open_store` with another changelog does not use them. The store gets its share of the memory of a container with
    `tasks_in_container` tasks. Raises ConfigError for a job that has no such store.
    """
    job = config if isinstance(config, JobConfig) else load_job(config)
    alone = _isolated(job, name, Path(path).expanduser(), changelogs)
    store, clients = alone.stores[name], job_clients(alone, "open-store")
    if store.changelog is not None:
        ensure_changelog(clients.admin(_CHANGELOGS), store, 1)
    opener = partial(
        StoreOpener,
        alone,
        store_specs(alone),
        task_serdes(alone),
        admin_of=clients.admin,
        clock=clock,
        tasks=tasks_in_container,
        lock_wait_s=0.0,
    )
    directory = store_directory(alone.logged_store_base_dir, alone.job_name, name, _TASK)
    with closing(clients), closing(OpenStore(store, directory, clients, opener)) as opened:
        yield opened


def _isolated(job: JobConfig, name: str, path: Path, changelogs: SystemSettings | None) -> JobConfig:
    """The job with this one store, its state below `path`, and its changelog on a system of its own; without settings
    for it, on a new one in this process."""
    store = store_of(job.stores, name)
    if store.changelog is not None:
        store = replace(store, changelog=SystemStream(_CHANGELOGS, store.changelog.stream))
    if changelogs is None:
        changelogs = SystemSettings(
            _CHANGELOGS, path_of(MemorySystemFactory), properties={"cluster": f"{_CHANGELOGS}-{uuid4()}"}
        )
    systems = {_CHANGELOGS: replace(changelogs, name=_CHANGELOGS)}
    return replace(
        job, systems=systems, stores={name: store}, logged_store_base_dir=path, non_logged_store_base_dir=path
    )


class OpenStore:
    """A store with the two events from outside: a commit and a crash."""

    def __init__(
        self, store: StoreConfig, directory: Path, clients: SystemClients, opener: Callable[[], StoreOpener]
    ) -> None:
        """`directory`: where the local files are, if the engine keeps any."""
        self._config = store
        self._name = store.name
        self.directory = directory
        self._clients = clients
        self._opener = opener
        self._stores: TaskStores | None = None
        self._seen: Any = None
        self.reopen()

    @property
    def store(self) -> Any:
        """The store as a task gets it (a KeyValueStore, or the view of its engine); another object after `crash` or
        `reopen`."""
        self._opened()
        return self._seen

    @property
    def restored(self) -> RestoreResult:
        """The source of the contents at the last opening."""
        return self._opened().restored[self._name]

    @property
    def stores(self) -> TaskStores:
        """The stores as a container holds them."""
        return self._opened()

    def commit(self) -> None:
        """All steps of a store's commit: serialize, changelog, acknowledgement, engine."""
        self.send_changes()
        self.apply()

    def send_changes(self) -> None:
        """The first half of a commit: the changes are in the changelog, and not yet in the engine."""
        stores = self._opened()
        stores.flush()
        stores.send_changes(self._clients.producer)
        self._sent = self._clients.producer(_CHANGELOGS).flush()

    def apply(self) -> None:
        """The second half of a commit: changes and marker into the engine."""
        stores = self._opened()
        offsets = stores.changelog_offsets(lambda ssp: self._sent.get((ssp.stream, ssp.partition)))
        stores.changes_committed(0)
        stores.apply(offsets, {})

    def crash(self) -> None:
        """End as a SIGKILL would and start again: only the files of this instant are left."""
        stores, self._stores = self._opened(), None
        directory = self.directory
        if directory.exists():
            image = take_image(directory)
            stores.close()
            put_back(image, directory)
        else:
            stores.close()
        self._clients.close()
        self.reopen()

    def reopen(self) -> None:
        """Stop without a commit, if it is open, and start again."""
        self.close()
        opener = self._opener()
        (self._stores,) = opener.restore(opener.open([StoreOwner(_TASK, 0)]), self._clients.consumer)
        self._seen = self._stores.as_seen(self._stores.stores)[self._name]

    def lose_local_state(self) -> None:
        """Crash with the loss of the disk: everything comes back from the changelog."""
        self.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._clients.close()
        self.reopen()

    def changelog(self) -> list[tuple[bytes, bytes | None]]:
        """Every record of the changelog, in order; None for a deletion."""
        stream = self._config.changelog
        if stream is None:
            return []
        ssp = SystemStreamPartition(_CHANGELOGS, stream.stream, 0)
        log = self._clients.offsets([ssp])[ssp]
        with closing(self._clients.consumer(_CHANGELOGS)) as consumer:
            pairs = (zip(batch.keys, batch.values, strict=True) for batch in scan(consumer, ssp, log, SYSTEM_CLOCK))
            return [(key or b"", value) for key, value in chain.from_iterable(pairs)]

    def compact(self) -> None:
        """Clean the changelog now. A Kafka compacts in its own time, and this does nothing."""
        admin = self._clients.admin(_CHANGELOGS)
        if self._config.changelog is not None and isinstance(admin, LogAdmin):
            admin.compact(self._config.changelog.stream)

    def close(self) -> None:
        """Stop without a commit."""
        if self._stores is not None:
            self._stores.close()
            self._stores = None

    def _opened(self) -> TaskStores:
        if self._stores is None:
            raise StoreError(f"store '{self._name}' is closed")
        return self._stores


_ATTEMPTS = 1_000

_State = dict[Path, tuple[int, int, int]]


def take_image(folder: Path) -> Path:
    """Copy the state of `folder` at one instant, also if an engine's threads are changing it; returns the copy, which
    lies beside it. If a file changes during a copy, the copy is made again. Raises RuntimeError if that never ends."""
    image = folder.with_name(f"{folder.name}.image")
    for _ in range(_ATTEMPTS):
        shutil.rmtree(image, ignore_errors=True)
        # A file that vanishes is a change, too.
        with suppress(shutil.Error, FileNotFoundError):
            before = _state(folder)
            shutil.copytree(folder, image)
            if _state(folder) == before:
                return image
    raise RuntimeError(f"{folder}: its files changed during each of {_ATTEMPTS} copies")


def _state(folder: Path) -> _State:
    result = {path: path.stat() for path in folder.rglob("*")}
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in result.items()}


def put_back(image: Path, folder: Path) -> None:
    """Replace `folder` by its `image`; no process may have it open."""
    shutil.rmtree(folder)
    image.rename(folder)
