"""One running task: the user's object, its stores, its sinks, its position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.event_time import ClockListenerTask
from samzapy.api.kv import KeyValueStore
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.sink import Sink, TaskAttempt
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import (
    AnyTask,
    ClosableTask,
    DrainListenerTask,
    EndOfStreamListenerTask,
    InitableTask,
    StreamTask,
    TimerTask,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.container.event_time.clock import EventClock
from samzapy.container.event_time.timers import NO_TIMERS, NoTimers
from samzapy.container.outputs.collector import BufferingCollector
from samzapy.container.outputs.output_ids import IdentifiedProcess, OutputIds
from samzapy.container.task_position import TaskPosition
from samzapy.container.tasks.context import CoordinatorRequests
from samzapy.container.tasks.state_checkpoints import KeptStateCheckpoints
from samzapy.container.tasks.user_calls import UserCalls
from samzapy.errors import SamzapyError, SerdeError
from samzapy.storage.task_stores import TaskStores
from samzapy.storage.views.timers import Timer

Process = Callable[[IncomingMessageEnvelope, MessageCollector, TaskCoordinator], object]

_offset = attrgetter("offset")


class TaskInstance(TaskPosition, UserCalls):
    """Calls the user's methods, and knows which input is processed up to where.

    `touched` says whether the user's code has run since the last commit, so whether a commit would say anything new;
    `checkpoints` are those of a state of its own, None if it has none.
    """

    __slots__ = (
        "_listens",
        "_process",
        "changelog_offsets",
        "checkpoints",
        "collector",
        "event_clock",
        "name",
        "processed",
        "requests",
        "sinks",
        "stores",
        "task",
        "timers",
        "touched",
    )

    def __init__(
        self,
        name: str,
        task: AnyTask,
        stores: TaskStores,
        collector: BufferingCollector,
        offsets: dict[SystemStreamPartition, int],
        event_clock: EventClock,
        *,
        ids: OutputIds | None = None,
    ) -> None:
        """With `ids` outputs carry the id of the input they came from."""
        super().__init__(offsets)
        self.name = name
        self.task = task
        self.stores = stores
        self.collector = collector
        self._process = self._entry_point(ids)
        self.touched = False
        self.changelog_offsets: dict[str, int] = {}
        self.requests = CoordinatorRequests()
        self.sinks: Sequence[Sink] = ()
        self.event_clock = event_clock
        self.timers: NoTimers = NO_TIMERS
        self.processed = 0
        self._listens = isinstance(task, ClockListenerTask)
        self.checkpoints: KeptStateCheckpoints | None = None

    def _entry_point(self, ids: OutputIds | None) -> Process:
        task = self.task
        assert isinstance(task, StreamTask)
        return task.process if ids is None else IdentifiedProcess(task, self.collector, ids).process

    @property
    def visible_stores(self) -> Mapping[str, KeyValueStore[Any, Any]]:
        """The stores as the user's code gets them, by name."""
        return self.stores.stores

    def started(self, replayed: Mapping[SystemStreamPartition, int]) -> None:
        """`init` is over. For a state of its own the task starts before the offsets `replayed`, which were committed."""
        self.replay(replayed)
        self.note_serialized()
        if self.checkpoints is not None:
            self.checkpoints.started()

    def init(self, context: Context) -> None:
        """Call the user's `init`, if there is one."""
        self.changelog_offsets = self.stores.offsets()
        if isinstance(self.task, InitableTask):
            self._call("init", self.task.init, context)

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        """Process messages of one partition until the task asks for something; returns how many were processed.

        Raises TaskFailed, naming the message's position, when the user's code raises; the position stays before it.
        """
        process, collector, requests = self._process, self.collector, self.requests
        self.touched = True
        envelope = envelopes[0]
        try:
            for envelope in envelopes:  # the handler and the position need the last one
                if (returned := process(envelope, collector, requests)) is not None:
                    self._refuse_awaitable(f"process of {envelope.position}", returned)
                if requests.pending:
                    break
        except BaseException as cause:  # noqa: BLE001  # told where
            self._raise(envelope, cause)
        done = bisect_right(envelopes, envelope.offset, key=_offset) if requests.pending else len(envelopes)
        self.processed += done
        self._passed(ssp, envelopes, done)
        return done

    def _passed(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope], done: int) -> None:
        """The first `done` messages are processed."""
        self.offsets[ssp] = envelopes[done - 1].offset + 1
        moved = self.event_clock.passed(ssp, envelopes if done == len(envelopes) else envelopes[:done])
        if moved and self._listens:
            self.tell_time()

    def tell_time(self) -> None:
        """Tell a task that listens that its clock has moved."""
        if isinstance(self.task, ClockListenerTask):
            self._call("on_clock", self.task.on_clock, self.event_clock.reading, self.collector, self.requests)

    def take_checkpoint(self) -> None:
        """A commit begins: have the task take a checkpoint of its state, if it has one."""
        if self.checkpoints is not None:
            sent = self.collector.sent
            self.checkpoints.take(self.task, self.event_clock.reading, self.collector)
            self.touched |= self.collector.sent != sent

    def serialize(self) -> None:
        """Have the stores serialize their objects. Raises SerdeError, naming what messages may have put a bad one."""
        try:
            self.stores.flush()
        except SerdeError as failure:
            raise self._placed(failure, "in a commit") from failure
        self.note_serialized()

    def keep_checkpoint(self) -> None:
        """The commit is durable: persist what was taken."""
        if self.checkpoints is not None:
            self.checkpoints.keep()

    def skip(self, ssp: SystemStreamPartition, offset: int) -> None:
        """Go past what is no message of the user's."""
        self.offsets[ssp] = offset + 1
        self.touched = True

    def window(self) -> None:
        """Call the user's `window`."""
        assert isinstance(self.task, WindowableTask)
        self.touched = True
        self._call("window", self.task.window, self.collector, self.requests)

    def fire(self, timer: Timer) -> None:
        """Call the user's `on_timer`."""
        assert isinstance(self.task, TimerTask)
        self.touched = True
        where = f"on_timer of {timer.key!r:.100}"
        self._call(where, self.task.on_timer, timer.key, timer.time_ms, self.collector, self.requests)

    def checkpoint(
        self, offsets: Mapping[SystemStreamPartition, int], epoch: int, time_ms: int, *, atomic: bool
    ) -> Checkpoint:
        """What a commit says about the task, whose position is `offsets`; `atomic` as the checkpoint's."""
        return Checkpoint(
            offsets,
            self.changelog_offsets,
            epoch,
            time_ms,
            clock=self.event_clock.time_ms,
            startpoints=self.startpoints,
            event_times=self.event_clock.marks,
            senders=self.event_clock.senders,
            held_by=self.event_clock.held_by,
            idle=tuple(self.event_clock.silent),
            atomic=atomic,
            serdes=self.stores.serdes,
        )

    def watermark(self, time_ms: int) -> None:
        """Tell a task that listens how far event time has come in the stages before it."""
        if isinstance(self.task, WatermarkListenerTask):
            self.touched = True
            self._call("on_watermark", self.task.on_watermark, time_ms, self.collector, self.requests)

    def drain(self) -> None:
        """Tell a task that listens that it is drained."""
        if isinstance(self.task, DrainListenerTask):
            self.touched = True
            self._call("on_drain", self.task.on_drain, self.collector, self.requests)
        if self.event_clock.intermediate:
            self.touched = True
            self.event_clock.forget_drain()

    def end_of_stream(self) -> None:
        """Tell a task that listens that all its partitions have ended."""
        if isinstance(self.task, EndOfStreamListenerTask):
            self.touched = True
            self._call("on_end_of_stream", self.task.on_end_of_stream, self.collector, self.requests)

    def open_sink(self, sink: Sink, attempt: TaskAttempt) -> Mapping[SystemStreamPartition, int]:
        """Take the sink over; returns the offsets it holds. Raises TaskFailed for what is no error of ours."""
        try:
            return sink.open(attempt)
        except SamzapyError:
            raise
        except Exception as cause:
            raise self._failed(f"open of sink '{sink.name}'", cause) from cause

    def commit_sinks(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Make what the sinks were given durable, with `offsets`. Raises as `open_sink`."""
        for sink in self.sinks:
            try:
                sink.commit(offsets)
            except SamzapyError:
                raise
            except Exception as cause:
                raise self._failed(f"commit of sink '{sink.name}'", cause) from cause

    def _forget(self, envelope: IncomingMessageEnvelope) -> None:
        """Take back what a message that failed has written to the sinks."""
        for sink in self.sinks:
            sink.forget(envelope)

    def over_budget(self) -> bool:
        """Whether the task should commit early, for what its stores or sinks hold."""
        return self.stores.over_budget() or (bool(self.sinks) and any(sink.full() for sink in self.sinks))

    def publish(self, metrics: MetricsRegistry) -> None:
        """Set the task's gauges: what it processed and sent, and its stores' and sinks' own."""
        metrics.gauge(self.name, "processed").set(self.processed)
        metrics.gauge(self.name, "sent").set(self.collector.sent)
        self.event_clock.publish(self.name, metrics)
        self.timers.publish(self.name, metrics)
        if self.checkpoints is not None:
            for name, value in self.checkpoints.metrics().items():
                metrics.gauge(self.name, f"state.{name}").set(value)
        for name, value in self.stores.metrics().items():
            metrics.gauge(self.name, f"store.{name}").set(value)
        for sink in self.sinks:
            for name, value in sink.metrics().items():
                metrics.gauge(self.name, f"sink.{sink.name}.{name}").set(value)

    def close_sinks(self) -> None:
        """Release the sinks; what they have not committed is void. Every one is closed, then the first failure raised."""
        failures = []
        for sink in self.sinks:
            try:
                sink.close()
            except Exception as cause:  # noqa: BLE001  # the other sinks want to be closed as well
                failures.append(self._failed(f"close of sink '{sink.name}'", cause))
        if failures:
            raise failures[0]

    def close(self) -> None:
        """Call the user's `close`, if there is one, and let go of what keeps the task's own state."""
        if isinstance(self.task, ClosableTask):
            self._call("close", self.task.close)
        if self.checkpoints is not None:
            self.checkpoints.close()
