"""Checks the surroundings of a job, and changes nothing.

1. The inputs, including the matches of patterns, changelogs and checkpoints.
2. The copies of changelogs, of checkpoints and of Kafka's log of transactions.
3. The order of rows in the tables of a database that the job reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from samzapy.admin.take_over import refuse_another_job, refuse_foreign
from samzapy.admin.user_code import JobCode
from samzapy.api.checkpoint import CheckpointManager, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import StreamDescription, SystemAdmin
from samzapy.checkpoint.managers import one_pass, wait_at_most
from samzapy.checkpoint.records import read_changelog_partitions, read_owner, refuse_copied, startpoints_from_json
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.checkpoint import CheckpointConfig
from samzapy.config.guarantee_warnings import GuaranteeWarning, weak_copies
from samzapy.config.job import JobConfig, checkpoint_stream
from samzapy.config.loader import with_every_partition, with_inputs
from samzapy.config.reading.keys import Reader
from samzapy.config.stores import StoreConfig
from samzapy.config.streams.stream import EVERY
from samzapy.container.outputs.producers import check_transaction_timeout
from samzapy.container.supervision.job_records import JobRecords
from samzapy.errors import (
    ConfigError,
    ConfigProblem,
    EnvironmentFailure,
    RestoreError,
    RetriableError,
    SamzapyError,
    UnknownStream,
    raise_if_any,
)
from samzapy.job.planner import (
    FoundInputs,
    InputPartitions,
    JobModel,
    check_copartitioned,
    check_found,
    find_inputs,
    follow_growth,
    from_json,
    keeps_state,
    plan,
)
from samzapy.storage.changelog.topic import check_described
from samzapy.storage.spec import check_checkpoints
from samzapy.system.clients import KnownStreams, job_clients, limits_of, traits_of

#: Seconds that a check waits for an open transaction of another process.
_PATIENCE_S = 2.0

_PURPOSE = "check"

#: Describes a stream; None if it does not exist.
Describe = Callable[[SystemStream], StreamDescription | None]
#: Called with one line for each thing that could not be checked.
Warn = Callable[[str], None]


class NotReachable(SamzapyError):
    """Raised when a system does not answer, so that the streams on it cannot be checked."""

    exit_code = 3


def inputs_now(config: JobConfig) -> FoundInputs:
    """The streams that the patterns of a job file match now. One request per system.

    Raises ConfigError for a system that cannot list its streams, EnvironmentFailure or RetriableError if one does not
    answer.
    """
    systems = {pattern.stream.system for pattern in config.task.patterns}
    for pattern in config.task.patterns:
        if traits_of(config.systems[pattern.stream.system]).read_only:
            message = f"system '{pattern.stream.system}' cannot list its streams: name them"
            raise ConfigError.of("task.inputs", str(pattern), message)
    with closing(job_clients(config, "inputs")) as clients:
        return find_inputs(config, clients.names(systems))


def resolved(config: JobConfig) -> JobConfig:
    """The job with the streams in place of its patterns, and the partitions in place of `#*`; a job without either is
    returned unchanged. Raises as `inputs_now`, ConfigError for a pattern that matches nothing, and UnknownStream."""
    if config.task.patterns:
        result = inputs_now(config)
        check_found(config, result)
        config = with_inputs(config, result.by_pattern)
    every = {ssp.system_stream for ssp in config.task.broadcast_inputs if ssp.partition == EVERY}
    if not every:
        return config
    with closing(job_clients(config, "inputs")) as clients:
        streams = KnownStreams(clients)
        streams.fetch(every)
        return with_every_partition(config, {stream: existing(config, stream, streams).partitions for stream in every})


def input_partitions(config: JobConfig, describe: Describe) -> dict[SystemStream, int]:
    """The number of partitions of each input.

    Raises UnknownStream for an input that does not exist, ConfigError for a broadcast partition that does not.
    """
    own = config.repartitions
    counts = {item: existing(config, item, describe).partitions for item in config.task.inputs if item not in own}
    widest = max(counts.values(), default=1)
    for stream in sorted(own):
        description = describe(stream)
        if description is not None and description.partitions != widest:
            raise EnvironmentFailure(
                f"{stream} connects steps of this job and has {description.partitions} partitions, the widest input "
                f"has {widest}: give the step another name, which makes a stream of its own"
            )
        counts[stream] = widest
    for ssp in sorted(config.task.broadcast_inputs):
        partitions = existing(config, ssp.system_stream, describe).partitions
        if ssp.partition >= partitions:
            message = f"{ssp.system_stream} has partitions 0 to {partitions - 1}"
            raise ConfigError.of("task.broadcast.inputs", str(ssp), message)
    return counts


def checked_inputs(config: JobConfig, describe: Describe) -> dict[SystemStream, int]:
    """As `input_partitions`, with UnknownStream also for a stream that fills a store and for the stream of dead
    letters."""
    counts = input_partitions(config, describe)
    letters = config.task.errors.dead_letters
    for stream in (*sorted(config.sources), *([] if letters is None else [letters])):
        existing(config, stream, describe)
    return counts


def streams_of(config: JobConfig) -> set[SystemStream]:
    """The streams that a start or a check looks at, whether they exist or not: to ask for all of them at once."""
    letters = config.task.errors.dead_letters
    kept = {stream for _, stream in (*_foundations(config), *_declared(config))}
    return kept | config.task.all_inputs | config.sources | ({letters} if letters else set())


def existing(config: JobConfig, stream: SystemStream, describe: Describe) -> StreamDescription:
    """The description of a stream. Raises UnknownStream if it does not exist."""
    description = describe(stream)
    if description is None:
        raise UnknownStream(stream.system, stream.stream, traits_of(config.systems[stream.system]).place or "")
    return description


def inspect_start(
    config: JobConfig, warn: Warn, code: JobCode | None = None
) -> tuple[JobModel, tuple[GuaranteeWarning, ...]]:
    """The model that the job would start with, and the warnings about the topics that its guarantee needs.

    With the job's `code` it makes the checks of a start, too. `warn` gets a line for each check that was left out
    because of an open transaction. Raises UnknownStream for an input, a stream that fills a store or a stream of dead
    letters that does not exist, ConfigError for a broadcast partition that does not exist and for a store that was
    written with other serdes, EnvironmentFailure for a changelog that could not hold the state, for inputs that a task
    could not join, NotReachable if a system does not answer.
    """
    with closing(job_clients(config, _PURPOSE)) as clients, closing(JobRecords.of(config, _PURPOSE)) as records:
        for system in config.systems:
            clients.admin(system)
        known = KnownStreams(clients)
        with _reaching():
            known.fetch(streams_of(config))

        def describe(stream: SystemStream) -> StreamDescription | None:
            with _reaching():
                return known(stream)

        counts = checked_inputs(config, describe)
        with _reaching():
            check_copies(config, clients.admin, describe)
        inputs: Mapping[SystemStream, InputPartitions] = {}
        owned: Mapping[str, int] | None = None
        with reading(records, "the inputs and tasks of earlier runs", warn) as checkpoints, one_pass(checkpoints):
            inputs = from_json(checkpoints.read_record(JobRecord.INPUTS).newest)
            owned = read_changelog_partitions(checkpoints)
        partitions = follow_growth(inputs, counts, keeps_state=keeps_state(config.stores))
        if code is not None:
            check_copartitioned(config, partitions, code.task_class)
            with _reaching():
                check_transaction_timeout(config.task.transaction_timeout_ms, clients, code.state.system)
        model = plan(config, counts, owned or {}, partitions)
        _check_changelogs(config, describe, model, exactly=code is not None and owned is not None)
        names = [task.name for task in model.tasks]
        with reading(records, "the owner of the checkpoints and changelogs", warn) as checkpoints:
            refuse_another_job(config, read_owner(checkpoints))
            if code is not None:
                # A startpoint is the way on, so commands that set one do not refuse.
                refuse_renamed(config, checkpoints, describe)
            refuse_foreign(config, model, checkpoints.read(names), checkpoints, clients, describe)
        kept = weakly_kept(config, describe)
        if code is not None:
            with reading(records, "the serdes of the stores", warn) as checkpoints:
                refuse_copied(checkpoints, config.stores)
                check_checkpoints(code.engines, checkpoints.read(names).values())
        return model, kept


#: The partitions that an error names.
_MOST_PLACES = 5


def refuse_renamed(config: JobConfig, checkpoints: CheckpointManager, describe: Describe) -> None:
    """Raise ConfigError if an input is a stream that earlier runs have read under another name, as after a system got
    another name: their positions would be dropped, and their state kept. A partition may start with a position of its
    own: a committed one, a startpoint, or a reset."""
    inputs = config.task.all_inputs
    names = {result.stream_id: stream for stream in inputs if (result := describe(stream)) is not None}
    startpoints = startpoints_from_json(
        checkpoints.read_record(JobRecord.STARTPOINTS).newest if config.startpoints else None
    )
    own = {item.ssp for item in startpoints if not item.expired(SYSTEM_CLOCK.wall_ms())}
    former: dict[SystemStream, SystemStream] = {}
    offsets: dict[SystemStreamPartition, int] = {}
    for item in filter(None, checkpoints.read(read_changelog_partitions(checkpoints)).values()):
        own |= item.input_offsets.keys()
        for ssp, offset in item.input_offsets.items():
            now = names.get(item.input_ids.get(ssp.system_stream, ""))
            if now is not None and ssp.system_stream not in inputs and not config.stream(now).reset_offset:
                former[now] = ssp.system_stream
                place = SystemStreamPartition(*now, ssp.partition)
                offsets[place] = min(offset, offsets.get(place, offset))
    lost = grouped((ssp.system_stream, ssp) for ssp in sorted(offsets.keys() - own))
    raise_if_any(_renamed(stream, former[stream], places, offsets) for stream, places in lost.items())


def _renamed(
    stream: SystemStream,
    former: SystemStream,
    places: Sequence[SystemStreamPartition],
    offsets: Mapping[SystemStreamPartition, int],
) -> ConfigProblem:
    ways = [f"samzapy startpoint set JOB.properties {offsets[ssp]} --input '{ssp}'" for ssp in places[:_MOST_PLACES]]
    more = f"; and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    message = (
        f"{stream} is the stream that earlier runs of the job have read as {former} (the same id), so their positions "
        f"would be lost and their state kept: name it {former} as before, or, to go on where they ended, "
        f"{'; '.join(ways)}{more}"
    )
    return ConfigProblem("task.inputs", None, message)


@contextmanager
def reading(records: JobRecords, sought: str, warn: Warn) -> Iterator[CheckpointManager]:
    """The job's checkpoints, for reading only. If they cannot be read, warns that `sought` is left out."""
    try:
        wait_at_most(records.checkpoints, _PATIENCE_S)
        yield records.checkpoints
    except RetriableError as cause:
        raise NotReachable(str(cause)) from cause
    except RestoreError as cause:
        # The manager may lack records now. After `close` the next reading starts at the beginning.
        records.close()
        warn(f"left out {sought}, is a transaction open? {cause}")


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except (EnvironmentFailure, RetriableError) as cause:
        raise NotReachable(str(cause)) from cause


def _check_changelogs(config: JobConfig, describe: Describe, model: JobModel, *, exactly: bool) -> None:
    """Check the changelogs that exist; the first run creates the others. `exactly`: a start wants as many partitions as
    tasks; a command that only looks takes further ones."""
    tasks = model.changelog_partition_count
    for stream, store in config.changelogs.items():
        description = describe(stream)
        if description is not None:
            check_described(description, store, tasks if exactly else max(tasks, description.partitions))


#: Kafka's own topic, in which it keeps the outcome of transactions.
TRANSACTIONS = "__transaction_state"


def weakly_kept(config: JobConfig, describe: Describe) -> tuple[GuaranteeWarning, ...]:
    """The warnings about existing topics; missing ones are left out."""
    warnings: list[GuaranteeWarning] = []
    for seen, streams in ((True, _foundations(config)), (False, _declared(config))):
        for key, stream in streams:
            description = describe(stream)
            if description is not None:
                # The job does not need to see the settings of inputs and outputs.
                warnings += weak_copies(key, description if seen else replace(description, hidden=""))
    return tuple(warnings)


def check_copies(config: JobConfig, admin_of: Callable[[str], SystemAdmin], describe: Describe) -> None:
    """Raise ConfigError for every stream to be created with more copies than its system has brokers."""
    asked = list(_asked_for(config))
    limits = {system: limits_of(admin_of(system)).replicas for system in {stream.system for _, stream, _ in asked}}
    problems = []
    for key, stream, factor in asked:
        limit = limits[stream.system]
        if limit is not None and factor > limit and describe(stream) is None:
            message = f"must be at most {limit}, the number of brokers of system '{stream.system}'"
            problems.append(ConfigProblem(key, str(factor), message))
    raise_if_any(problems)


def _asked_for(config: JobConfig) -> Iterable[tuple[str, SystemStream, int]]:
    """The numbers of copies that the job file asks for, each with its key and stream."""
    place = Reader(config.resolved).place
    for stream, store in config.changelogs.items():
        factor = store.changelog_replication_factor
        if factor is not None:
            key = place(StoreConfig, "changelog_replication_factor", store=store.name, system=stream.system)
            yield key, stream, factor
    checkpoints, kept = checkpoint_stream(config), config.task.checkpoint
    if checkpoints is not None and kept is not None and kept.replication_factor is not None:
        key = place(CheckpointConfig, "replication_factor", system=checkpoints.system)
        yield key, checkpoints, kept.replication_factor


def _declared(config: JobConfig) -> Iterator[tuple[str, SystemStream]]:
    """The inputs and outputs that the job file names, each once with its key."""
    named = {stream: f"streams.{stream_id}" for stream_id, stream in config.stream_ids.items()}
    keys = {**dict.fromkeys(config.task.all_inputs, "task.inputs"), **named}
    kept = {stream for _, stream in _foundations(config)}
    return (
        (key, stream) for stream, key in sorted(keys.items()) if stream not in kept and stream.system in config.systems
    )


def _foundations(config: JobConfig) -> Iterator[tuple[str, SystemStream]]:
    for stream, store in config.changelogs.items():
        yield f"stores.{store.name}.changelog.replication.factor", stream
    checkpoints = checkpoint_stream(config)
    if checkpoints is None:
        return
    yield "task.checkpoint.replication.factor", checkpoints
    if config.task.guarantee.transactional:
        yield f"systems.{checkpoints.system}", SystemStream(checkpoints.system, TRANSACTIONS)
