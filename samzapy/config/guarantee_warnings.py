"""Warns of everything in a job that weakens its `task.guarantee`.

The warnings are computed before the start. `samzapy check` lists them, a run prints them at its start and shows them on
the status page. The containers count the messages that a warning applies to (`COUNTS`); the status page and the last
line of a run show the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from samzapy.api.event_time import ClockListenerTask, StateCheckpointTask
from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamDescription, SystemFactory, SystemSettings
from samzapy.api.task import (
    BatchTask,
    DrainListenerTask,
    EndOfStreamListenerTask,
    TimerTask,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.config.error_policy import POLICY_KEYS, Action, Stage, skipping_key
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import FILE_CHECKPOINTS
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.task import Guarantee, TaskConfig

#: The groups of metrics with the counters of `COUNTS`.
GUARANTEE, ERRORS = "guarantee", "errors"

#: Every counter that the end of a run reports, as `group.name`, with its meaning.
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
    """One weakness of the job's guarantee: the key that causes it, and the effect.

    `durability`: the warning concerns the storage of the data (copies, disks, memory), not this run.
    """

    key: str
    message: str
    durability: bool = False

    def __str__(self) -> str:
        return f"{self.key}: {self.message}"


def guarantee_warnings(
    config: JobConfig, factory_of: Callable[[SystemSettings], SystemFactory], task_class: type | None = None
) -> tuple[GuaranteeWarning, ...]:
    """The warnings that follow from the job file, from its systems (`factory_of` loads their factories) and, if it is
    known, from the task's class."""
    result = [*_commits(config.task), *_states(config.stores), *_errors(config), *_positions(config.streams)]
    result += _outside(config, factory_of)
    if task_class is not None:
        result += [*_without_ids(config, task_class), *_own_state(config.task.guarantee, task_class)]
    return (*result, *_keepers(config, factory_of))


def weak_copies(key: str, description: StreamDescription) -> Iterator[GuaranteeWarning]:
    """Warn of a topic with too few or unsafe copies; `key` is the topic's key in the job file."""
    topic = description.stream
    if description.replicas is None:
        return
    if description.replicas == 1:
        yield GuaranteeWarning(key, f"topic '{topic}' has 1 copy: it is lost with one broker's disk", True)
    elif description.config.get("min.insync.replicas") == "1":
        message = f"topic '{topic}' has min.insync.replicas=1: acknowledged records may be on one broker only"
        yield GuaranteeWarning(key, message, True)
    if description.hidden:
        message = f"topic '{topic}': its settings cannot be checked ({description.hidden})"
        yield GuaranteeWarning(key, message, True)
    elif description.config.get("unclean.leader.election.enable") == "true":
        message = (
            f"topic '{topic}' has unclean.leader.election.enable=true: a lagging copy may replace acknowledged records"
        )
        yield GuaranteeWarning(key, message, True)


def counts_in_words(counts: Mapping[str, int]) -> list[str]:
    """The counters that are not 0, in words."""
    return [f"{counts[name]:,} {what}" for name, what in COUNTS.items() if counts.get(name)]


def _commits(settings: TaskConfig) -> Iterator[GuaranteeWarning]:
    if settings.checkpoint is None:
        yield GuaranteeWarning(
            "task.checkpoint.factory", "none: every start begins at offset.default, regardless of earlier runs"
        )
    if settings.commit_ms <= 0:
        what = "lost" if settings.guarantee is Guarantee.AT_MOST_ONCE else "repeated"
        since = "everything since the last commit that the task requested"
        message = f"{settings.commit_ms}: no periodic commits, so {since} is {what}"
        yield GuaranteeWarning("task.commit.ms", message)
    if settings.asynchronous.commit_in_flight:
        message = "stores may be ahead of the committed inputs: after a crash they hold some of them twice"
        yield GuaranteeWarning("task.async.commit", message)


def _states(stores: Mapping[str, StoreConfig]) -> Iterator[GuaranteeWarning]:
    for store in stores.values():
        if store.changelog is None and store.source is None:
            yield GuaranteeWarning(f"stores.{store.name}.changelog", "none: the store is empty at each start")
        if store.large_values.drop:
            message = "a put of a large value does nothing, counted as ignored-large-messages"
            yield GuaranteeWarning(f"stores.{store.name}.drop.large.messages", message)


def _errors(config: JobConfig) -> Iterator[GuaranteeWarning]:
    policies = config.task.errors
    for store in config.stores.values() if policies.undoes_changes else ():
        if store.object_cache_mode == "reference":
            message = (
                "reference: if a failed message or batch has changed a value in place, without a put, the change stays"
            )
            yield GuaranteeWarning(f"stores.{store.name}.object.cache.mode", message)
    for stage, policy in policies.policies.items():
        what = "messages" if stage in {Stage.DESERIALIZE, Stage.PROCESS} else "outputs"
        counted = f"counted as {ERRORS}.{stage.value}"
        if policy.then is Action.SKIP:
            message = f"{what} that fail are lost, {counted}.skipped"
            yield GuaranteeWarning(skipping_key(config.resolved, stage), message)
        elif policy.then is Action.DEAD_LETTER:
            message = f"{what} that fail go to {policies.dead_letters}, {counted}.dead-lettered"
            yield GuaranteeWarning(POLICY_KEYS[stage], message)
        if policy.ignored:
            names = ", ".join(sorted(policy.ignored))
            message = f"messages for which process raises {names} are lost, {counted}.skipped"
            yield GuaranteeWarning("task.ignored.exceptions", message)


def _positions(streams: Mapping[SystemStream, StreamConfig]) -> Iterator[GuaranteeWarning]:
    for stream in streams.values():
        if stream.reset_offset:
            system, name = stream.system_stream
            repeats = "repeats the messages still there"
            effect = repeats if stream.offset_default == "oldest" else "skips those that came meanwhile"
            message = f"every start begins at {stream.offset_default}: it {effect}, counted as guarantee.offsets-*"
            yield GuaranteeWarning(f"systems.{system}.streams.{name}.samza.reset.offset", message)


def _outside(config: JobConfig, factory_of: Callable[[SystemSettings], SystemFactory]) -> Iterator[GuaranteeWarning]:
    """Only exactly-once has outputs in its transaction. A task may send to any system, so every other system gets a
    warning."""
    inside = config.task.checkpoint.system if config.task.checkpoint else None
    if not config.task.guarantee.outputs_in_transaction:
        return
    for system, settings in config.systems.items():
        if system != inside and not factory_of(settings).traits(settings).read_only:
            message = (
                f"outputs there are outside the transaction on '{inside}' and at-least-once, "
                f"counted as {GUARANTEE}.outside-transaction"
            )
            yield GuaranteeWarning(f"systems.{system}.samza.factory", message)


#: The methods with outputs that come from no input.
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
    if issubclass(task_class, BatchTask) and config.task.batch.max_messages != 1:
        message = (
            "the ids of its outputs are those of their inputs, so receivers drop repetitions only if the outputs of "
            "an input do not depend on the ends of batches; with task.batch.max.messages=1 they cannot"
        )
        yield GuaranteeWarning("task.class", message)
    for kind, method in _WITHOUT_INPUT.items():
        if issubclass(task_class, kind):
            message = f"outputs of its {method} come from no input and have no id, so receivers cannot drop repetitions"
            yield GuaranteeWarning("task.class", message)


def _own_state(guarantee: Guarantee, task_class: type) -> Iterator[GuaranteeWarning]:
    """The state returns to its checkpoint, which is at or before the last commit."""
    if guarantee.transactional and issubclass(task_class, StateCheckpointTask):
        message = "outputs that it sends with a checkpoint of its state, as in on_checkpoint, may repeat after a crash"
        yield GuaranteeWarning("task.class", message)


def _keepers(config: JobConfig, factory_of: Callable[[SystemSettings], SystemFactory]) -> Iterator[GuaranteeWarning]:
    settings = config.task.checkpoint
    if settings is not None and settings.factory == FILE_CHECKPOINTS:
        message = "checkpoints are on one disk: a container that starts on another machine begins at offset.default"
        yield GuaranteeWarning("task.checkpoint.path", message, True)
    for name, system in config.systems.items():
        for leaf, message in factory_of(system).traits(system).risks:
            yield GuaranteeWarning(f"systems.{name}.{leaf}", message, True)
