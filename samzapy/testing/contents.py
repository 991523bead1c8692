"""What the stores of a finished run hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.storage.engines import load_engines
from samzapy.storage.inspection import ChangelogReader, Contents, Selection, read_files
from samzapy.storage.local.directory import lies_beside, store_directory
from samzapy.system.clients import job_clients
from samzapy.testing.streams import Streams

#: A store's entries by changelog partition; None where nothing outlives the run.
Entries = dict[int, dict[Any, Any]] | None


def contents(job: JobConfig, streams: Streams, clock: Clock, scratch: Path) -> dict[str, Entries]:
    """The committed entries of every store: of its changelog, else of its files. `scratch`: a folder for what is read."""
    with ExitStack() as cleanup:
        clients = job_clients(job, "test")
        cleanup.callback(clients.close)
        reader = ChangelogReader(clients.admin, clients.consumer, clock, scratch)
        found: dict[str, Entries] = {}
        for store in job.stores.values():
            opened = reader.read(store, (), Selection()) if store.changelog else _files(job, store, clock)
            if opened is not None:
                cleanup.enter_context(opened)
            found[store.name] = None if opened is None else _decoded(store, streams, opened)
        return found


def _files(job: JobConfig, store: StoreConfig, clock: Clock) -> Contents | None:
    engine = load_engines(job)[store.name]
    if not engine.persistent:
        return None
    return read_files(store, engine, sorted(_directories(job, store)), clock)


def _directories(job: JobConfig, store: StoreConfig) -> Iterator[Path]:
    parent = store_directory(job.non_logged_store_base_dir, job.key, store.name, "task").parent
    return (path.parent for path in parent.glob("*/CURRENT") if not lies_beside(path.parent))


def _decoded(store: StoreConfig, streams: Streams, opened: Contents) -> dict[int, dict[Any, Any]]:
    keys, values = streams.store_serdes(store)
    found: dict[int, dict[Any, Any]] = {}
    for entry in opened.entries(Selection()):
        found.setdefault(entry.partition, {})[keys.from_bytes(entry.key)] = values.from_bytes(entry.value)
    return found
