"""Runs asynchronous tasks on one asyncio loop: starts messages while there is room, waits for their ends, and keeps
commits free of gaps."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence

from samzapy.api.context import Gauge, Histogram
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import AsyncStreamTask, CoroutineTask
from samzapy.clock import Clock
from samzapy.config.error_policy import Stage
from samzapy.config.task import AsyncConfig, TaskConfig
from samzapy.container.errors.recovery import TolerantCollector, UndoJournal, is_about_its_message
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.outputs.collector import Mark
from samzapy.container.outputs.output_ids import OutputIdCollector, OutputIds
from samzapy.container.run_loop import Delivery, Load, Quiet, Step, TaskExecutor
from samzapy.container.tasks.in_flight import (
    ContiguousPrefix,
    EventLoop,
    MessageInFlight,
    OutputOrder,
    WaitingMessages,
    Work,
)
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import TaskFailed

logger = logging.getLogger(__name__)

#: The task returns to the run loop after this number of messages that end as they start.
_MOST_STARTS = 100
#: While a task holds so much it starts no new messages, so one that takes long does not fill the memory.
MOST_HELD_BYTES = 16 * 1024 * 1024
#: A task with the first number of waiting messages gets no more until they are down to the second.
_MOST_WAITING, _FEW_WAITING = 4_000, 1_000
#: The longest waits, in seconds: of a step, and for the messages that something else waits for.
_STEP_S, _SETTLE_S = 0.01, 0.1


class AsyncMessages:
    """The messages of one asynchronous task: `accept` takes them, `start` starts as many as may be in flight, `check`
    raises failures.

    1. All calls run on the run loop's thread; callbacks of other threads are handed over to it.
    2. The task's `offsets` are the contiguous prefix of completed messages, partition by partition. With ids outputs
       leave in that order.
    3. The outputs of a failed message, and its rows for sinks, are dropped. Its store changes are undone if no other
       message was in flight with it (`task.max.concurrency=1`), and stay otherwise.
    """

    def __init__(
        self,
        task: TaskInstance,
        collector: TolerantCollector,
        journal: UndoJournal,
        events: EventLoop,
        config: AsyncConfig,
        seconds: Histogram,
        *,
        ids: OutputIds | None = None,
        most_held_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        """`collector` is the task's, `journal` its stores'. `seconds` gets the time from the start of each message to
        its end. With `ids` outputs carry the id of their input; while as many bytes of them are held, no new message
        starts."""
        self.task = task
        self._journal = journal
        self._events = events
        self._config = config
        self._recovery = collector.recovery
        self._now, self._seconds, self._started_sum = collector.recovery.clock.monotonic, seconds, 0.0
        self._collector = collector
        self._identifying = None if ids is None else OutputIdCollector(collector, ids)
        self._order = OutputOrder(collector, in_order=ids is not None, most_held_bytes=most_held_bytes)
        self._prefixes: dict[SystemStreamPartition, ContiguousPrefix] = {}
        self._in_flight: dict[int, MessageInFlight] = {}
        self.waiting = WaitingMessages(key_order=config.key_order)
        self._failure: BaseException | None = None
        self._closed = False

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def in_flight_s(self, now: float) -> float:
        """The seconds that the messages in flight have taken so far, all together."""
        return now * len(self._in_flight) - self._started_sum

    @property
    def unsettled(self) -> bool:
        """Whether some message is incomplete that has started, or that a started one has overtaken."""
        return bool(self._in_flight) or self.waiting.overtaken

    def prevents(self, quiet: Quiet) -> bool:
        """Whether a message prevents what a wait is for. Messages that are processed one at a time are undone when they
        fail, with all changes since their start; and one of them that waits for its repetition makes no gap, since it
        is undone, and no later one has started."""
        one_at_a_time = self._config.max_concurrency == 1
        if quiet is Quiet.CHANGE:
            return one_at_a_time and bool(self._in_flight)
        if quiet is Quiet.COMMIT:
            return not self._config.commit_in_flight and (bool(self._in_flight) if one_at_a_time else self.unsettled)
        return self.unsettled

    @property
    def holds_up_stop(self) -> bool:
        """Whether a stop must wait for some message: one in flight, or one that waits for its repetition if later ones
        of the partition are done and `task.async.commit` does not leave them out of the commit. It leaves any other
        repetition to the next start."""
        if self._in_flight:
            return True
        left = self._config.commit_in_flight and self.waiting.repeating > 0
        return not left and any(item.gapped for item in self._prefixes.values())

    def accept(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        if type(envelopes) is Undecodable:
            mark = self._order.mark()
            self._recovery.pass_over(envelopes)
            self.skip(ssp, envelopes[0].offset, mark)
            return
        policy, follow = self._recovery.policy(Stage.PROCESS), self._prefix(ssp).accept
        for envelope in envelopes:
            follow(envelope.offset)
            self.waiting.accept(Work(envelope, policy.pauses_s()))

    def skip(self, ssp: SystemStreamPartition, offset: int, mark: Mark | None = None) -> None:
        """Move past a record that is no message; its letter, if there is one, was gathered since `mark`."""
        self._prefix(ssp).accept(offset)
        self._complete(ssp, offset, self._order.mark() if mark is None else mark)
        self.task.touched = True

    def _prefix(self, ssp: SystemStreamPartition) -> ContiguousPrefix:
        if ssp not in self._prefixes:  # not before `init`, which may set another starting offset
            self._prefixes[ssp] = ContiguousPrefix(self.task.offsets[ssp])
        return self._prefixes[ssp]

    def start(self, *, only_overtaken: bool = False) -> None:
        """Start messages while there is room; with `only_overtaken`, only messages that a commit waits for."""
        until = self._events.time()
        for _ in range(max(self._config.max_concurrency, _MOST_STARTS)):
            if self._failure is not None or (self.task.requests.pending and not only_overtaken):
                return
            repeated = self.waiting.due(until) if self.waiting.repeating else None
            work = repeated or self._next(only_overtaken)
            if work is None:
                return
            self._begin(work)

    def _next(self, only_overtaken: bool) -> Work | None:
        """The message to start, None if there is no room. A message that waits for its repetition takes up room. What
        is held may be letters of messages that do not decode: then the message before them has to start."""
        started = len(self._in_flight) + self.waiting.repeating
        if started >= self._config.max_concurrency:
            return None
        full = self._order.full and started > 0
        return self.waiting.released() if only_overtaken or full else self.waiting.next()

    def check(self, now: float) -> None:
        """Raise the error that ends the attempt: a failure, or a message that takes longer than it may."""
        if self._failure is not None:
            raise self._failure
        timeout_ms = self._config.callback_timeout_ms
        if timeout_ms > 0 and self._in_flight:
            oldest = next(iter(self._in_flight.values()))
            if now - oldest.started_at > timeout_ms / 1000.0:
                raise TaskFailed(
                    f"{self.task.name}: process of {oldest.work.envelope.position} was not completed within "
                    f"{timeout_ms} ms (task.callback.timeout.ms)"
                )

    @property
    def oldest(self) -> str | None:
        """The position of the message that has been in flight the longest, None if there is none; from any thread."""
        try:
            return next(iter(self._in_flight.values())).work.envelope.position
        except (StopIteration, RuntimeError):
            return None  # none, or they change at this moment

    def close(self) -> None:
        self._closed = True
        self._events.cancel([item.coroutine for item in self._in_flight.values() if item.coroutine is not None])
        self._in_flight.clear()

    def _begin(self, work: Work) -> None:
        self.task.touched = True
        message = MessageInFlight(work, self._now(), self._end)
        self._started_sum += message.started_at
        self._in_flight[id(message)] = message
        self._journal.begin()
        task = self.task.task
        if isinstance(task, CoroutineTask):
            message.coroutine = self._events.spawn(self._run(task.process, message))
            return
        assert isinstance(task, AsyncStreamTask)
        try:
            returned = task.process_async(work.envelope, message.outputs, self.task.requests, message)
            if returned is not None:
                self.task.refuse_returned(f"process_async of {work.envelope.position}", returned)
        except BaseException as failure:  # noqa: BLE001  # sorted out by kind
            if message.ended:
                self._failure = self.task.failure_of(work.envelope, failure)
            else:
                self._settle(message, failure, None)

    async def _run(self, process: Callable[..., Awaitable[object]], message: MessageInFlight) -> None:
        envelope = message.work.envelope
        try:
            if (returned := await process(envelope, message.outputs, self.task.requests)) is not None:
                self.task.refuse_returned(f"process of {envelope.position}", returned)
        except BaseException as failure:  # noqa: BLE001  # sorted out by kind
            self._settle(message, failure, None)
        else:
            self._settle(message, None, None)

    def _end(self, message: MessageInFlight, failure: BaseException | None, then: Callable[[], object] | None) -> None:
        self._events.hand_over(self._settle, message, failure, then)

    def _settle(
        self, message: MessageInFlight, failure: BaseException | None, then: Callable[[], object] | None
    ) -> None:
        if self._closed:
            return
        if message.ended:
            position = message.work.envelope.position
            logger.warning("%s: %s has ended already; a further callback is ignored", self.task.name, position)
            return
        message.ended = True
        del self._in_flight[id(message)]
        self._seconds.update(took := self._now() - message.started_at)
        self.task.seconds += took
        self._started_sum -= message.started_at
        self._events.news()
        try:
            if failure is None and then is not None:
                try:
                    if (returned := then()) is not None:
                        self.task.refuse_awaitable(f"complete(then) of {message.work.envelope.position}", returned)
                except BaseException as of_then:  # noqa: BLE001  # sorted out by kind
                    failure = of_then
            if isinstance(failure, self._events.cancelled):
                # asyncio's own exception is no Exception, so no policy would apply to it.
                cause, failure = failure, RuntimeError("a call that it awaited was cancelled")
                failure.__cause__ = cause
                failure = failure.with_traceback(cause.__traceback__)
            message.outputs.closed = True
            if failure is None:
                self._finish(message)
            else:
                self._recover(message.work, failure)
        except BaseException as fatal:  # noqa: BLE001  # raised by `check`: this may be asyncio's stack
            self._failure = self.task.failure_of(message.work.envelope, fatal)
        finally:
            if not self._in_flight:
                self._journal.end()

    def _finish(self, message: MessageInFlight) -> None:
        self._recovery.input = message.work.envelope
        if self._identifying is not None:
            self._identifying.begin(message.work.envelope)
        mark, before = self._order.mark(), self._collector.mark()
        try:
            message.outputs.send_to(self._identifying or self._collector)
        except Exception as failure:  # noqa: BLE001  # as if the task's own `send` had raised it
            self._collector.back_to(before)
            self._recover(message.work, failure)
            return
        self._recovery.input = None
        self._done(message.work, mark)

    def _recover(self, work: Work, failure: BaseException) -> None:
        if not is_about_its_message(failure):
            self.task.raise_failure(work.envelope, failure)
        self._journal.undo()
        self.task.sinks.forget(work.envelope)
        if not self._dealt_with(work, failure):
            self.task.raise_failure(work.envelope, failure)

    def _dealt_with(self, work: Work, failure: Exception) -> bool:
        """Schedule a repetition of the message, skip it, or write its dead letter; False if the attempt must end."""
        recovery, mark = self._recovery, self._order.mark()
        recovery.input = work.envelope
        pause_s = None if recovery.policy(Stage.PROCESS).ignores(failure) else next(work.pauses, None)
        if pause_s is not None:
            recovery.retrying(failure, pause_s)
            self.waiting.repeat(work, self._events.time() + pause_s)
        elif recovery.give_up(Stage.PROCESS, failure):
            self._done(work, mark)
        else:
            return False
        recovery.input = None
        return True

    def _done(self, work: Work, mark: Mark) -> None:  # its outputs, a letter included, were gathered since `mark`
        self._complete(work.envelope.ssp, work.envelope.offset, mark)
        task = self.task
        task.touched = True
        task.count(work.envelope.ssp, 1)
        self.waiting.done(work)

    def _complete(self, ssp: SystemStreamPartition, offset: int, mark: Mark) -> None:
        position = self.task.offsets[ssp] = self._prefixes[ssp].complete(offset)
        self._order.done(ssp, offset, position, mark)


class AsynchronousExecutor(TaskExecutor):
    """Keeps messages of the tasks in flight.

    1. A window, a timer and the end of a stream wait until their task has no message in flight.
    2. A commit covers the whole container, so it waits for all tasks: it holds the work of exactly the messages before
       its offsets. After `commit_max_delay_ms` it is skipped, and the next one tries again. With `task.async.commit` it
       does not wait, and its offsets are the end of the contiguous prefix.
    3. A stop waits for the messages in flight, `shutdown_ms` at most. After that the attempt ends without a commit.
    """

    def __init__(
        self,
        messages: Sequence[AsyncMessages],
        events: EventLoop,
        clock: Clock,
        should_stop: Callable[[], bool],
        config: TaskConfig,
        in_flight_s: Gauge,
    ) -> None:
        self._all = messages
        self._of = {item.task.name: item for item in messages}
        #: Those with messages that no step has followed.
        self._active: dict[str, AsyncMessages] = {}
        self._events = events
        self._clock = clock
        self._should_stop = should_stop
        self._config = config
        self._full: set[str] = set()
        self._busy, self._in_flight_s = False, in_flight_s

    @property
    def load(self) -> Load:
        active = self._active.values()
        for item in active:
            if len(item.waiting) >= _MOST_WAITING:
                self._full.add(item.task.name)
            elif len(item.waiting) <= _FEW_WAITING:
                self._full.discard(item.task.name)
        return Load(
            full=len(active) == len(self._all) and all(item.waiting for item in active),
            idle=not any(item.waiting or item.unsettled for item in active),
            busy=self._busy,
            # A partition waits for the slowest of its tasks.
            held=frozenset(ssp for name in self._full & self._active.keys() for ssp in self._of[name].task.offsets),
        )

    def process(
        self, deliveries: Iterable[Delivery], ended: Collection[SystemStreamPartition]
    ) -> Generator[Step, None, None]:
        for task, ssp, run in deliveries:
            own = self._of[task.name]
            if isinstance(run, ControlRun):
                while own.waiting or own.unsettled:
                    yield from self._advance()
                own.skip(ssp, run[0].offset)
                yield Step(task, control=(ssp, run.control))
            else:
                self._active[task.name] = own
                own.accept(ssp, run)
                task.event_clock.accepted(ssp, run)
        yield from self._advance()

    def settle(self, quiet: Quiet, task: TaskInstance | None = None, *, stopping: bool) -> str:
        messages = self._all if task is None else [self._of[task.name]]
        longest_s = math.inf
        if quiet is Quiet.COMMIT:
            longest_s = self._config.asynchronous.commit_max_delay_ms / 1000
        stop_requested_at: float | None = None
        began = self._clock.monotonic()
        while awaited := [item for item in messages if item.prevents(quiet)]:
            now, going_on = self._clock.monotonic(), messages
            if now - began > longest_s and not stopping:
                return _in_flight(messages)
            if stopping or self._should_stop():
                stop_requested_at = now if stop_requested_at is None else stop_requested_at
                going_on = awaited = [item for item in awaited if item.holds_up_stop]
                self._check_stop(awaited, now - stop_requested_at)
                if not awaited:
                    break
            for item in going_on:
                item.start(only_overtaken=True)
            for item in self._all:
                item.check(now)
            self._in_flight_s.set(sum(item.in_flight_s(now) for item in self._all))
            self._events.run(_SETTLE_S)
        for item in messages:
            item.check(self._clock.monotonic())
        return ""

    def close(self) -> None:
        for item in self._all:
            item.close()

    def _advance(self) -> Generator[Step, None, None]:
        """Start and check messages, and wait a little for those in flight."""
        now, active = self._clock.monotonic(), list(self._active.values())
        for item in active:
            item.start()
        for item in active:
            item.check(now)
            item.task.collector.hand_over()
            if not (item.waiting or item.unsettled):
                del self._active[item.task.name]
            yield Step(item.task, moved=item.task.event_clock.done())
        self._in_flight_s.set(sum(item.in_flight_s(self._clock.monotonic()) for item in active))
        # Before the wait: messages that end during it have outputs, which the next call hands over.
        self._busy = any(item.in_flight or item.waiting.ready or item.waiting.repeating for item in active)
        if any(item.unsettled for item in active):
            self._events.run(_STEP_S)

    def _check_stop(self, messages: Sequence[AsyncMessages], waited_s: float) -> None:
        """Raise TaskFailed when the stop has waited too long."""
        if messages and waited_s * 1000 > self._config.shutdown_ms:
            raise TaskFailed(
                f"messages are still in flight {self._config.shutdown_ms} ms (task.shutdown.ms) after the stop: "
                f"{_in_flight(messages)}"
            )


def _in_flight(messages: Sequence[AsyncMessages]) -> str:
    counts = ((item, item.in_flight, item.waiting.repeating) for item in messages if item.unsettled)
    return ", ".join(f"{item.task.name} ({n}{f' and {m} to be tried again' if m else ''})" for item, n, m in counts)
