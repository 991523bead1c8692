"""`task.*`: the class, its inputs, its guarantee, its timing, and how asynchronous and batch tasks get their
messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.checkpoint import CheckpointConfig, parse_checkpoint
from samzapy.config.error_policy import POLICY_KEYS, Action, ErrorConfig, Stage, parse_errors, skipping_key
from samzapy.config.patterns import ENTRIES, InputPattern, parse_pattern
from samzapy.config.reading.classes import CHOOSERS, ROUND_ROBIN
from samzapy.config.reading.keys import BOOLEAN, NAMED_LIST, TEXT, Kind, Reader, integer, key, member, required
from samzapy.config.streams.stream import StreamNames, is_pattern, parse_partitions
from samzapy.plugins import PluginError, split_path


class Guarantee(Enum):
    """The guarantee for outputs and positions after a crash.

    ================  ===============================  =====================================================
    guarantee         outputs after a crash            how
    ================  ===============================  =====================================================
    at-most-once      none twice, some may be missing  positions are committed before their messages
    at-least-once     none missing, some twice         outputs are acknowledged before the positions
    effectively-once  none missing, twice by the same  outputs carry ids; receivers drop repetitions
                      id
    exactly-once      none missing, none twice         outputs are in the transaction of the positions
    ================  ===============================  =====================================================

    In all four, changelogs and their checkpoints are one transaction where the system has transactions.
    `guarantee_warnings` lists the settings that weaken a job's guarantee.
    """

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EFFECTIVELY_ONCE = "effectively-once"
    EXACTLY_ONCE = "exactly-once"

    @property
    def transactional(self) -> bool:
        """Whether it cannot be kept without transactions."""
        return self in {Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE}

    @property
    def outputs_in_transaction(self) -> bool:
        """Whether outputs are part of the transaction, so that readers of committed records see each once."""
        return self is Guarantee.EXACTLY_ONCE

    @property
    def outputs_have_ids(self) -> bool:
        """Whether each output carries an id by which receivers drop repetitions."""
        return self is Guarantee.EFFECTIVELY_ONCE


_INPUTS, _BROADCAST, _COMMIT = "task.inputs", "task.broadcast.inputs", "task.commit.ms"
_TRANSACTIONAL_COMMIT_MS = 10_000


def _chooser(text: str) -> str | None:
    path = CHOOSERS.kind.parse(text)
    return None if path == ROUND_ROBIN else path


@dataclass(frozen=True)
class ChooserConfig:
    """How the next messages are chosen. `chooser_class` None: by turns."""

    chooser_class: str | None = key(
        "task.chooser.class", Kind(CHOOSERS.kind.allowed, _chooser, blank=True), None, shown="turns"
    )
    """The MessageChooser among partitions of equal priority: `my.module:MyChooser`; round-robin or Samza's
    RoundRobinChooserFactory for turns."""
    batch_size: int = key("task.consumer.batch.size", integer(0, 10_000_000), 0)
    """Number of messages from one partition before the next partition has its turn. 0: all messages of a poll."""


@dataclass(frozen=True)
class AsyncConfig:
    """How the messages of asynchronous tasks run. The keys have no effect on other tasks."""

    max_concurrency: int = key("task.max.concurrency", integer(1, 100_000), 1)
    """Maximum number of messages in flight per asynchronous task."""
    callback_timeout_ms: int = key("task.callback.timeout.ms", integer(), -1)
    """Milliseconds after which an incomplete message ends the attempt. The next attempt replays it. <= 0: never."""
    commit_in_flight: bool = key("task.async.commit", BOOLEAN, False)
    """Whether to commit while messages are in flight, up to the first incomplete one; at-least-once only. Stores may
    then be ahead of the committed inputs."""
    key_order: bool = key("task.async.key.order", BOOLEAN, False)
    """Whether a message starts only after its predecessor with the same key is complete. Later messages with its key
    may overtake a message that decodes only when it is repeated, but they never overlap with it."""
    commit_max_delay_ms: int = key("task.commit.max.delay.ms", integer(1), 60_000)
    """Milliseconds that a commit waits for messages in flight. After that the container skips it and tries again at the
    next one."""


@dataclass(frozen=True)
class BatchConfig:
    """How the messages of batch tasks are gathered. The keys have no effect on other tasks."""

    max_messages: int = key("task.batch.max.messages", integer(0, 10_000_000), 0)
    """Maximum number of messages in one call of a batch task. 0: all messages of the partition in a poll."""
    max_wait_ms: int = key("task.batch.max.wait.ms", integer(0, 3_600_000), 0)
    """Maximum milliseconds to gather task.batch.max.messages messages. 0: do not wait beyond a poll. At-most-once may
    lose gathered messages."""


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """Class, inputs, guarantee and timing of the tasks. `patterns`: the inputs that are not known before the systems
    are asked. `refresh_ms` None: only the start resolves them."""

    task_class: str = required("task.class", TEXT, "my.module:MyTask")
    """The StreamTask: `my.module:MyTask` or `my.module.MyTask`. For a pipeline: app.class=my.module:pipeline."""
    inputs: tuple[SystemStream, ...] = key(_INPUTS, ENTRIES, (), shown="required")
    """The streams to read: `system.stream`, a stream's id, or a regular expression for names, as `system.orders-.*`."""
    broadcast_inputs: frozenset[SystemStreamPartition] = key(_BROADCAST, NAMED_LIST, frozenset(), shown="-")
    """Partitions that every task reads, such as `system.stream#3`, `system.stream#[0-2]` or all: `system.stream#*`."""
    window_ms: int = key("task.window.ms", integer(), -1)
    """Milliseconds between calls of `window`. <= 0: never."""
    commit_ms: int = key(
        _COMMIT, integer(), 60_000, shown=f"60000, or {_TRANSACTIONAL_COMMIT_MS} with exactly-once and effectively-once"
    )
    """Milliseconds between commits. <= 0: only on request and at the end."""
    guarantee: Guarantee = key("task.guarantee", member(Guarantee), Guarantee.AT_LEAST_ONCE)
    """The guarantee for outputs and positions after a crash."""
    transaction_timeout_ms: int = key("task.transaction.timeout.ms", integer(1_000, 900_000), 60_000)
    """Milliseconds after which the broker aborts a transaction. The broker's own limit is 900000 by default."""
    state_transactions: bool = key("task.state.transactions", BOOLEAN, True)
    """Whether to write changelogs and checkpoints in a transaction. Without it, state may hold inputs twice, and may go
    back while two runs overlap. Effectively-once and exactly-once need it."""
    shutdown_ms: int = key("task.shutdown.ms", integer(0), 30_000)
    """Milliseconds for a graceful stop of all containers on Spark, and for the messages in flight of asynchronous
    tasks; after that the run fails. A local run waits for all other tasks without a limit."""
    max_idle_ms: int = key("task.max.idle.ms", integer(0), 10)
    """Milliseconds to wait for input when none is available."""
    poll_batch_size: int | None = key(
        "task.poll.batch.size", integer(1, 10_000_000), None, shown="2000, or 16000 for batch tasks"
    )
    """Maximum number of records per poll of a system."""
    refresh_ms: int | None = key(
        "job.inputs.refresh.ms",
        integer(100, 86_400_000),
        None,
        shown="further partitions and streams wait for the next start",
    )
    """The interval in milliseconds at which the driver checks the inputs, at least every 30 s. When one has new
    partitions, or a new stream matches a regular expression in task.inputs, every task commits, and the job starts
    again with them. With this key, a job without any input waits for the first one."""
    checkpoint: CheckpointConfig | None = None
    asynchronous: AsyncConfig = field(default_factory=AsyncConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    errors: ErrorConfig = field(default_factory=ErrorConfig)
    chooser: ChooserConfig = field(default_factory=ChooserConfig)
    patterns: tuple[InputPattern, ...] = ()

    @property
    def all_inputs(self) -> frozenset[SystemStream]:
        """The input streams, broadcast ones included."""
        return frozenset(self.inputs).union(ssp.system_stream for ssp in self.broadcast_inputs)

    def reads(self, stream: SystemStream) -> bool:
        """Whether the stream is an input, or would be one if it existed."""
        return stream in self.inputs or any(pattern.matches(stream) for pattern in self.patterns)


def parse_task(reader: Reader, names: StreamNames) -> TaskConfig:
    """Read `task.*`, with inputs resolved to system streams, checkpoints and error policies."""
    (inputs, patterns), broadcast = _inputs(reader, names), _broadcast(reader, names)
    systems = {stream.system for stream in inputs} | {ssp.system for ssp in broadcast}
    systems |= {pattern.stream.system for pattern in patterns}
    task = reader.read(
        TaskConfig,
        inputs=inputs,
        broadcast_inputs=broadcast,
        checkpoint=parse_checkpoint(reader, names.default_system, systems, names.systems),
        asynchronous=reader.read(AsyncConfig),
        batch=reader.read(BatchConfig),
        errors=parse_errors(reader, names),
        chooser=reader.read(ChooserConfig),
        patterns=patterns,
        commit_ms=_commit_ms(reader),
    )
    _check_class(reader, task.task_class)
    _check_guarantee(reader, task)
    letters = task.errors.dead_letters
    if letters is not None and task.errors.writes_letters and letters in task.all_inputs:
        reader.warn(f"task.dead.letter.stream: {letters} is an input, too: a message that fails comes again and again")
    if task.refresh_ms is not None and task.checkpoint is None:
        message = "needs checkpoints: without, a new input would take all others back to their defaults"
        reader.problem("job.inputs.refresh.ms", message)
    _check_waits(reader, task.errors, task.guarantee, task.commit_ms, task.transaction_timeout_ms)
    if task.batch.max_wait_ms and not task.batch.max_messages:
        reader.problem("task.batch.max.messages", "must be > 0 with task.batch.max.wait.ms, e.g. 10000", "0")
    return task


def _commit_ms(reader: Reader) -> int:
    """The interval in the file, else the guarantee's: readers see the records of a transaction only at its end."""
    if reader.value(TaskConfig, "guarantee").transactional and not reader.is_set(_COMMIT):
        return _TRANSACTIONAL_COMMIT_MS
    return int(reader.value(TaskConfig, "commit_ms"))


def _check_class(reader: Reader, path: str) -> None:
    if path:
        try:
            split_path(path)
        except PluginError:
            reader.problem("task.class", "expected an importable class like my.module:MyTask", path)


def _inputs(reader: Reader, names: StreamNames) -> tuple[tuple[SystemStream, ...], tuple[InputPattern, ...]]:
    """The inputs that are named, and the patterns of the others."""
    entries: Iterable[str] = reader.value(TaskConfig, "inputs")
    if not entries:
        reader.missing(_INPUTS, "kafka.page-views")
    streams: dict[SystemStream, None] = {}
    patterns: dict[SystemStream, InputPattern] = {}
    for name in entries:
        stream = names.find_input(reader, _INPUTS, name)
        if stream in streams or stream in patterns:
            reader.warn(f"{_INPUTS}: {stream} is listed twice")
        elif stream is not None and is_pattern(stream.stream):
            pattern = parse_pattern(reader, _INPUTS, name, stream, name if name in names.ids else None)
            patterns |= {} if pattern is None else {stream: pattern}
        elif stream is not None:
            streams[stream] = None
    return tuple(streams), tuple(patterns.values())


def _broadcast(reader: Reader, names: StreamNames) -> frozenset[SystemStreamPartition]:
    partitions: set[SystemStreamPartition] = set()
    for entry in reader.value(TaskConfig, "broadcast_inputs"):
        named = parse_partitions(entry)
        if named is None:
            reader.problem(_BROADCAST, "expected system.stream#3, system.stream#[0-2] or system.stream#*", entry)
        else:
            partitions |= names.find_partitions(reader, _BROADCAST, entry, *named)
    return frozenset(partitions)


def _check_guarantee(reader: Reader, task: TaskConfig) -> None:
    """Note settings that the guarantee forbids."""
    guarantee, asynchronous, timeout_ms = task.guarantee, task.asynchronous, task.transaction_timeout_ms
    if asynchronous.commit_in_flight and guarantee is not Guarantee.AT_LEAST_ONCE:
        message = f"needs at-least-once: {guarantee.value} commits with nothing in flight"
        reader.problem("task.async.commit", message, "true")
    if not guarantee.transactional:
        return
    limit = f"< task.transaction.timeout.ms ({timeout_ms}) with {guarantee.value}"
    if not 0 < task.commit_ms < timeout_ms:
        reader.problem(_COMMIT, f"({task.commit_ms}) must be > 0 and {limit}")
    if asynchronous.callback_timeout_ms >= timeout_ms:
        reader.problem("task.callback.timeout.ms", f"({asynchronous.callback_timeout_ms}) must be {limit}")
    if not task.state_transactions:
        reader.problem("task.state.transactions", f"must be true with {guarantee.value}", "false")


def _check_waits(
    reader: Reader, errors: ErrorConfig, guarantee: Guarantee, commit_ms: int, transaction_timeout_ms: int
) -> None:
    """Note policies that the guarantee forbids, such as pauses as long as a transaction; warn of gaps in the policy of
    produce."""
    produce = errors.policies[Stage.PRODUCE]
    if produce.then is not Action.FAIL:
        where = skipping_key(reader.values, Stage.PRODUCE)
        reader.warn(
            f"{where}: only records that their stream refuses are skipped; any other failed send repeats the work "
            "since the last commit"
        )
    if produce.retries and guarantee is Guarantee.AT_MOST_ONCE:
        where = POLICY_KEYS[Stage.PRODUCE]
        message = "retry needs a guarantee that repeats inputs, at-most-once drops them"
        reader.problem(where, message, reader.values.get(where))
    if not guarantee.transactional:
        return
    # A message may start to wait right before a commit is due. An invalid commit interval is a separate problem.
    open_ms = commit_ms if 0 < commit_ms < transaction_timeout_ms else 0
    total_ms = round(sum(errors.policies[Stage.PROCESS].pauses_s()) * 1000)
    if total_ms and total_ms + open_ms >= transaction_timeout_ms:
        reader.problem(
            POLICY_KEYS[Stage.PROCESS],
            f"the sum of all pauses ({total_ms} ms) and task.commit.ms ({open_ms}) must be < "
            f"task.transaction.timeout.ms ({transaction_timeout_ms}) with {guarantee.value}",
        )
