"""Plans a replay: finds the commit with the state, the records after it, and the gaps in the records of the original
run.

Only one thing ties state to offsets: a commit. So a replay begins at the last commit before the first record of
interest, with the state and the positions of that commit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from samzapy.admin.job_check import input_partitions, streams_of
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord
from samzapy.api.event_time import StateCheckpointTask
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.api.task import AnyTask, AsyncStreamTask, BatchTask, CoroutineTask, TimerTask, WindowableTask
from samzapy.checkpoint.managers import one_pass
from samzapy.checkpoint.records import read_changelog_partitions
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.task import Guarantee
from samzapy.container.supervision.job_records import open_job
from samzapy.container.tasks.task_builder import load_task_class
from samzapy.coordinator.clocks import utc
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, OffsetOutOfRange, UnknownStream, raise_if_any
from samzapy.job.planner import JobModel, TaskModel, follow_growth, from_json, keeps_state, plan
from samzapy.replay.history import FROM_EMPTY, Commit, History, Place, committed_range, history_of, state_wanted
from samzapy.replay.past import Positions, Slice
from samzapy.storage.changelog.topic import check_end, delete_retention_ms, scan
from samzapy.storage.spec import check_checkpoints, store_specs
from samzapy.system.clients import KnownStreams, SystemClients, traits_of


@dataclass(frozen=True)
class Request:
    """The request for a replay, as on the command line. `until`: the last record. `start`: the first record that is
    shown, None for all since the commit. `from_empty`: with empty stores instead of the state of a commit, from
    `start` on."""

    until: str
    task: str | None = None
    start: str | None = None
    from_empty: bool = False


@dataclass(frozen=True)
class StorePlan:
    """A store's changelog partition: the state is its records up to offset `last`. `no_records`: offsets at which known
    transactions have ended. `deletions_kept_ms`: the topic's `delete.retention.ms`."""

    changelog: SystemStreamPartition
    last: int = -1
    no_records: frozenset[int] = frozenset()
    deletions_kept_ms: int = 0

    @property
    def end(self) -> int:
        """The offset after the commit, the end of its transaction included: a snapshot of it may stand there."""
        return self.last + 1 + (self.last + 1 in self.no_records)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A replay that can be run any number of times. `about` describes it, and `unknown` lists where the original run
    may have differed: lines for people."""

    task: TaskModel
    tasks: int
    checkpoint: Checkpoint
    first: Place | None
    slice: Slice
    stores: Mapping[str, StorePlan]
    from_empty: bool
    about: tuple[str, ...]
    unknown: tuple[str, ...] = field(default=())


def plan_replay(config: JobConfig, request: Request) -> Plan:
    """Find the commit and the records. Writes nothing.

    Raises ConfigError for a place or a task that the job does not have, and for a commit before a store got the serdes
    of the job file; OffsetOutOfRange for records that are gone, EnvironmentFailure where the commit or the state is
    gone.
    """
    kind = load_task_class(config.task.task_class)
    if issubclass(kind, StateCheckpointTask):
        message = f"{kind.__name__} keeps a state of its own next to its stores, which a replay cannot rebuild"
        raise ConfigError.of("task.class", config.task.task_class, message)
    with open_job(config, "replay") as (clients, checkpoints):
        model = _model(config, clients, checkpoints)
        task = find_task(model, request.task, request.until)
        until = find_place("--until", request.until, task.ssps, last=True)
        first = None if request.start is None else find_place("--from", request.start, task.ssps, last=False)
        if first is not None and first.ssp == until.ssp and first.offset > until.offset:
            raise ConfigError.of("--from", request.start, f"must not be behind --until, {until}")
        logs = {ssp: committed_range(clients, ssp) for ssp in task.ssps}
        for place in filter(None, (first, until)):
            _must_be_there(place.ssp, place.offset, logs[place.ssp])
        if request.from_empty:
            return _from_empty(config, kind, model, task, clients, logs, first, until)
        _refuse_unrecorded_state(config)
        history = history_of(config, task.name, clients, checkpoints)
        number = min(history.before(place) for place in (first or until, until))
        base = history.commits[number]
        check_checkpoints(store_specs(config), [base.checkpoint])
        stores = _stores(config, task, clients, history, base)
        return Plan(
            task=task,
            tasks=len(model.tasks),
            checkpoint=base.checkpoint,
            first=first,
            slice=_slice(task, logs, history, number, until),
            stores=stores,
            from_empty=False,
            about=(f"{task.name}: from the commit {base.where}, of {utc(base.checkpoint.time_ms, 'milliseconds')}",),
            unknown=tuple(_unknown(config, kind, task, base.checkpoint)),
        )


def _model(config: JobConfig, clients: SystemClients, checkpoints: CheckpointManager) -> JobModel:
    """The tasks as the last start of the job has made them."""
    known = KnownStreams(clients)
    known.fetch(streams_of(config))
    counts = input_partitions(config, known)
    with one_pass(checkpoints):
        inputs = follow_growth(
            from_json(checkpoints.read_record(JobRecord.INPUTS).newest), counts, keeps_state=keeps_state(config.stores)
        )
        return plan(config, counts, read_changelog_partitions(checkpoints), inputs)


def _must_be_there(ssp: SystemStreamPartition, offset: int, log: OffsetRange) -> None:
    if not log.oldest <= offset < log.upcoming:
        raise OffsetOutOfRange(ssp, offset, log.oldest, log.upcoming)


def _refuse_unrecorded_state(config: JobConfig) -> None:
    """Raise ConfigError for state that no commit ties to an offset."""
    problems = []
    if config.task.guarantee is Guarantee.AT_MOST_ONCE and config.stores:
        message = f"commits positions ahead of the state, so no offset belongs to a state; {FROM_EMPTY}"
        problems.append(ConfigProblem("task.guarantee", Guarantee.AT_MOST_ONCE.value, message))
    for store in config.stores.values():
        if store.changelog is None and store.source is None:
            message = f"the store has none, so its earlier entries are not kept; {FROM_EMPTY}"
            problems.append(ConfigProblem(f"stores.{store.name}.changelog", None, message))
    raise_if_any(problems)


def _stores(
    config: JobConfig, task: TaskModel, clients: SystemClients, history: History, base: Commit
) -> dict[str, StorePlan]:
    result = {}
    for stream, store in config.changelogs.items():
        topic = clients.admin(stream.system).describe(stream.stream)
        if topic is None:
            raise UnknownStream(*stream, store=store.name)
        ssp = SystemStreamPartition(*stream, task.changelog_partition)
        last = base.checkpoint.changelog_offsets.get(store.name, -1)
        log = clients.offsets([ssp])[ssp]
        with state_wanted(store.name):
            check_end(ssp, log, last, base.checkpoint.changelog_ids.get(store.name), topic.stream_id)
        if last >= 0 and log.oldest > (0 if store.backup is None else last):
            raise EnvironmentFailure(
                f"store '{store.name}': changelog {ssp} begins at offset {log.oldest}, the records "
                f"before it were deleted, and the commit's last record is at {last}; {FROM_EMPTY}"
            )
        result[store.name] = StorePlan(
            ssp, last, _transaction_ends(config, store.name, ssp.system, history), delete_retention_ms(topic, store)
        )
    return result


def _transaction_ends(config: JobConfig, store: str, system: str, history: History) -> frozenset[int]:
    """The offsets at which the end of a known transaction stands, and no record."""
    if not traits_of(config.systems[system]).transactional:
        return frozenset()
    known = (item.checkpoint for item in history.commits if item.checkpoint.atomic)
    lasts = (checkpoint.changelog_offsets.get(store, -1) for checkpoint in known)
    return frozenset(last + 1 for last in lasts if last >= 0)


def _slice(
    task: TaskModel, logs: Mapping[SystemStreamPartition, OffsetRange], history: History, number: int, until: Place
) -> Slice:
    """The slice from the positions of a commit to the record `until`, in the intervals of the commits in between."""
    base = history.commits[number].positions
    starts = {ssp: base.get(ssp, logs[ssp].oldest) for ssp in task.ssps}
    for ssp, start in starts.items():
        if start < logs[ssp].oldest:
            raise OffsetOutOfRange(ssp, start, *logs[ssp], f"the commit is there, the records are gone; {FROM_EMPTY}")
    between: list[Positions] = []
    ends = {ssp: log.upcoming for ssp, log in logs.items()}
    for commit in history.after(number):
        if commit.positions.get(until.ssp, 0) > until.offset:
            ends = {ssp: min(commit.positions.get(ssp, end), end) for ssp, end in ends.items()}
            break
        between.append(commit.positions)
    ends[until.ssp] = until.offset + 1
    return Slice(starts, between, ends, until)


def _from_empty(
    config: JobConfig, kind: type[AnyTask], model: JobModel, task: TaskModel, clients: SystemClients,
    logs: Mapping[SystemStreamPartition, OffsetRange], first: Place | None, until: Place,
) -> Plan:  # fmt: skip
    """The slice for empty stores, from `first` on; the other partitions begin at the time of that record."""
    begin = first or until
    time_ms = _time_of(clients, begin, logs[begin.ssp])
    starts = {begin.ssp: begin.offset}
    for ssp in task.ssps - {begin.ssp}:
        starts[ssp] = clients.admin(ssp.system).offsets_at([ssp], time_ms)[ssp]
    ends = {ssp: log.upcoming for ssp, log in logs.items()} | {until.ssp: until.offset + 1}
    changelogs = {
        store.name: StorePlan(SystemStreamPartition(*store.changelog, task.changelog_partition))
        for store in config.stores.values()
        if store.changelog is not None
    }
    checkpoint = Checkpoint(starts, time_ms=time_ms)
    return Plan(
        task=task,
        tasks=len(model.tasks),
        checkpoint=checkpoint,
        first=None,
        slice=Slice(starts, (), ends, until),
        stores=changelogs,
        from_empty=True,
        about=(f"{task.name}: from empty stores, at {begin}",),
        unknown=tuple(_unknown(config, kind, task, checkpoint)),
    )


def _time_of(clients: SystemClients, place: Place, log: OffsetRange) -> int:
    """The time of the record at that place, or of the first one after it."""
    with closing(clients.consumer(place.ssp.system)) as consumer:
        for batch in scan(consumer, place.ssp, OffsetRange(place.offset, log.upcoming), SYSTEM_CLOCK):
            return max(0, batch.timestamps[0])
    return 0


def _unknown(config: JobConfig, kind: type[AnyTask], task: TaskModel, checkpoint: Checkpoint) -> Iterator[str]:
    """The facts that are not recorded, and how the replay replaces them."""
    if len(task.ssps) > 1:
        yield "the order across partitions is not recorded: between two commits records come by their times"
    for system in sorted({ssp.system for ssp in task.ssps}):
        if traits_of(config.systems[system]).read_only:
            yield f"the rows of system '{system}' may have changed since, and have other offsets then"
    if issubclass(kind, BatchTask):
        yield "the sizes of batches are not recorded: they are as large as one poll"
    if issubclass(kind, (AsyncStreamTask, CoroutineTask)):
        yield "the order in which messages ended is not recorded: each ends before the next one begins"
    if issubclass(kind, (WindowableTask, TimerTask)):
        calls = f"windows (the last {MOST_WINDOWS:,} of a silence) and wall-clock timers"
        yield f"the wall clock is not recorded: it stands at the times of the records, for {calls}"
    for store in config.stores.values():
        if store.source is not None:
            now = "are read as they are now: their earlier contents are not recorded"
            yield f"the streams of store '{store.name}' {now}"
    if checkpoint.changelog_offsets and not checkpoint.atomic:
        yield "the job has no transactions: after a crash its state may have been ahead of this commit"


#: `kafka.in[3]@17`, and a batch: `kafka.in[3]@12 to 17`. Other words may stand around it, as in a log line.
_NAMED = re.compile(r"(?P<ssp>[^\s\[\]]+\[\d{1,9}\])@(?P<first>\d{1,18})(?: to (?P<last>\d{1,18}))?")
_BARE = re.compile(r"\d{1,18}")
#: The windows that come between two records, at most.
MOST_WINDOWS = 1_000
_FORM = "expected an offset, or one with its partition like kafka.in[3]@17"


def find_task(model: JobModel, name: str | None, until: str) -> TaskModel:
    """The task of that name; without a name the only one that reads the partition in `until`, or the job's only one.

    Raises ConfigError with the tasks to choose from.
    """
    if name is not None:
        for task in model.tasks:
            if task.name == name:
                return task
        raise ConfigError.of("--task", name, f"expected a task of the job: {_names(model.tasks)}")
    named = _NAMED.search(until)
    readers = [task for task in model.tasks if named is None or any(_is_named(ssp, named["ssp"]) for ssp in task.ssps)]
    if not readers:
        raise _no_input("--until", until, {ssp for task in model.tasks for ssp in task.ssps})
    if len(readers) > 1:
        raise ConfigError.of("--task", None, f"is required: name one of {_names(readers)}")
    return readers[0]


def find_place(option: str, text: str, ssps: Collection[SystemStreamPartition], *, last: bool) -> Place:
    """The record that `text` names among the inputs `ssps` of a task; of a batch the `last` one, or the first.

    Raises ConfigError for another form, for a partition that the task does not read, and for a bare offset where the
    task reads several partitions.
    """
    named = _NAMED.search(text)
    if named is not None:
        result = [ssp for ssp in ssps if _is_named(ssp, named["ssp"])]
        if len(result) != 1:
            raise _no_input(option, text, ssps)
        return Place(result[0], int(named["last"] if last and named["last"] else named["first"]))
    if not _BARE.fullmatch(text.strip()):
        raise ConfigError.of(option, text, _FORM)
    if len(ssps) != 1:
        known = ", ".join(f"{ssp}@{text.strip()}" for ssp in sorted(ssps))
        raise ConfigError.of(option, text, f"the task reads several partitions: name one of {known}")
    return Place(next(iter(ssps)), int(text))


def _is_named(ssp: SystemStreamPartition, text: str) -> bool:
    """Whether `text` names the partition, with its system, or without it as in the headers of a dead letter."""
    return text in {str(ssp), f"{ssp.stream}[{ssp.partition}]"}


def _no_input(option: str, text: str, ssps: Iterable[SystemStreamPartition]) -> ConfigError:
    known = ", ".join(map(str, sorted(ssps)))
    return ConfigError.of(option, text, f"names no input of the task; it reads {known}")


def _names(tasks: Iterable[TaskModel]) -> str:
    return ", ".join(task.name for task in tasks)
