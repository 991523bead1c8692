"""Makes the tasks of a container: the user's object, its collector, its stores and the processing of its messages.

A class that cannot run is refused; methods that are never called are warned of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from samzapy.api import task as api
from samzapy.api.collector import TaskAttempt
from samzapy.api.context import ContainerContext, Context, MetricsRegistry
from samzapy.api.event_time import ClockListenerTask, StateCheckpointTask
from samzapy.api.stream import SystemStream
from samzapy.api.task import AnyTask, BatchTask, StreamTask
from samzapy.checkpoint.states import state_checkpoints
from samzapy.clock import Clock, TimeBound
from samzapy.config.error_policy import Action, Stage
from samzapy.config.guarantee_warnings import GUARANTEE
from samzapy.config.job import JobConfig, own_streams
from samzapy.config.task import Guarantee
from samzapy.container.errors.processing import HalvingProcessing, SearchingProcessing, TolerantProcessing
from samzapy.container.errors.recovery import (
    CheckingCollector,
    Recovery,
    TolerantCollector,
    UndoJournal,
    interruptible_pause,
)
from samzapy.container.errors.user_failures import DeadLetters, HandledFailures, instance_of
from samzapy.container.event_time.clock import EventClock, TaskTimers
from samzapy.container.event_time.control_messages import ControlRecords, ControlSender
from samzapy.container.inputs.inputs import RawRecords
from samzapy.container.inputs.starting_offsets import Offsets, count_moves, still_valid
from samzapy.container.outputs.collector import BufferingCollector, Outbox, SerdesOf, serdes_of_outputs
from samzapy.container.outputs.output_ids import OutputIds, identified_batches, identified_process
from samzapy.container.outputs.producers import TaskProducers, record_limit
from samzapy.container.run_loop import TaskExecutor
from samzapy.container.tasks import synchronous
from samzapy.container.tasks.asynchronous import AsynchronousExecutor, AsyncMessages
from samzapy.container.tasks.context import ContainerTaskContext, CoordinatorRequests, KeptStateCheckpoints
from samzapy.container.tasks.in_flight import EventLoop, LoopThreadStore
from samzapy.container.tasks.task_instance import TaskInstance, TaskStart, UserSide
from samzapy.errors import ConfigError
from samzapy.job.lease import ContainerLease
from samzapy.job.planner import ContainerModel
from samzapy.metrics import UserMetrics
from samzapy.plugins import PluginError, load_class, load_name
from samzapy.serializers import TaskSerdes
from samzapy.storage.kv.forwarding import StoreLayer
from samzapy.storage.spec import StoreSpec
from samzapy.storage.store import TaskStores
from samzapy.system.clients import SystemClients

#: The stages at which messages of a batch may fail.
_OF_BATCHES = (Stage.PROCESS, Stage.SERIALIZE, Stage.PRODUCE)


@dataclass(frozen=True)
class Plugins:
    """The classes and objects that the job file names: the engine of each store, the serdes by name, and the task.
    `events` makes the event loop of asynchronous tasks; a test passes another one."""

    engines: Mapping[str, StoreSpec]
    serdes: TaskSerdes
    task_class: type[AnyTask]
    events: Callable[[], EventLoop] = EventLoop


class TaskBuilder:
    """Makes every task of one container, then the executor that runs them."""

    def __init__(
        self,
        config: JobConfig,
        model: ContainerModel,
        plugins: Plugins,
        clients: SystemClients,
        producers: TaskProducers,
        *,
        metrics: MetricsRegistry,
        serdes_of: SerdesOf,
        clock: Clock,
    ) -> None:
        self._config = config
        self._container_id = model.id
        self.kind = plugins.task_class
        self._new_events = plugins.events
        self._clients = clients
        self._producers = producers
        self._metrics = metrics
        self._clock = clock
        #: The failures of messages that a policy has handled, for the next report.
        self.handled = HandledFailures()
        self._job = replace(config.context, tasks=model.tasks_of_job or len(model.tasks))
        self._control = ControlSender(self._job.tasks, clients.admin, self._takes_control)
        self._serdes_of = serdes_of
        self._output_serdes = serdes_of_outputs(config.systems, own_streams(config), serdes_of)
        #: Keeps the polled batches for dead letters.
        self.raw = RawRecords()
        self._processing: dict[str, synchronous.Processing] = {}
        self._messages: list[AsyncMessages] = []

    def _takes_control(self, stream: SystemStream) -> bool:
        # An unknown system fails when its admin is asked for.
        return stream.system not in self._config.systems or self._config.stream(stream).intermediate

    def _sending_job(self, run_id: str, stream: SystemStream) -> str:
        """The job in the names of senders. Streams that connect steps of the job end in each run anew, so there it is
        this run of it: what another run has ended has not ended in this one."""
        name = self._config.job_name
        return f"{name}@{run_id}" if stream in self._config.repartitions else name

    def _control_of(self, name: str, start: TaskStart) -> ControlRecords:
        return self._control.of_task(name, partial(self._sending_job, start.run_id))

    def _type_of(self, stream: SystemStream) -> Any:
        serde = self._serdes_of(stream)[1]
        return None if serde is None else serde.object_type

    @cached_property
    def _events(self) -> EventLoop:
        # Made by the thread that runs the tasks.
        return self._new_events()

    def task(
        self, name: str, stores: TaskStores, start: TaskStart, lease: ContainerLease, should_stop: Callable[[], bool]
    ) -> TaskInstance:
        """A new instance of the user's class with everything around it. `lease` knows the job's checkpoint clock.

        Raises ConfigError, UnknownStream.
        """
        task: AnyTask = instance_of(self.kind, name)
        ids, journal, requests = self._output_ids(name), UndoJournal(), CoordinatorRequests()
        if isinstance(task, (StreamTask, BatchTask)):
            in_turn = self._collector(name, start, should_stop, requests)
            user = UserSide(task, in_turn, self._visible(task, stores, journal), requests=requests)
            built = self._instance(name, user, stores, start, lease)
            self._processing[name] = self._processing_of(built, in_turn, ids, journal)
            return built
        collector = self._tolerant_collector(name, start, should_stop, requests)
        visible, here = self._visible(task, stores, journal), self._events.is_here
        seen = {store: LoopThreadStore(store, item, here) for store, item in visible.items()}
        user = UserSide(task, collector, seen, requests=requests, finish=self._events.finish, in_order=False)
        built = self._instance(name, user, stores, start, lease)
        config = self._config.task.asynchronous
        seconds = self._metrics.histogram("process", "seconds", synchronous.SECONDS)
        self._messages.append(AsyncMessages(built, collector, journal, self._events, config, seconds, ids=ids))
        return built

    def init(self, task: TaskInstance, epoch: int) -> None:
        config, start, checkpoint, offsets = self._config, task.start, task.start.checkpoint, task.offsets
        metrics = UserMetrics(self._metrics)
        reset = {ssp for ssp in offsets if config.stream(ssp.system_stream).reset_offset}
        context = ContainerTaskContext(
            task.name,
            task.seen_stores,
            offsets,
            metrics,
            epoch,
            checkpoints=task.checkpoints,
            pinned=reset | start.pinned,
            timers=task.seen_stores[config.timers_store] if config.timers_store else None,
            types={ssp.system_stream: self._type_of(ssp.system_stream) for ssp in offsets},
            event_time=task.event_clock.of,
        )
        before = dict(offsets)
        task.init(Context(self._job, ContainerContext(self._container_id, metrics, self._clock), context))
        context.seal()
        task.started(context.replayed, context.sinks)
        if checkpoint is not None:
            count_moves(before, task.committable(), self._metrics)
        task.event_clock.resume(checkpoint)
        if task.has_sinks:
            lacking = task.sinks.open(
                TaskAttempt(config.job_name, task.name, epoch, context.ssps, start.input_ids),
                offsets,
                still_valid(checkpoint, start.input_ids),
                free=reset | context.moved | start.pinned,
                may_be_behind=config.task.guarantee is Guarantee.AT_MOST_ONCE,
                streams=config.stream,
            )
            self._metrics.counter(GUARANTEE, "sink-offsets-missing").inc(lacking)

    def executor(self, should_stop: Callable[[], bool]) -> TaskExecutor:
        task = self._config.task
        if issubclass(self.kind, BatchTask):
            return synchronous.BatchExecutor(self._processing, self._clock, self._metrics, task.batch)
        if not self._messages:
            return synchronous.SynchronousExecutor(self._processing, self._clock, self._metrics)
        in_flight_s = self._metrics.gauge("container", "in-flight-s")
        return AsynchronousExecutor(self._messages, self._events, self._clock, should_stop, task, in_flight_s)

    def close(self) -> None:
        if "_events" in vars(self):
            self._events.close()

    def _undoes(self, task: AnyTask) -> bool:
        """Whether changes of stores may have to be undone. The message of a batch that fails is found that way. Changes
        of an asynchronous message can be undone only if no other one was in flight with it."""
        if isinstance(task, BatchTask):
            return self._config.task.batch.max_messages != 1 or not self._only_fails(*_OF_BATCHES)
        if not isinstance(task, StreamTask) and self._config.task.asynchronous.max_concurrency > 1:
            return False
        return not self._only_fails(Stage.PROCESS)

    def _only_fails(self, *stages: Stage) -> bool:
        return all(self._config.task.errors.policies[stage].only_fails for stage in stages)

    def _visible(self, task: AnyTask, stores: TaskStores, journal: UndoJournal) -> Mapping[str, StoreLayer[Any, Any]]:
        return journal.watching(stores.stores) if self._undoes(task) else stores.stores

    def _processing_of(
        self, built: TaskInstance, collector: BufferingCollector, ids: OutputIds | None, journal: UndoJournal
    ) -> synchronous.Processing:
        task = built.task
        if isinstance(task, StreamTask):
            process = task.process if ids is None else identified_process(task, collector, ids)
            if isinstance(collector, TolerantCollector):
                return TolerantProcessing(built, process, collector, journal)
            return synchronous.StrictProcessing(built, process)
        assert isinstance(task, BatchTask)
        batches: synchronous.ProcessBatch = task.process_batch
        if ids is not None:
            one_by_one = self._config.task.batch.max_messages == 1
            batches = identified_batches(task, collector, ids, one_by_one=one_by_one)
        if isinstance(collector, TolerantCollector) and not self._only_fails(*_OF_BATCHES):
            return HalvingProcessing(built, batches, collector, journal)
        return SearchingProcessing(built, batches, collector, journal)

    def _instance(
        self, name: str, user: UserSide, stores: TaskStores, start: TaskStart, lease: ContainerLease
    ) -> TaskInstance:
        user = replace(user, seen=stores.as_seen(user.stores))
        event_clock = self._event_clock(name, user.task, start)
        timers: TaskTimers | None = None
        if (timers_store := self._config.timers_store) is not None:
            seen, entries = user.seen[timers_store], stores.stores[timers_store]
            timers = TaskTimers(seen, entries, event_clock, self._clock, user.requests.interrupt)
        kept = self._state_checkpoints(name, user.task, start, lease)
        return TaskInstance(name, user, stores, start, event_clock, timers=timers, checkpoints=kept)

    def _event_clock(self, name: str, task: AnyTask, start: TaskStart) -> EventClock:
        offsets = start.offsets
        intermediate = {ssp for ssp in offsets if self._config.stream(ssp.system_stream).intermediate}
        exact = self._config.timers_store is not None or isinstance(task, ClockListenerTask)
        wanted, count = self._config.clock, self._metrics.counter(name, "event-times-ahead").inc
        bound = TimeBound(wanted.max_ahead_ms, self._clock.wall_ms, count)
        return EventClock(
            offsets,
            self._clock,
            wanted.idle_ms,
            intermediate=intermediate,
            exact=exact,
            bound=bound,
            senders={
                ssp: f"{self._sending_job(start.run_id, ssp.system_stream)}/"
                for ssp in intermediate
                if ssp.system_stream in self._config.repartitions
            },
        )

    def _state_checkpoints(
        self, name: str, task: AnyTask, start: TaskStart, lease: ContainerLease
    ) -> KeptStateCheckpoints | None:
        config = self._config
        if not isinstance(task, StateCheckpointTask):
            return None
        return KeptStateCheckpoints(
            name,
            state_checkpoints(config, name, self._clients),
            config.state_checkpoint.interval_ms,
            lambda: lease.checkpoint_clock,
            start.offsets,
            self._clock,
            committed=start.checkpoint is not None,
            reset=all(config.stream(ssp.system_stream).reset_offset for ssp in start.offsets),
        )

    def _output_ids(self, task_name: str) -> OutputIds | None:
        if not self._config.task.guarantee.outputs_have_ids:
            return None
        job = self._config.name, self._config.id
        return OutputIds(job, task_name, self._config.task.broadcast_inputs, self._clients.stream_id)

    def _collector(
        self, name: str, start: TaskStart, should_stop: Callable[[], bool], requests: CoordinatorRequests
    ) -> BufferingCollector:
        if not self._config.task.errors.only_fails:
            return self._tolerant_collector(name, start, should_stop, requests)
        control = self._control_of(name, start)
        return BufferingCollector(self._output_serdes, self._producers.outputs, control, Outbox())

    def _tolerant_collector(
        self, name: str, start: TaskStart, should_stop: Callable[[], bool], requests: CoordinatorRequests
    ) -> TolerantCollector:
        pause = interruptible_pause(should_stop, requests.interrupt)
        outbox, outputs, control = Outbox(), self._producers.outputs, self._control_of(name, start)
        errors = self._config.task.errors
        letters = self._dead_letters(name, start.offsets, outbox)
        recovery = Recovery(name, errors, self._metrics, pause, self._clock, letters, self.handled)
        if errors.policies[Stage.PRODUCE].then is Action.FAIL:
            return TolerantCollector(self._output_serdes, outputs, control, outbox, recovery)
        limit_of = partial(record_limit, self._clients)
        return CheckingCollector(self._output_serdes, outputs, control, outbox, recovery, limit_of)

    def _dead_letters(self, name: str, offsets: Offsets, outbox: Outbox) -> DeadLetters | None:
        stream = self._config.task.errors.dead_letters
        if stream is None or not self._config.task.errors.writes_letters:
            return None
        self.raw.follow(offsets)
        limit_of = partial(record_limit, self._clients)
        return DeadLetters(stream, name, self.raw.find, self._clock, outbox.add, limit_of, ids=self._output_ids(name))


#: The method that each kind of task must define.
_KINDS: dict[type, str] = {
    api.StreamTask: "process(envelope, collector, coordinator)",
    api.AsyncStreamTask: "process_async(envelope, collector, coordinator, callback)",
    api.CoroutineTask: "async process(envelope, collector, coordinator)",
    BatchTask: "process_batch(batch, collector, coordinator)",
}
_METHODS: dict[type, str] = {api.AsyncStreamTask: "process_async", BatchTask: "process_batch"}


def load_task_class(path: str) -> type[api.AnyTask]:
    """The user's class, or that of the user's pipeline. Raises ConfigError, for the key `task.class`, when it is not a
    task that can be made."""
    try:
        given = load_name(path)
        # Known by its plan: jobs of tasks import no pipelines.
        result = given.task if hasattr(given, "plan") and not isinstance(given, type) else load_class(path)
    except PluginError as cause:
        raise ConfigError.of("task.class", path, str(cause)) from cause
    problem = _shortcoming(result)
    if problem:
        raise ConfigError.of("task.class", path, f"{result.__name__} {problem}")
    return result


def _shortcoming(found: type) -> str | None:
    """The reason why a class is not exactly one kind of task, None if it is."""
    kinds = [kind for kind in _KINDS if issubclass(found, kind)]
    if not kinds:
        others = "an AsyncStreamTask, a CoroutineTask or a BatchTask"
        return f"must be a StreamTask that defines {_KINDS[api.StreamTask]}, or {others}"
    if len(kinds) > 1:
        return f"must be one of {' and '.join(kind.__name__ for kind in kinds)}, not both"
    kind, missing = kinds[0], ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
    if missing:
        return f"must define {_KINDS[kind]}; missing: {missing}"
    return _unfit_method(found, kind)


def _unfit_method(found: type, kind: type) -> str | None:
    """The reason why a method would not work as its kind requires, None if there is none."""
    name, count = _METHODS.get(kind, "process"), _parameters(kind)
    process = getattr(found, name)
    # A method of an ability's name with other parameters is the class's own.
    own = ((item, getattr(found, item, None), parameters) for item, parameters in _abilities().items())
    called = {item: method for item, method, parameters in own if callable(method) and api.takes(method, parameters)}
    for item, method in {name: process, **called}.items():
        if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            return f"must not yield in {item}: a generator's code never runs here; send outputs with collector.send"
        if kind is not api.CoroutineTask and inspect.iscoroutinefunction(method):
            return f"must not define {item} as a coroutine function: only a CoroutineTask's is awaited"
    if kind is api.CoroutineTask and not inspect.iscoroutinefunction(process):
        return "is a CoroutineTask, so its process must be a coroutine function: async def"
    if not _accepts(found, name, count):
        return f"must define {_KINDS[kind]}; its {name} takes {inspect.signature(process, follow_wrapped=False)}"
    return None


def _abilities() -> dict[str, int]:
    """The names of the methods of all abilities, and the number of their parameters with `self`."""
    return dict(item.method() for item in api.ABILITIES)


def _accepts(found: type, name: str, count: int) -> bool:
    """Whether a method takes this number of arguments, including `self`. For a decorated method the wrapper counts: it
    may add arguments. True for anything but a plain function."""
    if not inspect.isfunction(inspect.getattr_static(found, name)):
        return True
    try:
        inspect.signature(getattr(found, name), follow_wrapped=False).bind(*range(count))
    except TypeError:
        return False
    return True


def never_called(found: type[api.AnyTask], window_ms: int) -> Iterator[str]:
    """Warnings about methods that are named like one that samzapy calls, but take other parameters: an `init` without
    its context; and about a `window` without `window_ms`."""
    if issubclass(found, api.WindowableTask) and window_ms <= 0:
        yield f"task.window.ms: {window_ms}, so {found.__name__}.window is never called; set it, e.g. to 10s"
    for name, parameters in _abilities().items():
        own = getattr(found, name, None)
        if callable(own) and not api.takes(own, parameters) and name not in {"window", "close"}:
            yield (
                f"task.class: {found.__name__}.{name} is never called: it must take {parameters - 1} "
                f"argument{'s' * (parameters != 2)} beside self"
            )


def _parameters(kind: type) -> int:
    return len(inspect.signature(getattr(kind, _METHODS.get(kind, "process"))).parameters)


def check_timers(config: JobConfig, task_class: type[api.AnyTask]) -> None:
    """Raise ConfigError for a job that has a timer store but no TimerTask, or no windows for a task that needs them."""
    if config.task.window_ms <= 0 and getattr(task_class, "needs_window", False):
        message = f"must be > 0, e.g. 1000: {task_class.__name__} follows event time at that period"
        raise ConfigError.of("task.window.ms", str(config.task.window_ms), message)
    if config.timers_store is not None and not issubclass(task_class, api.TimerTask):
        message = (
            f"{task_class.__name__} must be a TimerTask that defines on_timer: store '{config.timers_store}' has timers"
        )
        raise ConfigError.of("task.class", config.task.task_class, message)
