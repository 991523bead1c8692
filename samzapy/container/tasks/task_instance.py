"""One running task: the user's object, its position, and its part of a commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from inspect import isawaitable, iscoroutine
from typing import Any, NoReturn

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.collector import Sink
from samzapy.api.context import Context, MetricsRegistry
from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch
from samzapy.api.event_time import ClockListenerTask, PartitionListenerTask
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import (
    AnyTask,
    BatchTask,
    ClosableTask,
    DrainListenerTask,
    EndOfStreamListenerTask,
    InitableTask,
    TimerTask,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.container.errors.user_failures import line_of, task_failed, user_line
from samzapy.container.event_time.clock import EventClock, TaskTimers
from samzapy.container.outputs.collector import BufferingCollector
from samzapy.container.tasks.context import CoordinatorRequests, KeptStateCheckpoints, TaskSinks
from samzapy.errors import FailedCall, RecordRefused, SamzapyError, SerdeError, StoreClosed, StoreRefused, TaskFailed
from samzapy.job.lease import TaskProgress
from samzapy.storage.store import TaskStores
from samzapy.storage.views.timers import Timer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskStart:
    """The start of a task: its `offsets`, which become its live map, and its last checkpoint.

    `followed`: the ids of the startpoints that its first commit completes; `pinned`: the partitions that start at one
    of them. `input_ids`: the ids of its input streams. `leader_epochs`: of those offsets that are the committed ones; a
    position that an operator has chosen holds for the log as it is. `outdated`: the last checkpoint has positions in
    streams that are no longer inputs, which are left out here. `run_id`: the run that it is part of, empty for none.
    """

    offsets: dict[SystemStreamPartition, int]
    checkpoint: Checkpoint | None = None
    _: KW_ONLY
    followed: Mapping[SystemStreamPartition, str] = field(default_factory=dict)
    pinned: frozenset[SystemStreamPartition] = frozenset()
    input_ids: Mapping[SystemStream, str] = field(default_factory=dict)
    leader_epochs: Mapping[SystemStreamPartition, int] = field(default_factory=dict)
    outdated: bool = False
    run_id: str = ""

    @property
    def startpoints(self) -> Mapping[SystemStreamPartition, str]:
        """The ids of the startpoints that the task has followed by its first commit."""
        return {**(self.checkpoint.startpoints if self.checkpoint else {}), **self.followed}

    @property
    def must_commit(self) -> bool:
        """Whether the task commits before its first message. Otherwise a crash before its first commit would start at a
        later `upcoming` and skip messages, follow a startpoint once more, or find positions in a stream that has gone
        and come back."""
        known = self.checkpoint
        if known is None or self.outdated or self.startpoints != known.startpoints:
            return True
        return not self.offsets.keys() <= known.input_offsets.keys()


#: Awaits the value that a call has returned, and gives its result.
Finish = Callable[[object], object]


#: The methods without a collector: what they return is no message.
_WITHOUT_OUTPUTS = frozenset({"init", "close"})


def as_returned(returned: object) -> object:
    """The default: nothing is awaited."""
    return returned


@dataclass(frozen=True)
class UserSide:
    """The user's object, and the objects that its code works with.

    `stores`: the stores as its code gets them, by name; `seen`: the same behind the views of their engines. `finish`
    awaits the value that a call returns. `in_order`: whether each message is complete before the next one begins.
    """

    task: AnyTask
    collector: BufferingCollector
    stores: Mapping[str, KeyValueStore[Any, Any]] = field(default_factory=dict)
    seen: Mapping[str, Any] = field(default_factory=dict)
    requests: CoordinatorRequests = field(default_factory=CoordinatorRequests)
    finish: Finish = as_returned
    in_order: bool = True


class TaskInstance:
    """One running task: calls the methods of the user's object, except for messages, and represents it in commits.

    It is complete when it is made. Timers, state checkpoints and sinks do nothing in a task without them. `touched`:
    whether the user's code has run since the last commit and may have left something for the next one.
    """

    def __init__(
        self,
        name: str,
        user: UserSide,
        stores: TaskStores,
        start: TaskStart,
        event_clock: EventClock,
        *,
        timers: TaskTimers | None = None,
        checkpoints: KeptStateCheckpoints | None = None,
    ) -> None:
        self.name = name
        #: The next offset to process of each partition.
        self.offsets = start.offsets
        self.start = start
        self._replayed: Mapping[SystemStreamPartition, int] = {}
        self._serialized: Mapping[SystemStreamPartition, int] = dict(start.offsets)
        self._closed = True  # until `init`: without it there is nothing to close
        self._finish = user.finish
        self.task = user.task
        self.collector = user.collector
        self.seen_stores = user.seen
        self.requests = user.requests
        self.stores = stores
        self.event_clock = event_clock
        self.timers = timers
        self.checkpoints = checkpoints
        self.sinks = TaskSinks(name)
        self.has_sinks = False
        self.touched = False
        self.processed = 0
        #: The times of the last processed messages, in milliseconds since 1970.
        self.processed_ms: dict[SystemStreamPartition, int] = {}
        self._messages: dict[SystemStreamPartition, int] = {}
        self._batches = 0
        #: The time in the user's code; grows where calls are timed together, so not for asynchronous tasks.
        self.seconds = 0.0
        self.changelog_offsets: dict[str, int] = {}
        self._in_order = user.in_order
        #: The position at which this run has called `on_end_of_stream` or `on_drain`.
        self._ended_at: Mapping[SystemStreamPartition, int] | None = None
        self.listens = isinstance(user.task, ClockListenerTask)
        self.follows_partitions = isinstance(user.task, PartitionListenerTask)

    def init(self, context: Context) -> None:
        self.changelog_offsets = self.stores.offsets()
        self._closed = False
        if isinstance(self.task, InitableTask):
            self.call("init", self.task.init, context)

    def started(self, replayed: Mapping[SystemStreamPartition, int], sinks: Sequence[Sink] = ()) -> None:
        """`init` has returned and has registered `sinks`. For its private state the task starts before the committed
        offsets `replayed`."""
        self._replayed, self._serialized = dict(replayed), dict(self.offsets)
        if self.checkpoints is not None:
            self.checkpoints.started()
        self.sinks.add(sinks)
        self.has_sinks = bool(sinks)

    def join(self) -> None:
        """Make the task part of its run. An earlier attempt of the run may have called `on_end_of_stream` or `on_drain`
        at the same position; the task is not called again then."""
        checkpoint = self.start.checkpoint
        if checkpoint is not None and checkpoint.ended_in and checkpoint.ended_in == self.start.run_id:
            position = self.committable()
            if position == checkpoint.input_offsets:
                self._ended_at = position

    def committable(self) -> dict[SystemStreamPartition, int]:
        """The offsets to commit: the task's positions, or the committed ones while it replays messages before them."""
        return {ssp: max(offset, self._replayed.get(ssp, offset)) for ssp, offset in self.offsets.items()}

    def count(self, ssp: SystemStreamPartition, messages: int) -> None:
        """Count a batch of processed messages of one partition."""
        self.processed += messages
        self._messages[ssp] = self._messages.get(ssp, 0) + messages
        self._batches += 1

    def passed(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope], done: int) -> None:
        """The first `done` messages are processed."""
        self.count(ssp, done)
        last = envelopes[done - 1]
        self.offsets[ssp] = last.offset + 1
        self.processed_ms[ssp] = last.event_time
        moved = self.event_clock.passed(ssp, envelopes if done == len(envelopes) else envelopes[:done])
        if moved and self.listens:
            self.on_clock()

    def on_clock(self) -> None:
        assert isinstance(self.task, ClockListenerTask)
        self.touched = True
        self.call("on_clock", self.task.on_clock, self.event_clock.reading, self.collector, self.requests)

    def take_checkpoint(self) -> None:
        kept = self.checkpoints
        taken = kept is not None and kept.take(self.task, self.event_clock.reading, self.collector)
        # Outputs, rows and changes that belong to the state are committed before it is kept.
        self.touched |= taken or self.collector.waiting

    def serialize(self) -> None:
        """Let the stores serialize their objects. Raises SerdeError, which names the messages that may have put a bad
        one."""
        try:
            self.stores.flush()
        except (SerdeError, StoreClosed) as failure:
            placed = self._placed(failure, "in a commit")
            placed.call = FailedCall(self.name, "commit")
            raise placed from failure
        self._serialized = dict(self.offsets)

    def keep_checkpoint(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.keep()

    def skip(self, ssp: SystemStreamPartition, offset: int) -> None:
        """Move the position past a record that is not a message of the user."""
        self.offsets[ssp] = offset + 1
        self.touched = True

    @property
    def progress(self) -> TaskProgress:
        """The task's progress in event time; from any thread."""
        clock, kept = self.event_clock, self.checkpoints.kept if self.checkpoints else None
        times, is_open = (None, False) if kept is None else kept
        return TaskProgress(clock.time_ms, clock.held_by, clock.idle, times, is_open)

    def window(self) -> None:
        assert isinstance(self.task, WindowableTask)
        self.call("window", self.task.window, self.collector, self.requests)
        # Most calls in an idle job leave nothing to commit.
        keeps = self.has_sinks or self.checkpoints is not None
        self.touched |= keeps or self.collector.waiting or self.stores.has_changes

    def fire(self, timer: Timer) -> None:
        assert isinstance(self.task, TimerTask)
        self.touched = True
        self.call(timer, self.task.on_timer, timer.key, timer.time_ms, self.collector, self.requests)

    def checkpoint(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        epoch: int,
        time_ms: int,
        *,
        atomic: bool,
        read_in: Mapping[SystemStreamPartition, int] | None = None,
    ) -> Checkpoint:
        """The task's checkpoint in a commit, at the position `offsets`; `atomic` as the checkpoint's. `read_in`: the
        leader epochs of what was read since the start."""
        known = {**self.start.leader_epochs, **(read_in or {})}
        return Checkpoint(
            offsets,
            self.changelog_offsets,
            epoch,
            time_ms,
            clock=self.event_clock.time_ms,
            startpoints=self.start.startpoints,
            event_times=self.event_clock.marks,
            senders=self.event_clock.senders,
            held_by=self.event_clock.held_by,
            idle=tuple(self.event_clock.silent),
            told=self.event_clock.told,
            ended_in=self.start.run_id if self._has_ended() else "",
            atomic=atomic,
            serdes=self.stores.serdes,
            changelog_ids=self.stores.changelog_ids,
            input_ids=self.start.input_ids,
            leader_epochs={ssp: known[ssp] for ssp in offsets if ssp in known},
        )

    def watermark(self, time_ms: int) -> None:
        if isinstance(self.task, WatermarkListenerTask):
            self.touched = True
            self.call("on_watermark", self.task.on_watermark, time_ms, self.collector, self.requests)

    def drain(self) -> None:
        if isinstance(self.task, DrainListenerTask) and not self._has_ended():
            self.touched = True
            self.call("on_drain", self.task.on_drain, self.collector, self.requests)
            self._end()
        if self.event_clock.intermediate:
            self.touched = True
            self.event_clock.forget_drain()

    def partition_end(self, ssp: SystemStreamPartition) -> None:
        assert isinstance(self.task, PartitionListenerTask)
        self.touched = True
        self.call("on_partition_end", self.task.on_partition_end, ssp, self.collector, self.requests)

    def end_of_stream(self) -> None:
        if isinstance(self.task, EndOfStreamListenerTask) and not self._has_ended():
            self.touched = True
            self.call("on_end_of_stream", self.task.on_end_of_stream, self.collector, self.requests)
            self._end()

    def _end(self) -> None:
        # If the call has asked for a shutdown, the next attempt has to call again.
        if not (self.requests.shutdown_vote or self.requests.shutdown_all):
            self._ended_at = self.committable()

    def _has_ended(self) -> bool:
        """Whether this run has called `on_end_of_stream` or `on_drain` at the current position."""
        return self._ended_at is not None and self._ended_at == self.committable()

    def over_budget(self) -> bool:
        return self.stores.over_budget() or (self.has_sinks and self.sinks.full())

    def committed(self, metrics: MetricsRegistry) -> None:
        """A commit has everything."""
        self.touched = False
        if self.has_sinks:
            self.sinks.publish(metrics)

    def metrics(self) -> dict[str, float]:
        """The present counts and sizes; from any thread."""
        values: dict[str, float] = {"processed": self.processed, "sent": self.collector.sent}
        values |= {"batch.count": self._batches, "batch.total": self.processed}
        for ssp, count in self._messages.copy().items():
            stream = f"processed.{ssp.system_stream}"
            values[stream] = values.get(stream, 0) + count
        if self.seconds:
            values |= {"process.count": self.processed, "process.total-s": self.seconds}
        values |= self.event_clock.metrics()
        if self.timers is not None:
            values |= self.timers.metrics()
        if self.checkpoints is not None:
            values |= {f"state.{name}": value for name, value in self.checkpoints.metrics().items()}
        values |= {f"store.{name}": value for name, value in self.stores.metrics().items()}
        return values | {f"store.{name}.changelog-offset": offset for name, offset in self.changelog_offsets.items()}

    def close(self) -> None:
        """Call the user's `close`, if there is one and `init` was called. Only the first call does anything, also if it
        raises."""
        if not self._closed and isinstance(self.task, ClosableTask):
            self._closed = True
            self.call("close", self.task.close)

    def warn_of_late_changes(self) -> None:
        """Log a warning if `close`, which comes after the last commit, has changed a store or sent something."""
        if self.stores.has_changes or self.collector.waiting:
            logger.warning(
                "%s: close has changed stores or sent outputs, and nothing of that is kept: the last commit is before "
                "it; do it in window, on_end_of_stream or on_drain",
                self.name,
            )

    def call(self, where: object, method: Callable[..., object], *arguments: object) -> None:
        """Call a method of the user. Raises TaskFailed naming it by the text of `where`, or samzapy's errors
        unchanged."""
        try:
            returned = self._finish(method(*arguments))
        except (SerdeError, StoreRefused, StoreClosed) as failure:
            placed = self._placed(failure, f"in {where}")
            placed.call = FailedCall(self.name, str(where))
            raise placed from failure
        except SamzapyError:
            raise
        except BaseException as cause:
            raise task_failed(self.name, str(where), cause) from cause
        if returned is not None:
            (self.refuse_awaitable if where in _WITHOUT_OUTPUTS else self.refuse_returned)(where, returned)

    def refuse_returned(self, where: object, returned: object) -> None:
        """Raise TaskFailed for what a method that may send has returned: it goes nowhere, so a result would be lost."""
        self.refuse_awaitable(where, returned)
        self._fail(where, f"returned {_named(returned)}, which goes nowhere: call collector.send(...), return nothing")

    def refuse_awaitable(self, where: object, returned: object) -> None:
        """Raise TaskFailed for an awaitable, which is never awaited, so its work would be lost; ignore other values."""
        if isawaitable(returned):
            if iscoroutine(returned):
                returned.close()
            what = f"returned {_named(returned)}, which is never awaited"
            self._fail(where, f"{what}: only a CoroutineTask's is, and not what that returns")

    def _fail(self, where: object, what: str) -> NoReturn:
        failure = TaskFailed(f"{self.name}: {where} {what}{line_of(self.task, str(where))}")
        failure.call = FailedCall(self.name, str(where))
        raise failure

    def raise_failure(self, of: IncomingMessageEnvelope | MessageBatch[Any, Any], cause: BaseException) -> NoReturn:
        raise self.failure_of(of, cause)

    def failure_of(self, of: IncomingMessageEnvelope | MessageBatch[Any, Any], cause: BaseException) -> SamzapyError:
        """The error that ends the attempt over a message or a batch: samzapy's own errors unchanged, any other as a
        TaskFailed."""
        where = f"{'process_batch' if isinstance(self.task, BatchTask) else 'process'} of {of.position}"
        first, last = (of[0], of[-1]) if isinstance(of, MessageBatch) else (of, of)
        call = FailedCall(self.name, where, (str(last.ssp), first.offset, last.offset))
        failure: SamzapyError
        if isinstance(cause, SerdeError | StoreRefused | StoreClosed):
            if cause.call is not None:
                return cause  # it has its place
            failure = self._placed(cause, f"while processing {of.position}", last)
        elif isinstance(cause, RecordRefused):
            failure = RecordRefused(f"{cause} (while processing {of.position})")
        elif isinstance(cause, SamzapyError):
            if isinstance(cause, TaskFailed):
                cause.call = call
            return cause
        else:
            failure = task_failed(self.name, where, cause)
            if type(last.message) is bytes and isinstance(cause, TypeError | AttributeError):
                key = f"systems.{last.ssp.system}.samza.msg.serde"
                failure.args = (f"{failure}; the message is bytes: {key} decodes it",)
        failure.call = call
        failure.__cause__ = cause
        return failure

    def _placed(
        self, failure: SamzapyError, where: str, envelope: IncomingMessageEnvelope | None = None
    ) -> SamzapyError:
        """The failure with its place: the call that raises and the line of the user's code, or the messages since the
        stores last serialized their objects. `envelope`: the message at hand."""
        if isinstance(failure, SerdeError) and failure.late:
            return SerdeError(f"{failure} ({self._unserialized(envelope)})")
        line = user_line(failure)
        return type(failure)(f"{failure} ({where}{line and f', {line}'})")

    def _unserialized(self, envelope: IncomingMessageEnvelope | None) -> str:
        """The messages since the last commit, including the current one: `kafka.in[3]@12 to 17`, offsets inclusive."""
        if not self._in_order:
            # Messages end in any order, so the upper end is unknown.
            spans = [f"{ssp}@{at} or later" for ssp, at in self._serialized.items()]
            return "put since the last commit, at " + ", ".join(spans)
        ends = dict(self.offsets)
        if envelope is not None:
            ends[envelope.ssp] = envelope.offset + 1
        spans = []
        for ssp, end in ends.items():
            first, last = self._serialized.get(ssp, end), end - 1
            if first <= last:
                spans.append(f"{ssp}@{first}" + (f" to {last}" if first < last else ""))
        return "put since the last commit" + (f", at {', '.join(spans)}" if spans else "")


def _named(returned: object) -> str:
    kind = type(returned).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
