"""A task that folds its messages into a state, kept by checkpoints at event times (Gearpump's Persistent API).

A checkpoint is written as MessagePack, of one map. `inputs` are the next offsets to process at the moment it was taken.
Ints beyond 64 bits are extensions of type 1, in decimal.

    {"format": 1, "time": 1700000010000, "inputs": {"kafka.orders[0]": 481}, "state": ...}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeVar

import msgpack

from samzapy.api.collector import ControlMessage, MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch, OutgoingMessageEnvelope
from samzapy.api.event_time import ClockListenerTask, StateCheckpointTask, TaskClock, TimedState
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import BatchTask, InitableTask, StreamTask
from samzapy.errors import RestoreError
from samzapy.operators.persistent.states import PersistentState
from samzapy.strict_json import Natural, Time, convert

T = TypeVar("T")

FORMAT = 1
_BIG_INT = 1


def next_time(last_ms: int, clock_ms: int, interval_ms: int) -> int | None:
    """The roundest multiple of the interval with last < multiple <= clock; None if there is none.

    The roundest one is divisible by the largest power of two. A task with few messages passes many multiples at once
    and cannot take a checkpoint at each. By this rule two such tasks still share checkpoint times: every 2**k-th
    multiple, as soon as neither passes so many at once. At a crash the job falls back by at most twice its longest gap
    between messages.
    """
    first, latest = last_ms // interval_ms + 1, clock_ms // interval_ms
    if latest < first:
        return None
    while (rounder := latest & (latest - 1)) >= first:
        latest = rounder
    return latest * interval_ms


@dataclass(frozen=True)
class StateCheckpoint:
    """`state` is the fold of exactly the messages before `positions`; `time_ms` is its cut."""

    time_ms: int
    positions: Mapping[SystemStreamPartition, int]
    state: Any


def encode(checkpoint: StateCheckpoint) -> bytes:
    """A checkpoint as bytes. Raises TypeError for a state that is not of plain values."""
    positions = {str(ssp): offset for ssp, offset in checkpoint.positions.items()}
    plain = {"format": FORMAT, "time": checkpoint.time_ms, "inputs": positions, "state": checkpoint.state}
    packed: bytes = msgpack.packb(plain, default=_big)
    return packed


def decode(value: bytes, where: str) -> StateCheckpoint:
    """The inverse of `encode`. Raises RestoreError, naming `where`, for anything but format 1."""
    try:
        data = msgpack.unpackb(value, use_list=False, strict_map_key=False, ext_hook=_unbig)
        if data["format"] != FORMAT:
            raise RestoreError(f"{where}: state of format {data['format']}; this version reads format {FORMAT}")
        offsets = convert(dict[str, Natural], data["inputs"])
        positions = {SystemStreamPartition.parse(text): offset for text, offset in offsets.items()}
        return StateCheckpoint(convert(Time, data["time"]), positions, data["state"])
    except (ValueError, KeyError, TypeError, RecursionError) as cause:
        raise RestoreError(f"{where}: not a state ({type(cause).__name__}: {cause}): {value[:80]!r}") from cause


def _big(value: object) -> object:
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, str(value).encode())
    raise TypeError(f"a checkpoint keeps plain values; the state has {type(value).__name__} (see Monoid.to_plain)")


def _unbig(code: int, data: bytes) -> int:
    if code != _BIG_INT:
        raise ValueError(f"extension type {code}")
    return int(data)


class _NoOutputs(MessageCollector):
    """Drops the outputs of a message that is processed again: they were sent the first time."""

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        """Drop it."""

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        """Drop it."""


_OUT_ALREADY = _NoOutputs()


class FoldingTask(InitableTask, ClockListenerTask, StateCheckpointTask, ABC, Generic[T]):
    """The state of a task, its recovery and its checkpoints; `PersistentTask` and `PersistentBatchTask` feed it."""

    @abstractmethod
    def persistent_state(self) -> PersistentState[T]:
        """A new, empty state."""

    def on_start(self, context: Context) -> None:
        """Called once, when the state is there, before the first message."""

    def on_checkpoint(self, time_ms: int, state: PersistentState[T], collector: MessageCollector) -> None:
        """Called with each checkpoint; `state.cut` is the part before `time_ms`. Outputs go with its commit. After a
        crash the same time may come again, with the messages added that were late for it."""

    #: The collector of the message that is being processed.
    collector: MessageCollector

    @property
    def state(self) -> PersistentState[T]:
        """The task's state, from `on_start` on."""
        return self._state

    def init(self, context: Context) -> None:
        """Recover the state, and start at its positions. A subclass overrides `on_start` instead."""
        for name in ("process_message", "process_messages"):
            if iscoroutinefunction(getattr(self, name, None)):
                raise TypeError(f"{name} must not be a coroutine function")
        self._context = context.task
        self._checkpoints = context.task.state_checkpoints
        self._state = self.persistent_state()
        self._state.open(self._checkpoints.interval_ms)
        #: The committed offsets of partitions that are still before them: outputs of earlier messages were sent
        #: already.
        self._out: dict[SystemStreamPartition, int] = {}
        saved = self._checkpoints.recover()
        if saved is None:
            self._time = self._checkpoints.start_ms
            self._checkpoints.persist(self._taken(self._time))
        else:
            self._recover(saved)
        self.on_start(context)

    def on_clock(self, clock: TaskClock, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Advance the state to the clock's time."""
        if clock.time_ms is not None:
            self._state.advance(clock.time_ms)

    def take_checkpoint(self, clock: TaskClock, collector: MessageCollector) -> TimedState | None:
        """Take a checkpoint at the roundest time that the clock has passed. If the clock stands still, repeat the last
        one."""
        time_ms = None
        if clock.time_ms is not None:
            time_ms = next_time(self._time, clock.time_ms, self._checkpoints.interval_ms)
        if time_ms is None:
            return self._taken(self._time) if clock.idle or self._checkpoints.overdue else None
        taken = self._taken(time_ms)
        self._time = time_ms
        self.on_checkpoint(time_ms, self._state, collector)
        return taken

    def _taken(self, time_ms: int) -> TimedState:
        state = self._state.checkpoint(time_ms)
        return TimedState(time_ms, encode(StateCheckpoint(time_ms, self._context.positions, state)))

    def _recover(self, saved: TimedState) -> None:
        checkpoint = decode(saved.value, saved.where)
        try:
            self._state.recover(checkpoint.state)
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            raise RestoreError(
                f"{saved.where}: the state is not one of this task ({type(cause).__name__}: {cause})"
            ) from cause
        self._time = saved.time_ms
        positions = {ssp: at for ssp, at in checkpoint.positions.items() if ssp in self._context.ssps}
        for ssp, offset in positions.items():
            committed = self._context.replay_from(ssp, offset)
            if self._context.positions[ssp] == offset < committed:
                self._out[ssp] = committed
        if any(self._context.positions[ssp] != offset for ssp, offset in positions.items()):
            # A startpoint has moved the task: from now on the state belongs to these positions.
            self._checkpoints.persist(self._taken(self._time))


class PersistentTask(FoldingTask[T], StreamTask):
    """Each message updates the state exactly once, also after a crash.

    As in Gearpump, a checkpoint has a time, a multiple of `state.checkpoint.interval.ms`; messages of an event time
    before it are on its left, others on its right. It is taken with the first commit after the task's clock has passed
    that time. A job that starts again recovers every task at the greatest time that all of them have.

    Unlike Gearpump's, a checkpoint holds both sides, and the positions at which it was taken. So the offset of a
    message says whether the state has it, its time says on which side, and replay begins at the offsets:

    1. A message that is late for a cut is neither lost nor counted twice; it is in the next cut.
    2. Messages right of a cut are not read again. They cost one total for each interval, not one for each message.
    3. A task without messages holds no other task back: its last checkpoint stands for every later time.
    4. While the clock stands still, the last checkpoint is repeated after an interval of processing time, so that
       either time bounds the replay.

    Recovery begins before the job's committed positions when the commit was later than the checkpoint. The outputs of
    `process_message` for such messages were sent already and are dropped, so that `task.guarantee` holds for them, if
    the task is deterministic. The outputs of `on_checkpoint` may be repeated.

    The state is in memory and written as a whole: it is for totals, not for a table. Stores and sinks cannot go back
    with it, so such a task has none. After a change of the interval, a total of an old interval stays right of the cuts
    in it.
    """

    @abstractmethod
    def process_message(self, state: PersistentState[T], message: IncomingMessageEnvelope) -> None:
        """Update the state by `state.update(message.event_time, item)`, as often as you like; `self.collector`
        sends."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Update the state with the message, completely or not at all."""
        self.collector = collector
        if self._out and envelope.ssp in self._out:
            self._go_on(envelope)
        state = self._state
        state.begin(envelope.event_time)
        try:
            self.process_message(state, envelope)
            state.settle()
        except BaseException:
            state.roll_back()
            raise

    def _go_on(self, envelope: IncomingMessageEnvelope) -> None:
        if envelope.offset < self._out[envelope.ssp]:
            self.collector = _OUT_ALREADY
        else:
            del self._out[envelope.ssp]


class PersistentBatchTask(FoldingTask[T], BatchTask[Any, Any]):
    """Like PersistentTask, a run of messages of one partition at a time: `state.add_all(batch, value=...)` folds it.

    1. All messages of a run meet the state as the clock was before the run.
    2. Where the outputs of a run were sent in part before a crash, the messages of that part have a call of their own.
    """

    @abstractmethod
    def process_messages(self, state: PersistentState[T], batch: MessageBatch[Any, Any]) -> None:
        """Update the state by `state.add_all(batch, value=..., time=...)`, as often as you like; `self.collector`
        sends."""

    def process_batch(
        self, batch: MessageBatch[Any, Any], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Update the state with the messages, all of them or none."""
        out = self._out.get(batch.ssp)
        sent = 0 if out is None else bisect_left(batch.offsets, out)
        state = self._state
        state.begin_batch()
        try:
            for part, outputs in ((batch[:sent], _OUT_ALREADY), (batch[sent:] if sent else batch, collector)):
                if part:
                    self.collector = outputs
                    self.process_messages(state, part)
            if collector.undecided:
                state.roll_back()
                return
            state.settle()
        except BaseException:
            state.roll_back()
            raise
        if out is not None and batch.offsets[-1] >= out:
            del self._out[batch.ssp]
