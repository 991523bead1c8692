"""`task.*`: the class, its inputs, its guarantee and its timing."""

from __future__ import annotations

from dataclasses import dataclass, field

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.guarantee import Guarantee
from samzapy.config.reading.classes import CHOOSERS, ROUND_ROBIN
from samzapy.config.reading.keys import BOOLEAN, LIST, TEXT, Key, collect, integer, member, optional
from samzapy.config.reading.reader import Reader
from samzapy.config.streams.stream import StreamNames, is_pattern, parse_partitions
from samzapy.config.tasks.checkpoint import CheckpointConfig, parse_checkpoint
from samzapy.config.tasks.error_policy import ErrorConfig, check_waits, parse_errors
from samzapy.config.tasks.patterns import ENTRIES, InputPattern, check_refresh, parse_pattern
from samzapy.config.tasks.processing import AsyncConfig, BatchConfig, parse_async, parse_batch
from samzapy.plugins import PluginError, split_path


@dataclass(frozen=True)
class ChooserConfig:
    """`chooser_class`: class path of a MessageChooser, None for turns. `batch_size` 0: everything from one poll."""

    chooser_class: str | None = None
    batch_size: int = 0


@dataclass(frozen=True)
class TaskConfig:
    """Class, inputs, guarantee and timing of the tasks. Durations are milliseconds. `window_ms` <= 0: never.
    `commit_ms` <= 0: only on request and at the end. `same_failures`: attempts that may fail in the same way.
    `poll_batch_size` None: the default of the kind of task. `patterns`: the inputs that are not known before the
    systems are asked; none in a job whose inputs were resolved. `refresh_ms` None: the start alone resolves them."""

    task_class: str
    inputs: tuple[SystemStream, ...]
    broadcast_inputs: frozenset[SystemStreamPartition] = frozenset()
    window_ms: int = -1
    commit_ms: int = 60_000
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    transaction_timeout_ms: int = 60_000
    state_transactions: bool = True
    shutdown_ms: int = 30_000
    same_failures: int = 4
    max_idle_ms: int = 10
    poll_batch_size: int | None = None
    checkpoint: CheckpointConfig | None = None
    asynchronous: AsyncConfig = field(default_factory=AsyncConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    errors: ErrorConfig = field(default_factory=ErrorConfig)
    chooser: ChooserConfig = field(default_factory=ChooserConfig)
    patterns: tuple[InputPattern, ...] = ()
    refresh_ms: int | None = None

    def reads(self, stream: SystemStream) -> bool:
        """Whether the stream is an input, or would be one if it existed."""
        return stream in self.inputs or any(pattern.matches(stream) for pattern in self.patterns)


CLASS = Key("task.class", TEXT, None, "The StreamTask: `my.module:MyTask` or `my.module.MyTask`.", "required")
INPUTS = Key(
    "task.inputs",
    ENTRIES,
    (),
    "The streams to read: `system.stream`, a stream's id, or a regular expression for names, as `system.orders-.*`.",
    "required",
)
BROADCAST_INPUTS = Key(
    "task.broadcast.inputs",
    LIST,
    (),
    "Partitions that every task reads, such as `system.stream#3` or `system.stream#[0-2]`.",
)
WINDOW_MS = Key("task.window.ms", integer(), -1, "Milliseconds between calls of `window`. <= 0: never.")
COMMIT_MS = Key(
    "task.commit.ms",
    integer(),
    60_000,
    "Milliseconds between commits. <= 0: only on request and at the end.",
    "60000, or 10000 with exactly-once and effectively-once",
)
GUARANTEE = Key(
    "task.guarantee",
    member(Guarantee),
    Guarantee.AT_LEAST_ONCE,
    "The guarantee for outputs and positions after a crash.",
)
TRANSACTION_TIMEOUT_MS = Key(
    "task.transaction.timeout.ms",
    integer(1_000, 900_000),
    60_000,
    "Milliseconds after which the broker aborts a transaction. The broker's own limit is 900000 by default.",
)
STATE_TRANSACTIONS = Key(
    "task.state.transactions",
    BOOLEAN,
    True,
    "Whether to write changelogs and checkpoints in a transaction. Without it, state may hold inputs twice, and "
    "may go back while two runs overlap. Effectively-once and exactly-once need it.",
)
SHUTDOWN_MS = Key(
    "task.shutdown.ms",
    integer(0),
    30_000,
    "Milliseconds for a graceful stop of all containers on Spark, and for the messages in flight of asynchronous tasks; "
    "after that the run fails. A local run waits for all other tasks without a limit.",
)
FAILURE_SAME_MAX = Key(
    "task.failure.same.max",
    integer(1, 1_000),
    4,
    "Number of failed attempts with the same exception at the same message after which the job ends. All retries "
    "count. A local run ends at the first.",
)
MAX_IDLE_MS = Key("task.max.idle.ms", integer(0), 10, "Milliseconds to wait for input when none is available.")
POLL_BATCH_SIZE = Key(
    "task.poll.batch.size",
    optional(integer(1, 10_000_000)),
    None,
    "Maximum number of records per poll of a system.",
    "2000, or 16000 for batch tasks",
)
CHOOSER_CLASS = Key(
    "task.chooser.class",
    CHOOSERS.kind,
    None,
    "The MessageChooser among partitions of equal priority: `my.module:MyChooser`; round-robin or Samza's "
    "RoundRobinChooserFactory for turns.",
    "turns",
)
CONSUMER_BATCH_SIZE = Key(
    "task.consumer.batch.size",
    integer(0, 10_000_000),
    0,
    "Number of messages from one partition before the next partition has its turn. 0: all messages of a poll.",
)
KEYS = collect(globals())


def parse_task(reader: Reader, names: StreamNames) -> TaskConfig:
    """Read `task.*`, with inputs resolved to system streams, checkpoints and error policies."""
    (inputs, patterns), broadcast = _inputs(reader, names), _broadcast(reader, names)
    input_systems = {stream.system for stream in inputs} | {ssp.system for ssp in broadcast}
    input_systems |= {pattern.stream.system for pattern in patterns}
    kept = parse_checkpoint(reader, names.default_system, input_systems, names.systems)
    task = TaskConfig(
        task_class=_task_class(reader),
        inputs=inputs,
        broadcast_inputs=broadcast,
        window_ms=reader.get(WINDOW_MS),
        commit_ms=_commit_ms(reader),
        guarantee=reader.get(GUARANTEE),
        transaction_timeout_ms=reader.get(TRANSACTION_TIMEOUT_MS),
        state_transactions=reader.get(STATE_TRANSACTIONS),
        shutdown_ms=reader.get(SHUTDOWN_MS),
        same_failures=reader.get(FAILURE_SAME_MAX),
        max_idle_ms=reader.get(MAX_IDLE_MS),
        poll_batch_size=reader.get(POLL_BATCH_SIZE),
        checkpoint=kept,
        asynchronous=parse_async(reader, reader.get(GUARANTEE), reader.get(TRANSACTION_TIMEOUT_MS)),
        batch=parse_batch(reader),
        errors=parse_errors(reader, names),
        chooser=parse_chooser(reader),
        patterns=patterns,
        refresh_ms=check_refresh(reader, checkpoints=kept is not None),
    )
    _check_commit_interval(reader, task)
    check_waits(reader, task.errors, task.guarantee, task.commit_ms, task.transaction_timeout_ms)
    return task


_TRANSACTIONAL_COMMIT_MS = 10_000


def _commit_ms(reader: Reader) -> int:
    """The given interval, else the guarantee's default: readers see the records of a transaction only at its end."""
    if COMMIT_MS.name not in reader.values and reader.get(GUARANTEE).transactional:
        return _TRANSACTIONAL_COMMIT_MS
    return reader.get(COMMIT_MS)


def _task_class(reader: Reader) -> str:
    path = reader.require(CLASS, "my.module:MyTask")
    if path:
        try:
            split_path(path)
        except PluginError:
            reader.problem(CLASS.name, "expected an importable class like my.module:MyTask", path)
    return path


def _inputs(reader: Reader, names: StreamNames) -> tuple[tuple[SystemStream, ...], tuple[InputPattern, ...]]:
    """The inputs that are named, and the patterns of the others."""
    given = reader.get(INPUTS)
    if not given and not reader.is_broken(INPUTS.name):
        reader.problem(INPUTS.name, "required, e.g. kafka.page-views")
    found: dict[SystemStream, None] = {}
    patterns: dict[SystemStream, InputPattern] = {}
    for name in given:
        stream = names.find_input(reader, INPUTS.name, name)
        if stream in found or stream in patterns:
            reader.warn(f"{INPUTS.name}: {stream} is listed twice")
        elif stream is not None and is_pattern(stream.stream):
            pattern = parse_pattern(reader, INPUTS.name, name, stream, name if name in names.ids else None)
            patterns |= {} if pattern is None else {stream: pattern}
        elif stream is not None:
            found[stream] = None
    return tuple(found), tuple(patterns.values())


def _broadcast(reader: Reader, names: StreamNames) -> frozenset[SystemStreamPartition]:
    key = BROADCAST_INPUTS.name
    found: set[SystemStreamPartition] = set()
    for entry in reader.get(BROADCAST_INPUTS):
        named = parse_partitions(entry)
        if named is None:
            reader.problem(key, "expected system.stream#3 or system.stream#[0-2]", entry)
            continue
        name, numbers = named
        if not numbers:
            reader.problem(key, f"partition range {numbers.start}-{numbers.stop - 1} is empty", entry)
        stream = names.find(reader, key, name)
        if stream is not None:
            found.update(SystemStreamPartition(*stream, partition) for partition in numbers)
    return frozenset(found)


def _check_commit_interval(reader: Reader, task: TaskConfig) -> None:
    if task.guarantee.transactional and not 0 < task.commit_ms < task.transaction_timeout_ms:
        reader.problem(
            COMMIT_MS.name,
            f"({task.commit_ms}) must be > 0 and < {TRANSACTION_TIMEOUT_MS.name} ({task.transaction_timeout_ms}) "
            f"with {task.guarantee.value}",
        )
    if task.guarantee.transactional and not task.state_transactions:
        reader.problem(STATE_TRANSACTIONS.name, f"must be true with {task.guarantee.value}", "false")


def parse_chooser(reader: Reader) -> ChooserConfig:
    """Read how the next messages are chosen."""
    chosen = reader.get(CHOOSER_CLASS)
    return ChooserConfig(None if chosen == ROUND_ROBIN else chosen, reader.get(CONSUMER_BATCH_SIZE))
