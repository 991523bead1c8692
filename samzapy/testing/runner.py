"""Runs a whole job over given inputs to its end, and keeps its outputs and the contents of its stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

from samzapy.api.envelope import Headers, IncomingMessageEnvelope
from samzapy.api.task import AnyTask
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.coordinator.status import JobStatus
from samzapy.errors import StoreError
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.storage.inspection import ChangelogReader, Contents, Selection, read_files
from samzapy.storage.local.directory import lies_beside, store_directory
from samzapy.storage.spec import store_specs
from samzapy.system.clients import job_clients
from samzapy.testing.job import JobSource, Outputs, Streams, Workbench

#: A store's entries by changelog partition; None where nothing outlives the run.
Entries = dict[int, dict[Any, Any]] | None


def contents(job: JobConfig, streams: Streams, clock: Clock, scratch: Path) -> dict[str, Entries]:
    """The committed entries of every store: of its changelog, else of its files. `scratch`: a folder for files of the
    read."""
    with ExitStack() as cleanup:
        clients = job_clients(job, "test")
        cleanup.callback(clients.close)
        reader = ChangelogReader(clients.admin, clients.consumer, clock, scratch)
        result: dict[str, Entries] = {}
        for store in job.stores.values():
            opened = reader.read(store, (), Selection()) if store.changelog else _files(job, store, clock)
            if opened is not None:
                cleanup.enter_context(opened)
            result[store.name] = None if opened is None else _decoded(store, streams, opened)
        return result


def _files(job: JobConfig, store: StoreConfig, clock: Clock) -> Contents | None:
    spec = store_specs(job)[store.name]
    return read_files(spec, sorted(_directories(job, store)), clock) if spec.persistent else None


def _directories(job: JobConfig, store: StoreConfig) -> Iterator[Path]:
    parent = store_directory(job.non_logged_store_base_dir, job.job_name, store.name, "task").parent
    return (path.parent for path in parent.glob("*/CURRENT") if not lies_beside(path.parent))


def _decoded(store: StoreConfig, streams: Streams, opened: Contents) -> dict[int, dict[Any, Any]]:
    keys, values = streams.store_serdes(store)
    result: dict[int, dict[Any, Any]] = {}
    for entry in opened.entries(Selection()):
        result.setdefault(entry.partition, {})[keys.from_bytes(entry.key)] = values.from_bytes(entry.value)
    return result


class Input(NamedTuple):
    """A message of an input with all its fields. `partition` None: by the key's hash, in turn without a key;
    `timestamp` in milliseconds since 1970, None for now."""

    message: Any
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers | None = None


@final
class FinishedRun:
    """The results of a run. `status` is its report, as the coordinator has it (`status.processed`, `status.commits`,
    ...)."""

    def __init__(self, status: JobStatus, streams: Streams, stores: Mapping[str, Entries]) -> None:
        self.status = status
        self._streams = streams
        self._stores = stores

    def outputs(self, stream: str, partition: int | None = None) -> Outputs:
        """The committed messages of a stream, one partition after the other; nothing of one that does not exist."""
        return self._streams.read(stream, partition, committed=True)

    def store(self, name: str, partition: int | None = None) -> dict[Any, Any]:
        """The entries of a store, of all tasks or of the task with that changelog partition.

        Raises ConfigError if there is no such store, StoreError for one that ended with the run (in memory, without a
        changelog), and for a key that several partitions have.
        """
        self._streams.store(name)
        result = self._stores[name]
        if result is None:
            raise StoreError(f"store '{name}' was in memory and has no changelog: nothing of it is left")
        if partition is not None:
            return dict(result.get(partition, {}))
        together: dict[Any, Any] = {}
        for number, entries in sorted(result.items()):
            for key in together.keys() & entries.keys():
                raise StoreError(f"store '{name}' has {key!r} in several partitions, {number} is one of them: name one")
            together |= entries
        return together

    def changelog(self, name: str, partition: int | None = None) -> Outputs:
        """The records of a store's changelog as they were written; a deletion's message is None."""
        return self._streams.changelog(name, partition)


@final
@dataclass(frozen=True)
class TestRunner:
    """Runs a job in this process on streams in memory, from its start to the ends of its inputs, like
    `samzapy run --until-end --runner local`. It touches nothing outside the test.

        run = TestRunner.of(PageViewCountTask).with_config(config).with_input("page-views", [("/home", {...})]).run()
        assert run.store("counts") == {"/home": 1}

    Each `with_...` returns a new runner.
    """

    __test__ = False  # pytest: its name alone does not make it a test

    task: type[AnyTask] | None
    config: JobSource
    overrides: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, tuple[tuple[Input, ...], int]] = field(default_factory=dict)

    @classmethod
    def of(cls, job: type[AnyTask] | Path | str) -> TestRunner:
        """For a task class, configured by `with_config`, or for a job file."""
        return cls(job, {}) if isinstance(job, type) else cls(None, job)

    def with_config(self, config: Mapping[str, str]) -> TestRunner:
        """Put these pairs on top of the configuration. For a task, pairs need no `job.name`, and no keys of systems."""
        if isinstance(self.config, Mapping):
            return replace(self, config={**self.config, **config})
        return replace(self, overrides={**self.overrides, **config})

    def with_input(self, stream: str, messages: Iterable[Any], partitions: int = 1) -> TestRunner:
        """Put these messages into `stream` (`in`, `system.in` or an id), before the start; they are read from the
        first.

        A message is a pair (key, message), an `Input`, or an output envelope of another run. Anything else is a
        message without a key. Other inputs are empty, with as many partitions as the widest given input. Raises
        ValueError for a stream that has its messages already.
        """
        if stream in self.inputs:
            raise ValueError(f"{stream} has its messages already: give all of them in one with_input")
        return replace(self, inputs={**self.inputs, stream: (tuple(map(_input, messages)), partitions)})

    def run(self) -> FinishedRun:
        """Run to the end. Raises ConfigError with every problem of the job, and the errors of a run (TaskFailed,
        ...)."""
        widths = {stream: partitions for stream, (_, partitions) in self.inputs.items()}
        with closing(Workbench(self.task, self.config, self.overrides, widths, SYSTEM_CLOCK)) as bench:
            for stream, (messages, partitions) in self.inputs.items():
                _fill(bench.streams, stream, messages, partitions)
            outcome = LocalRunner().run(prepare(_from_oldest(bench.job), until_end=True), RunOptions())
            stores = contents(bench.job, bench.streams, SYSTEM_CLOCK, bench.state / "read")
            return FinishedRun(outcome.status, bench.streams, stores)


def _from_oldest(job: JobConfig) -> JobConfig:
    """Read all inputs from the oldest record: a test writes them before the job starts."""
    return replace(job, streams={name: replace(item, offset_default="oldest") for name, item in job.streams.items()})


def _fill(streams: Streams, name: str, messages: Iterable[Input], partitions: int) -> None:
    stream = streams.input(name)
    for number, given in enumerate(messages):
        in_turn = number % partitions if given.key is None else None
        partition = in_turn if given.partition is None else given.partition
        streams.send(stream, given.message, given.key, partition, given.timestamp, given.headers)


def _input(given: Any) -> Input:
    if isinstance(given, Input):
        return given
    if isinstance(given, IncomingMessageEnvelope):
        return Input(given.message, given.key, None, given.event_time, given.headers)
    if isinstance(given, tuple) and len(given) == 2:
        return Input(given[1], given[0])
    return Input(given)
