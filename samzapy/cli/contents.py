"""From a question about a store, as a command line asks it, to its entries."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from samzapy.api.engine import EngineSettings
from samzapy.cli.bars import Bars
from samzapy.cli.literals import Literal, as_text
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.serializers import as_json, serde_registry
from samzapy.storage.engines import entry_serdes, load_engines
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
from samzapy.system.clients import job_clients


@dataclass(frozen=True)
class Question:
    """Which store, and where to look: in these partitions (none: all) of its changelog, or in the files below `local`."""

    job: Path
    store: str
    overrides: Mapping[str, str]
    partitions: tuple[int, ...]
    local: Path | None


class Answer:
    """The entries of one store, as objects and as text."""

    def __init__(self, question: Question, config: JobConfig, folder: Path, cleanup: ExitStack) -> None:
        """`folder`: for what is read from the changelog. `cleanup` closes what was opened."""
        self._cleanup = cleanup
        self._question = question
        self._config = config
        self._store = store_of(config, question.store)
        self._folder = folder
        settings = EngineSettings(self._store.name, self._store.properties)
        engine = load_engines(config)[self._store.name]
        self._key_serde, value_serde = entry_serdes(self._store, engine, settings, serde_registry(config))
        # An engine with an interface of its own has an encoding of its own, which is shown as JSON.
        self._keys = Literal(self._store.key_serde or "bytes", self._key_serde)
        self._values = Literal(self._store.msg_serde or "json", value_serde)

    def of_keys(self, keys: Sequence[str]) -> Iterator[Entry]:
        """The entries of keys given as text."""
        return self._entries(Selection(frozenset(map(self._key, keys))))

    def absent(self, keys: Sequence[str], found: Sequence[Entry]) -> list[str]:
        """The keys, as they were given, that are not among `found`."""
        there = {entry.key for entry in found}
        return [key for key in keys if self._key(key) not in there]

    def of_range(
        self, prefix: str | None = None, lower: str | None = None, upper: str | None = None
    ) -> Iterator[Entry]:
        """The entries whose keys start with `prefix`, or lie between the bounds."""
        if prefix is not None and (lower is not None or upper is not None):
            raise click.UsageError("--prefix is a range of its own; leave out --from and --to")
        if prefix is None:
            low, high = (None if bound is None else self._key(bound) for bound in (lower, upper))
            return self._entries(Selection(None, low, high))
        if not self._key_serde.keeps_prefixes:
            message = f"--prefix needs a key serde that keeps prefixes (string, bytes), store '{self._store.name}' has"
            raise click.UsageError(f"{message} {self._store.key_serde}")
        start = self._key(prefix)
        return self._entries(Selection(None, start, first_beyond(start)))

    def objects(self, entry: Entry) -> tuple[Any, Any]:
        """Key and value. Raises SerdeError."""
        where = f"store '{self._store.name}' partition {entry.partition}"
        key = self._keys.decode(entry.key, where, "key")
        return key, self._values.decode(entry.value, f"{where}, key {key!r}", "value")

    def line(self, entry: Entry) -> str:
        """A line of JSON."""
        key, value = self.objects(entry)
        return as_json({"partition": entry.partition, "key": key, "value": value})

    def text(self, entry: Entry) -> str:
        """Key, tab, value."""
        return "\t".join(map(as_text, self.objects(entry)))

    def _key(self, text: str) -> bytes:
        return self._keys.encode(text, "the command line", "key")

    def _entries(self, selection: Selection) -> Iterator[Entry]:
        return self._cleanup.enter_context(self._contents(selection)).entries(selection)

    def _contents(self, selection: Selection) -> Contents:
        question, config = self._question, self._config
        if question.local is not None:
            return self._files(question.local)
        clients = job_clients(config, "store")
        try:
            with Bars("records") as bars:
                stall_s = 30 + config.task.transaction_timeout_ms / 1000
                reader = ChangelogReader(clients.admin, clients.consumer, SYSTEM_CLOCK, self._folder, bars, stall_s)
                return reader.read(self._store, question.partitions, selection)
        finally:
            clients.close()

    def _files(self, local: Path) -> Contents:
        config = self._config
        if self._question.partitions:
            raise click.UsageError(
                "--partition is for the changelog; with --local, name the folder of one task's store"
            )
        factory = load_engines(config)[self._store.name]
        directories = local_directories(config, self._store.name, local)
        contents = read_files(self._store, factory, directories, SYSTEM_CLOCK)
        for partition, marker in sorted(contents.as_of.items()):
            state = "empty" if marker is None else f"up to changelog offset {marker.changelog_offset}"
            click.echo(f"partition {partition}: {state}", err=True)
        return contents


@contextmanager
def asked(question: Question) -> Iterator[Answer]:
    """The answer, for as long as it is read; temporary files go with it."""
    config = load_job(question.job, question.overrides)
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="samzapy-store-"))
        yield Answer(question, config, Path(folder), cleanup)
