"""Reads, exports and rebuilds the stores of a job, whether it runs or not.

1. `store_entries` gives the committed entries of one store, as values and as text, and exports them to files. They come
   from the changelog, on any machine, or from the files of local stores on this machine, as of their engine's last
   flush.
2. `rebuild_store` restores local stores from their changelogs into a folder.
3. `JobInspector` answers the page's questions about committed records.
"""

from __future__ import annotations

import csv
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from samzapy.admin.streams import Literal, Range, Record, as_text, records
from samzapy.api.checkpoint import CheckpointManager
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream
from samzapy.checkpoint.managers import wait_at_most
from samzapy.checkpoint.records import read_changelog_partitions
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.supervision.job_records import open_job
from samzapy.container.supervision.logs import log_folder, newest_lines
from samzapy.container.tasks.task_builder import load_task_class
from samzapy.coordinator.clocks import utc
from samzapy.coordinator.views import HOW, LONGEST, MOST_READ, MOST_RECORDS, Inspector
from samzapy.coordinator.views import Record as Shown
from samzapy.errors import ConfigError, EnvironmentFailure, OffsetOutOfRange, SerdeError, UnknownStream
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
from samzapy.storage.kv.expiring import unstamped
from samzapy.storage.kv.scanning import first_beyond
from samzapy.storage.local.directory import store_directory
from samzapy.storage.opening import StoreOpener, StoreOwner
from samzapy.storage.spec import StoreSpec, store_specs
from samzapy.system.clients import SystemClients

#: Entered while a changelog is read; the callback gets the progress.
Progress = Callable[[], AbstractContextManager[ProgressCallback]]


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
        return self._entries(Selection(frozenset(map(self.key, keys))))

    def absent(self, keys: Sequence[str], found: Sequence[Entry]) -> list[str]:
        """The keys, as given, that are not among `found`."""
        there = {entry.key for entry in found}
        return [key for key in keys if self.key(key) not in there]

    def of_prefix(self, prefix: str) -> Iterator[Entry]:
        """The entries with keys that start with `prefix`. Raises ConfigError if the serde does not keep prefixes."""
        if not self._keeps_prefixes:
            message = f"needs a key serde that keeps prefixes (string, bytes), not {self.key_serde_name}"
            raise ConfigError.of("--prefix", prefix, message)
        start = self.key(prefix)
        return self._entries(Selection(None, start, first_beyond(start)))

    def of_range(self, lower: str | None = None, upper: str | None = None) -> Iterator[Entry]:
        """The entries with lower <= key < upper, None for no bound."""
        low, high = (None if bound is None else self.key(bound) for bound in (lower, upper))
        return self._entries(Selection(None, low, high))

    def values(self, entry: Entry) -> tuple[Any, Any]:
        """Key and value. Raises SerdeError."""
        where = f"store '{self._name}' partition {entry.partition}"
        key = self._keys.decode(entry.key, where, "key")
        return key, self._values.decode(entry.value, f"{where}, key {key!r}", "value")

    def line(self, entry: Entry) -> str:
        key, value = self.values(entry)
        return as_json({"partition": entry.partition, "key": key, "value": value})

    def text(self, entry: Entry) -> str:
        return "\t".join(map(as_text, self.values(entry)))

    def export(self, entries: Iterable[Entry], file: Path, kind: str) -> int:
        """Write the entries to `file` (`kind`: json or csv), and return their number.

        The entries go to a temporary file next to it, which is renamed at the end: the file is complete or absent.
        Raises EnvironmentFailure if it cannot be written.
        """
        temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
        count = 0
        try:
            with temporary.open("w", encoding="utf-8", newline="") as out:
                rows = csv.writer(out, lineterminator="\n")
                if kind == "csv":
                    rows.writerow(("partition", "key", "value"))
                for entry in entries:
                    if kind == "csv":
                        rows.writerow((entry.partition, *map(as_text, self.values(entry))))
                    else:
                        out.write(self.line(entry) + "\n")
                    count += 1
            temporary.replace(file)
        except OSError as cause:
            raise EnvironmentFailure(f"{file}: cannot be written ({cause.strerror or cause})") from cause
        finally:
            temporary.unlink(missing_ok=True)
        return count

    def key(self, text: str) -> bytes:
        """The bytes of a key. Raises SerdeError."""
        return self._keys.encode(text, "the command line", "key")

    def _entries(self, selection: Selection) -> Iterator[Entry]:
        return self._contents(selection).entries(selection)


@contextmanager
def store_entries(
    question: Question,
    progress: Progress = lambda: nullcontext(lambda _what, _done, _total: None),
    say: Callable[[str], None] = lambda _: None,
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
                return opened.enter_context(_files(config, spec, question.local, say))
            return opened.enter_context(_changelog(question, store, folder, progress, selection))

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
    notes = {"entries without a marker": contents.unmarked, "empty": contents.empty}
    for note, directories in notes.items():
        for directory in directories:
            say(f"{directory.name}: {note}")
    return contents


def rebuild_store(
    config: JobConfig, name: str, base: Path, tasks: Sequence[str], on_progress: ProgressCallback | None = None
) -> dict[str, tuple[RestoreResult, Path]]:
    """Restore the store of these tasks (none: of all) below `base`; returns the results and directories by task.

    Raises ConfigError for a store that keeps no files or has no changelog, EnvironmentFailure for a directory that
    exists.
    """
    base, store = Path(os.path.expanduser(base)), store_of(config.stores, name)  # noqa: PTH111  # raises nothing
    alone = replace(
        config, stores={name: replace(store, clean_on_start=False, backup=None)}, logged_store_base_dir=base
    )
    specs = store_specs(alone)
    if not specs[name].persistent:
        raise ConfigError.of(f"stores.{name}.factory", store.factory, "keeps no files to rebuild")
    with ExitStack() as cleanup:
        clients, checkpoints = cleanup.enter_context(open_job(config, "store"))
        owners = _owners(store, clients, checkpoints)
        for task in tasks:
            if task not in owners:
                raise ConfigError.of("--task", task, f"the job's tasks are {', '.join(owners)}")
        chosen = {task: owners[task] for task in tasks or owners}
        paths = {task: store_directory(base, config.job_name, name, task) for task in chosen}
        for path in paths.values():
            if path.exists():
                raise EnvironmentFailure(f"{path}: exists already; name a folder that has no such store")
        opener = StoreOpener(
            alone, specs, serde_registry(config), admin_of=clients.admin, clock=SYSTEM_CLOCK, tasks=len(chosen)
        )
        opened_stores = opener.open([StoreOwner(task, partition) for task, partition in chosen.items()])
        stores = opener.restore(opened_stores, clients.changelog_consumer, on_progress)
        for opened in stores:
            cleanup.callback(opened.close)
        for opened in stores:
            opened.flush_engines()
        return {task: (opened.restored[name], paths[task]) for task, opened in zip(chosen, stores, strict=True)}


def _owners(store: StoreConfig, clients: SystemClients, checkpoints: CheckpointManager) -> dict[str, int]:
    """The changelog partition of each task: as recorded with the checkpoints, else as a first start numbers them."""
    stream = store.changelog
    if stream is None:
        raise ConfigError.of(f"stores.{store.name}.changelog", None, "is required to rebuild the store")
    description = clients.admin(stream.system).describe(stream.stream)
    if description is None:
        raise UnknownStream(*stream, store=store.name)
    owned = read_changelog_partitions(checkpoints)
    if not owned:
        tasks = [f"Partition {number}" for number in range(description.partitions)]
        owned = changelog_partitions(dict.fromkeys(tasks), {})
    return dict(sorted(owned.items(), key=lambda item: item[1]))


#: Inputs, and stores, in the picture of a job.
_MOST_INPUTS = 6
#: Bytes of a message that cannot be read, as shown.
_UNREADABLE = 1_000
#: Seconds without progress after which the search for a message ends: the readers of a page wait for one another.
_PATIENCE_S = 10.0


class JobInspector(Inspector):
    """Reads the changelogs and inputs of one job, with new clients for each question.

    Stores without a changelog are left out: their entries are only on the hosts of their containers.
    """

    about_stores = "A store is read from its changelog, which may take some seconds."

    def __init__(self, config: JobConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._clock = clock
        self.stores = sorted(store.name for store in config.changelogs.values())
        self.streams = sorted({str(stream) for stream in config.task.inputs})

    @property
    def steps(self) -> Sequence[Mapping[str, object]]:
        task_class = load_task_class(self._config.task.task_class)
        # Known by its plan: jobs of tasks import no pipelines.
        steps: Sequence[Mapping[str, object]] = getattr(getattr(task_class, "plan", None), "picture", ())
        return steps or _picture(self._config, task_class.__name__)

    def entries(self, store: str, key: str, how: str = "key") -> Sequence[Shown]:
        if store not in self.stores:
            raise ConfigError.of("store", store, f"the stores with a changelog are {', '.join(self.stores)}")
        if how not in HOW:
            raise ConfigError.of("how", how, f"expected {', '.join(HOW)}")
        with store_entries(Question(self._config, store)) as entries:
            if how == "history":
                return self._history(store, key, entries)
            result = entries.of_prefix(key) if how == "prefix" else entries.of_keys([key])
            return [
                _found(f"store {store}, partition {entry.partition}", *entries.values(entry))
                for entry in islice(result, MOST_RECORDS)
            ]

    def _history(self, store: str, key: str, entries: StoreEntries) -> Sequence[Shown]:
        """The newest changes of a key that its changelog still has, the newest first."""
        config = self._config
        stream = config.stores[store].changelog
        assert stream is not None
        wanted, result = entries.key(key), deque[Record](maxlen=MOST_RECORDS)
        with closing(self._records(stream, Range(last=MOST_READ, patience_s=_PATIENCE_S))) as matches:
            result.extend(record for record in matches if record.key == wanted)
        stamped = config.stores[store].ttl_ms is not None
        shown = []
        for record in sorted(result, key=lambda each: each.timestamp, reverse=True):
            place = f"{_place(record)}, {'deleted' if record.value is None else 'put'}"
            value = b"" if record.value is None else unstamped(record.value) if stamped else record.value
            pair = entries.values(Entry(record.ssp.partition, wanted, value)) if record.value is not None else (key, "")
            shown.append(_found(place, *pair))
        return shown

    def messages(self, stream: str, partition: str, start: str, key: str | None = None) -> Sequence[Shown]:
        if stream not in self.streams:
            raise ConfigError.of("stream", stream, f"the inputs are {', '.join(self.streams)}")
        if not partition.isdecimal() or len(partition) > 9:
            raise ConfigError.of("partition", partition, "expected a number from 0")
        place = SystemStream.parse(stream)
        known = self._config.stream(place)
        keys, values = (self._literal(serde) for serde in (known.key_serde, known.msg_serde))
        wanted = None if key is None else keys.encode(key, stream, "key")
        read = Range(start or "newest", (int(partition),), patience_s=_PATIENCE_S)
        try:
            with closing(self._records(place, read)) as matches:
                scanned = (record for record in islice(matches, MOST_READ) if wanted is None or record.key == wanted)
                return [_decoded(record, keys, values) for record in islice(scanned, MOST_RECORDS)]
        except OffsetOutOfRange as cause:
            raise ConfigError.of("from", start, str(cause)) from cause

    def log(self, container: str) -> str:
        return newest_lines(log_folder(self._config.supervision.log, self._config.job_name), container)

    def _records(self, stream: SystemStream, what: Range) -> Generator[Record, None, None]:
        return records(self._config.systems[stream.system], stream, what, self._clock)

    def _literal(self, serde: str | None) -> Literal:
        return Literal(serde or "bytes", serde_registry(self._config)[serde or "bytes"])


def _picture(config: JobConfig, task: str) -> list[Mapping[str, object]]:
    """The steps of a job without a pipeline, as those of one: its inputs, its task, and the stores and streams behind
    it that the job file names."""

    def step(name: str, kind: str, about: str, *inputs: str, stream: str = "") -> Mapping[str, object]:
        return {"name": name, "kind": kind, "about": about, "inputs": inputs, "stream": stream, "stores": ()}

    inputs = sorted(map(str, config.task.inputs))
    shown = [step(item, "stream", "input", stream=item) for item in inputs[:_MOST_INPUTS]]
    if len(inputs) > _MOST_INPUTS:
        shown.append(step(f"{len(inputs) - _MOST_INPUTS} further inputs", "stream", "input"))
    shown.append(step(task, "task", "task", *(str(item["name"]) for item in shown)))
    changelogs = {store.name: str(stream) for stream, store in config.changelogs.items()}
    behind = [(name, changelogs.get(name, "store")) for name in sorted(config.stores)]
    if (letters := config.task.errors.dead_letters) is not None:
        behind.append((str(letters), "dead letters"))
    return [*shown, *(step(name, "output", about, task) for name, about in behind[:_MOST_INPUTS])]


def _place(record: Record) -> str:
    time = "no time" if record.timestamp == -1 else utc(record.timestamp, "milliseconds")
    return f"{record.ssp}@{record.offset}, {time.replace('+00:00', 'Z')}"


def _decoded(record: Record, keys: Literal, values: Literal) -> Shown:
    """The record as text. One that cannot be read has its bytes and the reason: it may be the one that was sought."""
    where = f"{record.ssp}@{record.offset}"
    try:
        pair = keys.decode(record.key, where, "key"), values.decode(record.value, where, "message")
    except SerdeError as cause:
        pair = (repr(record.key), f"{cause}: {(record.value or b'')[:_UNREADABLE]!r}")
    return _found(_place(record), *pair)


def _found(place: str, key: object, value: object) -> Shown:
    return Shown(place, as_text(key)[:LONGEST], as_text(value)[:LONGEST])
