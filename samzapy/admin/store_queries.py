"""Reads, exports and rebuilds the stores of a job, whether it runs or not.

1. `store_entries` gives the committed entries of one store, as values and as text, and exports them to files. They come
   from the changelog, on any machine, or from the files of local stores on this machine, as of their engine's last
   flush.
2. `rebuild_store` restores local stores from their changelogs into a folder.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samzapy.admin.streams import Literal, as_text
from samzapy.api.checkpoint import CheckpointManager
from samzapy.api.serde import Serde
from samzapy.checkpoint.records import read_changelog_partitions
from samzapy.checkpoint.topic import wait_at_most
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.supervision.job_records import open_job
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, UnknownStream
from samzapy.job.files import TemporaryFolder
from samzapy.job.planner import changelog_partitions
from samzapy.serializers import as_json, serde_registry
from samzapy.storage.changelog.restore import ProgressCallback, RestoreResult
from samzapy.storage.inspection import (
    ChangelogReader,
    Contents,
    Entry,
    Selection,
    local_directories,
    read_files,
    store_of,
)
from samzapy.storage.kv.scanning import first_beyond
from samzapy.storage.local.directory import store_directory
from samzapy.storage.opening import TaskSettings
from samzapy.storage.spec import StoreSpec, store_specs
from samzapy.storage.startup import begin_task_stores, restore_together
from samzapy.system.clients import SystemClients

#: Entered while a changelog is read; the callback gets the progress.
Progress = Callable[[], AbstractContextManager[ProgressCallback]]


def _no_progress() -> AbstractContextManager[ProgressCallback]:
    return nullcontext(lambda _what, _done, _total: None)


def _say_nothing(_line: str) -> None:
    """The default of `say`."""


@dataclass(frozen=True)
class Question:
    """The store to read, and the source: the given partitions (none: all) of its changelog, or the files below
    `local`."""

    config: JobConfig
    store: str
    partitions: tuple[int, ...] = ()
    local: Path | None = None


class StoreEntries:
    """The entries of one store. Keys are given, and entries shown, as text."""

    def __init__(
        self, store: StoreConfig, key_serde: Serde, value_serde: Serde, contents: Callable[[Selection], Contents]
    ) -> None:
        """`contents` reads the requested part of the store, and keeps it open as long as the entries are read."""
        self.key_serde_name = store.key_serde
        self._keeps_prefixes = key_serde.keeps_prefixes
        self._name = store.name
        self._contents = contents
        # A view encodes its entries itself; they are shown as JSON.
        self._keys = Literal(store.key_serde or "bytes", key_serde)
        self._values = Literal(store.msg_serde or "json", value_serde)

    def of_keys(self, keys: Sequence[str]) -> Iterator[Entry]:
        """The entries of these keys."""
        return self._entries(Selection(frozenset(map(self._key, keys))))

    def absent(self, keys: Sequence[str], found: Sequence[Entry]) -> list[str]:
        """The keys, as given, that are not among `found`."""
        there = {entry.key for entry in found}
        return [key for key in keys if self._key(key) not in there]

    def of_prefix(self, prefix: str) -> Iterator[Entry]:
        """The entries with keys that start with `prefix`. Raises ConfigError if the serde does not keep prefixes."""
        if not self._keeps_prefixes:
            message = f"needs a key serde that keeps prefixes (string, bytes), not {self.key_serde_name}"
            raise ConfigError([ConfigProblem("--prefix", prefix, message)])
        start = self._key(prefix)
        return self._entries(Selection(None, start, first_beyond(start)))

    def of_range(self, lower: str | None = None, upper: str | None = None) -> Iterator[Entry]:
        """The entries with lower <= key < upper, None for no bound."""
        low, high = (None if bound is None else self._key(bound) for bound in (lower, upper))
        return self._entries(Selection(None, low, high))

    def values(self, entry: Entry) -> tuple[Any, Any]:
        """Key and value. Raises SerdeError."""
        where = f"store '{self._name}' partition {entry.partition}"
        key = self._keys.decode(entry.key, where, "key")
        return key, self._values.decode(entry.value, f"{where}, key {key!r}", "value")

    def line(self, entry: Entry) -> str:
        """The entry as a line of JSON."""
        key, value = self.values(entry)
        return as_json({"partition": entry.partition, "key": key, "value": value})

    def text(self, entry: Entry) -> str:
        """The entry as key, tab, value."""
        return "\t".join(map(as_text, self.values(entry)))

    def export(self, entries: Iterable[Entry], file: Path, kind: str) -> int:
        """Write the entries to `file` (`kind`: json or csv), and return their number.

        The entries go to a temporary file next to it, which is renamed at the end: the file is complete or absent.
        Raises EnvironmentFailure if it cannot be written.
        """
        temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
        written = 0
        try:
            try:
                with temporary.open("w", encoding="utf-8", newline="") as out:
                    if kind == "csv":
                        rows = csv.writer(out, lineterminator="\n")
                        rows.writerow(("partition", "key", "value"))
                        for written, entry in enumerate(entries, 1):  # noqa: B007
                            rows.writerow((entry.partition, *map(as_text, self.values(entry))))
                    else:
                        for written, entry in enumerate(entries, 1):  # noqa: B007
                            out.write(self.line(entry) + "\n")
                temporary.replace(file)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as cause:
            raise EnvironmentFailure(f"{file}: cannot be written ({cause.strerror or cause})") from cause
        return written

    def _key(self, text: str) -> bytes:
        return self._keys.encode(text, "the command line", "key")

    def _entries(self, selection: Selection) -> Iterator[Entry]:
        return self._contents(selection).entries(selection)


@contextmanager
def store_entries(
    question: Question, progress: Progress = _no_progress, say: Callable[[str], None] = _say_nothing
) -> Iterator[StoreEntries]:
    """The entries of a store, for as long as they are read; temporary files are removed at the end.

    `say` gets a line about the age of each local store. Raises ConfigError for an unknown store, and the errors of
    reading it.
    """
    config = question.config
    store = store_of(config.stores, question.store)
    spec = store_specs(config)[store.name]
    key_serde, value_serde = spec.serdes(serde_registry(config))
    with ExitStack() as opened:
        folder = opened.enter_context(TemporaryFolder("store")).path

        def contents(selection: Selection) -> Contents:
            if question.local is not None:
                found = _files(config, spec, question.local, say)
            else:
                found = _changelog(question, store, folder, progress, selection)
            return opened.enter_context(found)

        yield StoreEntries(store, key_serde, value_serde, contents)


def _changelog(
    question: Question, store: StoreConfig, folder: Path, progress: Progress, selection: Selection
) -> Contents:
    config = question.config
    stall_s = 30 + config.task.transaction_timeout_ms / 1000
    with open_job(config, "store") as (clients, checkpoints), progress() as on_progress:
        wait_at_most(checkpoints, stall_s)
        reader = ChangelogReader(clients.admin, clients.consumer, SYSTEM_CLOCK, folder, on_progress, stall_s)
        return reader.read(store, question.partitions, selection)


def _files(config: JobConfig, spec: StoreSpec, local: Path, say: Callable[[str], None]) -> Contents:
    contents = read_files(spec, local_directories(config.job_name, spec.config.name, local), SYSTEM_CLOCK)
    for number, marker in sorted(contents.as_of.items()):
        say(f"partition {number}: up to changelog offset {marker.changelog_offset}")
    for directory in contents.unmarked:
        say(f"{directory.name}: entries without a marker")
    for directory in contents.empty:
        say(f"{directory.name}: empty")
    return contents


def rebuild_store(
    config: JobConfig, name: str, base: Path, tasks: Sequence[str], on_progress: ProgressCallback | None = None
) -> dict[str, tuple[RestoreResult, Path]]:
    """Restore the store of these tasks (none: of all) below `base`; returns the results and directories by task.

    Raises ConfigError for a store that keeps no files or has no changelog, EnvironmentFailure for a directory that
    exists.
    """
    base, store = base.expanduser(), store_of(config.stores, name)
    alone = replace(
        config, stores={name: replace(store, clean_on_start=False, backup=None)}, logged_store_base_dir=base
    )
    specs = store_specs(alone)
    if not specs[name].persistent:
        raise ConfigError([ConfigProblem(f"stores.{name}.factory", store.factory, "keeps no files to rebuild")])
    with ExitStack() as cleanup:
        clients, checkpoints = cleanup.enter_context(open_job(config, "store"))
        chosen = _chosen(_owners(store, clients, checkpoints), tasks)
        paths = {task: store_directory(base, config.job_name, name, task) for task in chosen}
        for path in paths.values():
            if path.exists():
                raise EnvironmentFailure(f"{path}: exists already; name a folder that has no such store")
        openings = []
        for task, partition in chosen.items():
            opening = begin_task_stores(
                alone,
                TaskSettings(task, partition, len(chosen)),
                serdes=serde_registry(config),
                engines=specs,
                admin_of=clients.admin,
                clock=SYSTEM_CLOCK,
            )
            cleanup.callback(opening.abandon)
            openings.append(opening)
        stores = restore_together(openings, clients.consumer, SYSTEM_CLOCK, on_progress)
        for opened in stores:
            cleanup.callback(opened.close)
        for opened in stores:
            opened.flush_engines()
        return {task: (opened.restored[name], paths[task]) for task, opened in zip(chosen, stores, strict=True)}


def _owners(store: StoreConfig, clients: SystemClients, checkpoints: CheckpointManager) -> dict[str, int]:
    """The changelog partition of each task: as recorded with the checkpoints, else as a first start numbers them."""
    stream = store.changelog
    if stream is None:
        raise ConfigError([ConfigProblem(f"stores.{store.name}.changelog", None, "is required to rebuild the store")])
    description = clients.admin(stream.system).describe(stream.stream)
    if description is None:
        raise UnknownStream(*stream, store=store.name)
    known = read_changelog_partitions(checkpoints)
    if known:
        return dict(sorted(known.items(), key=lambda owned: owned[1]))
    tasks = [f"Partition {number}" for number in range(description.partitions)]
    owned = changelog_partitions(dict.fromkeys(tasks), {})
    return dict(sorted(owned.items(), key=lambda each: each[1]))


def _chosen(owners: dict[str, int], tasks: Sequence[str]) -> dict[str, int]:
    for task in tasks:
        if task not in owners:
            raise ConfigError([ConfigProblem("--task", task, f"the job's tasks are {', '.join(owners)}")])
    return {task: owners[task] for task in tasks or owners}
