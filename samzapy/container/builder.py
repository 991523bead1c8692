"""What a container is made of, made from the job's configuration; when it is made is the lifecycle's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord
from samzapy.api.context import ContainerContext, Context, JobContext
from samzapy.api.engine import StorageEngineFactory
from samzapy.api.event_time import ClockListenerTask, StateCheckpointTask
from samzapy.api.lease import ContainerLease
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.serde import Serde
from samzapy.api.sink import TaskAttempt
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemProducer
from samzapy.api.task import AnyTask, StreamTask
from samzapy.checkpoint.adopted import Adopted
from samzapy.checkpoint.startpoints import from_json
from samzapy.checkpoint.states import store_factory
from samzapy.clock import Clock
from samzapy.config.guarantee import Guarantee
from samzapy.config.guarantee_warnings import GUARANTEE
from samzapy.config.job import JobConfig
from samzapy.config.tasks.error_policy import Action, Stage
from samzapy.container.asynchronous.event_loop import EventLoop
from samzapy.container.asynchronous.executor import AsynchronousExecutor
from samzapy.container.asynchronous.task_instance import AsyncTaskInstance
from samzapy.container.commit.at_most_once import AtMostOnce
from samzapy.container.commit.protocol import CommitProtocol, CommitSettings
from samzapy.container.commit.state import AwaitedState, StateRecords, StateWriter, TransactionalState
from samzapy.container.errors.collectors import SizingCollector, TolerantCollector
from samzapy.container.errors.dead_letters import DeadLetters, RawRecords
from samzapy.container.errors.recovery import InterruptiblePause, PolicyLog, Recovery
from samzapy.container.errors.task_instance import TolerantTaskInstance
from samzapy.container.event_time.clock import EventClock
from samzapy.container.event_time.control_messages import ControlDecoder, ControlSender
from samzapy.container.event_time.timers import TaskTimers
from samzapy.container.inputs.decode import Decoder
from samzapy.container.inputs.input_builder import InputBuilder, heads_of, logs_of
from samzapy.container.inputs.inputs import Inputs
from samzapy.container.inputs.starting_offsets import (
    Offsets,
    committed_changelogs,
    count_moves,
    first_offsets,
    follow,
    of_inputs,
    own_changelog_ends,
)
from samzapy.container.limits import RecordLimits
from samzapy.container.outputs.collector import BufferingCollector, serdes_of_outputs
from samzapy.container.outputs.output_ids import OutputIds
from samzapy.container.outputs.producers import TaskProducers
from samzapy.container.run_loop import LoopControl, LoopPeriods, RunLoop, TaskExecutor
from samzapy.container.sideinputs.filling import fill_stores
from samzapy.container.sideinputs.side_inputs import SideInputs
from samzapy.container.supervision.job_ownership import Ownership
from samzapy.container.sweeping import sweep_in_background
from samzapy.container.synchronous import SynchronousExecutor
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.container.tasks.sinks import open_sinks
from samzapy.container.tasks.state_checkpoints import KeptStateCheckpoints
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.job.model import ContainerModel, TaskModel
from samzapy.storage.opening import TaskSettings
from samzapy.storage.startup import begin_all_stores, restore_together
from samzapy.storage.task_stores import TaskStores
from samzapy.system.clients import SystemClients


@dataclass(frozen=True)
class Plugins:
    """What the job file names: its stores' engines, its serdes, by name, and its task."""

    engines: Mapping[str, StorageEngineFactory]
    serdes: Mapping[str, Serde]
    task_class: type[AnyTask]


class ContainerBuilder:
    """Makes the tasks, stores, inputs and the committer of one container, and closes the clients they share."""

    def __init__(
        self,
        config: JobConfig,
        model: ContainerModel,
        clients: SystemClients,
        checkpoints: CheckpointManager,
        plugins: Plugins,
        metrics: MetricsRegistry,
        transactions: str | None,
    ) -> None:
        """`transactions`: the system whose transactions carry the state, None for none."""
        self.config = config
        self.model = model
        self.metrics = metrics
        self._clients = clients
        self._checkpoints = checkpoints
        self._engines = plugins.engines
        self._serdes = plugins.serdes
        self._task_class = plugins.task_class
        self._control = ControlSender(config, clients, model.tasks_of_job or len(model.tasks))
        self._producers = TaskProducers(config, model.id, clients, metrics, transactions)
        self._followed: dict[str, dict[SystemStreamPartition, str]] = {}
        self._output_serdes = serdes_of_outputs(config, self._stream_serdes)
        self._raw = RawRecords() if config.task.errors.writes_letters else None

    def take_over(self, must_own: Callable[[], object]) -> None:
        """End what the container's predecessor may still be doing, where transactions can. `must_own` raises when the
        container is no longer this attempt's."""
        self._producers.take_over(must_own)

    def purge(self) -> None:
        """Throw away what is queued and not sent, from any thread: the container is no longer this attempt's."""
        self._clients.purge()

    def read_checkpoints(self, ownership: Ownership) -> dict[str, Checkpoint | None]:
        """The last checkpoint of every task, None where there is none. Raises JobTakenOver."""
        ownership.check(self._checkpoints)
        found = self._checkpoints.read_all(task.name for task in self.model.tasks)
        return {name: of_inputs(self.config, name, checkpoint) for name, checkpoint in found.items()}

    def starting_offsets(self, checkpoints: Mapping[str, Checkpoint | None], now_ms: int) -> dict[str, Offsets]:
        """Where every task starts; what that skips or repeats is counted. Raises OffsetOutOfRange, UnknownStream."""
        logs = logs_of(self.model.ssps, self._clients)
        written = from_json(self._checkpoints.read_record(JobRecord.STARTPOINTS)) if self.config.startpoints else ()
        starts: dict[str, Offsets] = {}
        for task in self.model.tasks:
            checkpoint = checkpoints[task.name]
            told = follow(self.config, written, task, checkpoint, logs, self._clients.admin, now_ms)
            self._followed[task.name] = {ssp: each.id for ssp, each in told.items()}
            starts[task.name] = first_offsets(self.config, task, checkpoint, told, logs, self._clients.admin)
            if checkpoint is not None:
                count_moves(checkpoint.input_offsets, starts[task.name], self.metrics)
        return starts

    def open_stores(
        self,
        checkpoints: Mapping[str, Checkpoint | None],
        starts: Mapping[str, Offsets],
        clock: Clock,
        on_restore: Callable[[str, int, int], None],
        should_stop: Callable[[], bool],
    ) -> dict[str, TaskStores]:
        """The stores of every task, restored; `on_restore` hears of `task/store`, offsets read, offsets to read."""
        adopted = Adopted.from_json(self._checkpoints.read_record(JobRecord.ADOPTED))
        began = clock.monotonic()
        openings = begin_all_stores(
            self.config,
            [self._stores_of(task, checkpoints[task.name], starts[task.name], adopted) for task in self.model.tasks],
            serdes=self._serdes,
            engines=self._engines,
            admin_of=self._clients.admin,
            clock=clock,
        )
        stores = restore_together(openings, self._clients.consumer, clock, on_restore, should_stop)
        sweep_in_background(self.config, [task.name for task in self.model.tasks], clock)
        self.metrics.gauge("restore", "seconds").set(clock.monotonic() - began)
        rebuilt = sum(bool(result.reason) for opened in stores for result in opened.restored.values())
        self.metrics.counter(GUARANTEE, "stores-rebuilt").inc(rebuilt)
        return {task.name: opened for task, opened in zip(self.model.tasks, stores, strict=True)}

    def _stores_of(
        self, task: TaskModel, checkpoint: Checkpoint | None, starts: Offsets, adopted: Adopted
    ) -> TaskSettings:
        return TaskSettings(
            task.name,
            task.changelog_partition,
            len(self.model.tasks),
            committed_changelogs(self.config, checkpoint),
            task.ssps - self.config.task.broadcast_inputs,
            starts,
            own_changelog_ends(self.config, checkpoint),
            adopted.end,
        )

    def fill_stores(
        self,
        stores: Mapping[str, TaskStores],
        clock: Clock,
        on_restore: Callable[[str, int, int], None],
        should_stop: Callable[[], bool],
    ) -> SideInputs | None:
        """Fill the stores that have streams instead of a changelog; what follows them from then on, None if none does."""

        def decoder_of(stream: SystemStream) -> Decoder:
            decoder = Decoder(*self._stream_serdes(stream))
            return ControlDecoder(decoder) if self.config.stream(stream).intermediate else decoder

        return fill_stores(self.config, stores, decoder_of, self._clients.consumer, clock, on_restore, should_stop)

    def task(
        self, model: TaskModel, stores: TaskStores, offsets: Offsets, clock: Clock, should_stop: Callable[[], bool]
    ) -> TaskInstance:
        """A new instance of the user's class with everything around it."""
        name, ids = model.name, self._output_ids(model.name)
        outputs = self._producers.outputs
        task = self._task_class()
        event_clock = self._event_clock(task, offsets, clock)
        if self.config.task.errors.only_fails and isinstance(task, StreamTask):
            collector = BufferingCollector(self._output_serdes, outputs)
            collector.control = self._control.of_task(name)
            return TaskInstance(name, task, stores, collector, offsets, event_clock, ids=ids)
        tolerant = self._tolerant_collector(outputs, self._recovery(name, offsets, clock, should_stop))
        tolerant.control = self._control.of_task(name)
        if isinstance(task, StreamTask):
            return TolerantTaskInstance(name, task, stores, tolerant, offsets, event_clock, ids=ids)
        return AsyncTaskInstance(
            name,
            task,
            stores,
            tolerant,
            offsets,
            event_clock,
            events=self.events,
            config=self.config.task.asynchronous,
            clock=clock,
            ids=ids,
        )

    def _event_clock(self, task: AnyTask, offsets: Offsets, clock: Clock) -> EventClock:
        intermediate = {ssp for ssp in offsets if self.config.stream(ssp.system_stream).intermediate}
        exact = self.config.timers_store is not None or isinstance(task, ClockListenerTask)
        return EventClock(offsets, clock, self.config.clock.idle_ms, intermediate=intermediate, exact=exact)

    @cached_property
    def events(self) -> EventLoop:
        """What asynchronous tasks wait in; made by the thread that runs them."""
        return EventLoop()

    def run_loop(
        self,
        tasks: Sequence[TaskInstance],
        inputs: Inputs,
        committer: CommitProtocol,
        control: LoopControl,
        clock: Clock,
    ) -> RunLoop:
        """What runs the tasks."""
        task = self.config.task
        return RunLoop(
            tasks,
            inputs,
            committer,
            control,
            clock,
            LoopPeriods(task.window_ms, task.commit_ms),
            self._executor(tasks),
        )

    def _executor(self, tasks: Sequence[TaskInstance]) -> TaskExecutor:
        task = self.config.task
        asynchronous = [each for each in tasks if isinstance(each, AsyncTaskInstance)]
        if not asynchronous:
            return SynchronousExecutor()
        return AsynchronousExecutor(
            asynchronous,
            self.events,
            shutdown_ms=task.shutdown_ms,
            commit_max_delay_ms=task.asynchronous.commit_max_delay_ms,
        )

    def _output_ids(self, task_name: str) -> OutputIds | None:
        if not self.config.task.guarantee.outputs_have_ids:
            return None
        job = self.config.name, self.config.id
        return OutputIds(job, task_name, self.config.task.broadcast_inputs, self._clients.stream_id)

    def _recovery(self, name: str, offsets: Offsets, clock: Clock, should_stop: Callable[[], bool]) -> Recovery:
        errors, letters = self.config.task.errors, None
        if self._raw is not None and errors.dead_letters is not None:
            self._raw.follow(offsets)
            ids = self._output_ids(name)
            letters = DeadLetters(errors.dead_letters, name, self._raw, clock, ids=ids)
        return Recovery(name, errors, self.metrics, InterruptiblePause(should_stop), PolicyLog(clock), letters)

    def _tolerant_collector(
        self, producer_of: Callable[[str], SystemProducer], recovery: Recovery
    ) -> TolerantCollector:
        if recovery.policy(Stage.PRODUCE).then is Action.FAIL:
            return TolerantCollector(self._output_serdes, producer_of, recovery)
        return SizingCollector(self._output_serdes, producer_of, recovery, RecordLimits(self._clients).of)

    def clocks(self, task: TaskInstance, checkpoint: Checkpoint | None, lease: ContainerLease, clock: Clock) -> None:
        """Give the task the startpoints it follows, and the checkpoints of a state of its own."""
        task.startpoints = {**(checkpoint.startpoints if checkpoint else {}), **self._followed[task.name]}
        task.checkpoints = state_checkpoints_of(self.config, task, self._clients, lease, clock, checkpoint)

    def init(self, task: TaskInstance, checkpoint: Checkpoint | None, epoch: int, clock: Clock) -> None:
        """Call the task's `init` with its context, and open the sinks it registers there."""
        stores = task.stores.as_seen(task.visible_stores)
        timers = stores[self.config.timers_store] if self.config.timers_store else None
        told = {ssp for ssp in task.offsets if self.config.stream(ssp.system_stream).reset_offset}
        told |= self._followed[task.name].keys()
        context = ContainerTaskContext(
            task.name, stores, task.offsets, self.metrics, epoch, task.checkpoints, told, timers
        )
        job = JobContext(self.config.name, self.config.id, self.config.resolved)
        before = dict(task.offsets)
        task.init(Context(job, ContainerContext(self.model.id, self.metrics), context))
        context.seal()
        task.started(context.replayed)
        if checkpoint is not None:
            count_moves(before, task.committable(), self.metrics)
        task.event_clock.resume(checkpoint)
        if timers is not None:
            task.timers = TaskTimers(timers, task.event_clock, clock, task.requests.interrupt)
        task.sinks = tuple(context.sinks)
        if task.sinks:
            attempt = TaskAttempt(self.config.job_name, task.name, epoch, context.ssps)
            lacking = open_sinks(self.config, task, attempt, checkpoint, context.moved)
            self.metrics.counter(GUARANTEE, "sink-offsets-missing").inc(lacking)

    def committer(
        self, epoch: int, clock: Clock, must_own: Callable[[], object], confirm: Callable[[], object]
    ) -> CommitProtocol:
        """What commits the container's tasks; `must_own` raises when it is known that they are somebody else's, `confirm`
        asks."""
        guarantee = self.config.task.guarantee
        inside = self._producers.system if guarantee.outputs_in_transaction else None
        settings = CommitSettings(self._state_writer(confirm), epoch, clock, self.metrics, must_own, inside)
        return AtMostOnce(settings) if guarantee is Guarantee.AT_MOST_ONCE else CommitProtocol(settings)

    def _state_writer(self, confirm: Callable[[], object]) -> StateWriter:
        changelogs = frozenset(store.changelog.system for store in self.config.stores.values() if store.changelog)
        records = StateRecords(self._checkpoints, self._producers.state, changelogs, self._clients.admin, confirm)
        transaction = self._producers.transaction
        return AwaitedState(records) if transaction is None else TransactionalState(records, transaction)

    def inputs(
        self,
        ends: Mapping[SystemStreamPartition, int],
        clock: Clock,
        tasks: Sequence[TaskInstance],
        side: SideInputs | None = None,
    ) -> Inputs:
        """Consumers and decoders of every input of the container; nothing is fetched yet."""
        made = InputBuilder(self.config, self.model.ssps, self._clients, self._stream_serdes, clock, self.metrics)
        return made.inputs(ends, tasks, self._raw, side)

    def heads(self) -> dict[SystemStreamPartition, int]:
        """Where every input of the container ends now."""
        return heads_of(self.model.ssps, self._clients)

    def close(self) -> None:
        """Close the clients, and what asynchronous tasks wait in."""
        with ExitStack() as closing:
            closing.callback(self._clients.close)
            closing.callback(self._checkpoints.close)
            if "events" in vars(self):
                closing.callback(self.events.close)

    def _stream_serdes(self, stream: SystemStream) -> tuple[Serde | None, Serde | None]:
        config = self.config.stream(stream)
        key, message = config.key_serde, config.msg_serde
        return self._serdes[key] if key else None, self._serdes[message] if message else None


def state_checkpoints_of(
    config: JobConfig,
    task: TaskInstance,
    clients: SystemClients,
    lease: ContainerLease,
    clock: Clock,
    checkpoint: Checkpoint | None,
) -> KeptStateCheckpoints | None:
    """None for a task that keeps no state of its own. `lease` knows the job's checkpoint clock; `checkpoint` is the
    task's last. Raises ConfigError."""
    if not isinstance(task.task, StateCheckpointTask):
        return None
    return KeptStateCheckpoints(
        task.name,
        store_factory(config).store(config, task.name, clients),
        config.state_checkpoint.interval_ms,
        lambda: lease.checkpoint_clock,
        task.offsets,
        clock,
        committed=checkpoint is not None,
        reset=all(config.stream(ssp.system_stream).reset_offset for ssp in task.offsets),
    )
