"""What makes `task.guarantee` mean less than it says, as data: computed before the start, shown wherever the job is.

`samzapy check` lists it, a run says it at its start and on the status page, and the containers count what comes of it
(`COUNTS`), which the status page and a run's last line tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from samzapy.api.event_time import ClockListenerTask, StateCheckpointTask
from samzapy.api.system import StreamDescription, SystemFactory, SystemSettings
from samzapy.api.task import (
    DrainListenerTask,
    EndOfStreamListenerTask,
    TimerTask,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import FILE_CHECKPOINTS
from samzapy.config.stores import changelogs, values
from samzapy.config.stores.store import OBJECT_CACHE_MODE
from samzapy.config.streams import systems
from samzapy.config.streams.stream import RESET_OFFSET
from samzapy.config.tasks import asynchronous, checkpoint, error_policy, task
from samzapy.config.tasks.error_policy import Action, Stage

#: The metrics' groups whose counters tell what a promise did not cover.
GUARANTEE, ERRORS = "guarantee", "errors"

#: Every counter that is told at the end of a run, as `group.name`, with what it counts.
COUNTS: Mapping[str, str] = {
    "errors.deserialize.skipped": "inputs skipped (deserialize)",
    "errors.deserialize.dead-lettered": "inputs dead-lettered (deserialize)",
    "errors.process.skipped": "inputs skipped (process)",
    "errors.process.dead-lettered": "inputs dead-lettered (process)",
    "errors.serialize.skipped": "outputs skipped (serialize)",
    "errors.serialize.dead-lettered": "outputs dead-lettered (serialize)",
    "errors.produce.skipped": "outputs skipped (produce)",
    "errors.produce.dead-lettered": "outputs dead-lettered (produce)",
    "guarantee.outside-transaction": "outputs outside the transaction",
    "guarantee.offsets-skipped": "offsets after the checkpoint skipped",
    "guarantee.offsets-repeated": "offsets before the checkpoint repeated",
    "guarantee.sink-offsets-missing": "partitions without an offset in their sink",
    "guarantee.stores-rebuilt": "local stores set aside and rebuilt",
}


@dataclass(frozen=True)
class GuaranteeWarning:
    """One way in which the job's promise is weaker than its guarantee: the key that makes it so, and what it does.

    `durability`: it is about what keeps the data (copies, disks, memory), so it says nothing about this run.
    """

    key: str
    message: str
    durability: bool = False

    def __str__(self) -> str:
        return f"{self.key}: {self.message}"


def guarantee_warnings(
    config: JobConfig, factory_of: Callable[[SystemSettings], SystemFactory], task_class: type | None = None
) -> tuple[GuaranteeWarning, ...]:
    """Everything that weakens the guarantee: the job file, its systems (`factory_of` loads their factories), and its task's
    class, if it is known."""
    found = [*_commits(config), *_states(config), *_errors(config), *_positions(config)]
    found += _outside(config, factory_of)
    if task_class is not None:
        found += [*_without_ids(config, task_class), *_own_state(config, task_class)]
    return (*found, *_keepers(config, factory_of))


def weak_copies(key: str, description: StreamDescription) -> Iterator[GuaranteeWarning]:
    """What the copies of a topic that the job depends on do not survive; `key` is the topic's in the job file."""
    topic = description.stream
    if description.replicas is None:
        return
    if description.replicas == 1:
        yield GuaranteeWarning(key, f"topic '{topic}' has 1 copy: what it holds is lost with one broker's disk", True)
    elif description.config.get("min.insync.replicas") == "1":
        message = f"topic '{topic}' has min.insync.replicas=1: what is acknowledged may be on one broker only"
        yield GuaranteeWarning(key, message, True)
    if description.config.get("unclean.leader.election.enable") == "true":
        message = (
            f"topic '{topic}' has unclean.leader.election.enable=true: a lagging copy may replace what was acknowledged"
        )
        yield GuaranteeWarning(key, message, True)


def late_rows(prefix: str, description: StreamDescription, guarantee: Guarantee) -> Iterator[GuaranteeWarning]:
    """What a table may hold that is not read, or not under the same offset; `prefix` is that of its keys in the job file."""
    if description.config.get("database.order.kind") != "timestamp":
        return
    key, order = f"{prefix}database.order.by", description.config["database.order.by"]
    message = f"a row that is committed later than database.safety.lag.ms after the second in its {order} is not read"
    yield GuaranteeWarning(key, message)
    if guarantee.outputs_have_ids:
        message = (
            "rows are numbered within their second: where one of them is changed or deleted after a crash and before the "
            "restart, outputs of others repeat under other ids"
        )
        yield GuaranteeWarning(key, message)


def told(counts: Mapping[str, int]) -> list[str]:
    """The counters that are not 0, in words."""
    return [f"{counts[name]:,} {what}" for name, what in COUNTS.items() if counts.get(name)]


def _commits(config: JobConfig) -> Iterator[GuaranteeWarning]:
    settings = config.task
    if settings.checkpoint is None:
        yield GuaranteeWarning(
            checkpoint.FACTORY.name, "none: every start begins at offset.default, whatever was done before"
        )
    if settings.commit_ms <= 0:
        what = "lost" if settings.guarantee is Guarantee.AT_MOST_ONCE else "repeated"
        message = f"{settings.commit_ms}: without a timer, all since the last commit the task asked for is {what}"
        yield GuaranteeWarning(task.COMMIT_MS.name, message)
    if settings.asynchronous.commit_in_flight:
        message = "stores may be ahead of the committed inputs: after a crash they hold some of them twice"
        yield GuaranteeWarning(asynchronous.ASYNC_COMMIT.name, message)


def _states(config: JobConfig) -> Iterator[GuaranteeWarning]:
    for store in config.stores.values():
        if store.changelog is None and store.source is None:
            yield GuaranteeWarning(changelogs.CHANGELOG.at(store=store.name), "none: the store is empty at each start")
        if store.large_values.drop:
            message = "a put of a large value is left out, counted as ignored-large-messages"
            yield GuaranteeWarning(values.DROP_LARGE.at(store=store.name), message)


def _errors(config: JobConfig) -> Iterator[GuaranteeWarning]:
    policies = config.task.errors
    if not policies.policies[Stage.PROCESS].only_fails:
        yield from _changes_that_stay(config)
    for stage, policy in policies.policies.items():
        key = error_policy.POLICIES[stage].name
        what = "messages" if stage in {Stage.DESERIALIZE, Stage.PROCESS} else "outputs"
        counted = f"counted as {ERRORS}.{stage.value}"
        if policy.then is Action.SKIP:
            yield GuaranteeWarning(_skipping_key(config, stage), f"{what} that fail are lost, {counted}.skipped")
        elif policy.then is Action.DEAD_LETTER:
            yield GuaranteeWarning(key, f"{what} that fail go to {policies.dead_letters}, {counted}.dead-lettered")
        if policy.ignored:
            names = ", ".join(sorted(policy.ignored))
            message = f"messages whose process raises {names} are lost, {counted}.skipped"
            yield GuaranteeWarning(error_policy.IGNORED_EXCEPTIONS.name, message)


def _changes_that_stay(config: JobConfig) -> Iterator[GuaranteeWarning]:
    for name, store in config.stores.items():
        if store.object_cache_mode == "reference":
            message = "reference: what a message that fails has changed in a value itself, instead of by a put, stays"
            yield GuaranteeWarning(OBJECT_CACHE_MODE.at(store=name), message)


def _skipping_key(config: JobConfig, stage: Stage) -> str:
    """The key that says so: ours, or Samza's."""
    key = error_policy.POLICIES[stage].name
    if key in config.resolved:
        return key
    return error_policy.IGNORED_EXCEPTIONS.name if stage is Stage.PROCESS else error_policy.DROP[stage].name


def _positions(config: JobConfig) -> Iterator[GuaranteeWarning]:
    for stream in config.streams.values():
        if stream.reset_offset:
            name = stream.system_stream
            skips = "repeats what is still there" if stream.offset_default == "oldest" else "skips what came meanwhile"
            key = RESET_OFFSET.otherwise[0].format(system=name.system, physical=name.stream)
            yield GuaranteeWarning(
                key, f"every start begins at {stream.offset_default}: it {skips}, counted as guarantee.offsets-*"
            )


def _outside(config: JobConfig, factory_of: Callable[[SystemSettings], SystemFactory]) -> Iterator[GuaranteeWarning]:
    """Only exactly-once has outputs in its transaction; which systems a task will send to, only the task knows."""
    inside = config.task.checkpoint.system if config.task.checkpoint else None
    if not config.task.guarantee.outputs_in_transaction:
        return
    for system, settings in config.systems.items():
        if system != inside and not factory_of(settings).read_only:
            message = (
                f"what is sent there is outside the transaction on '{inside}' and at-least-once, "
                f"counted as {GUARANTEE}.outside-transaction"
            )
            yield GuaranteeWarning(systems.FACTORY.at(system=system), message)


#: The methods that send what comes from no input.
_WITHOUT_INPUT: Mapping[type, str] = {
    WindowableTask: "window",
    TimerTask: "on_timer",
    ClockListenerTask: "on_clock",
    WatermarkListenerTask: "on_watermark",
    DrainListenerTask: "on_drain",
    EndOfStreamListenerTask: "on_end_of_stream",
}


def _without_ids(config: JobConfig, task_class: type) -> Iterator[GuaranteeWarning]:
    if not config.task.guarantee.outputs_have_ids:
        return
    for kind, method in _WITHOUT_INPUT.items():
        if issubclass(task_class, kind):
            message = (
                f"what its {method} sends comes from no input and has no id, so that no receiver can drop repetitions"
            )
            yield GuaranteeWarning(task.CLASS.name, message)


def _own_state(config: JobConfig, task_class: type) -> Iterator[GuaranteeWarning]:
    """The state goes back to its checkpoint, which is at or before the last commit."""
    if config.task.guarantee.transactional and issubclass(task_class, StateCheckpointTask):
        message = "what it sends with a checkpoint of its state, as in on_checkpoint, may be repeated after a crash"
        yield GuaranteeWarning(task.CLASS.name, message)


def _keepers(config: JobConfig, factory_of: Callable[[SystemSettings], SystemFactory]) -> Iterator[GuaranteeWarning]:
    settings = config.task.checkpoint
    if settings is not None and settings.factory == FILE_CHECKPOINTS:
        message = "checkpoints are on one disk: a container that starts where it is not begins at offset.default"
        yield GuaranteeWarning(checkpoint.PATH.name, message, True)
    for name, system in config.systems.items():
        for leaf, message in factory_of(system).durability(system):
            yield GuaranteeWarning(f"systems.{name}.{leaf}", message, True)
