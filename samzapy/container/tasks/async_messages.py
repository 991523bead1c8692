"""The messages of an asynchronous task: accepted, in flight, and done up to a position."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import AsyncStreamTask, CoroutineTask
from samzapy.clock import Clock
from samzapy.config.tasks.error_policy import Stage
from samzapy.config.tasks.task import AsyncConfig
from samzapy.container.errors.recovery import TolerantCollector, is_about_its_message
from samzapy.container.errors.undo_journal import UndoJournal
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.outputs.collector import Mark
from samzapy.container.outputs.output_ids import OutputIdCollector, OutputIds
from samzapy.container.tasks.async_message import (
    MOST_HELD_BYTES,
    ContiguousPrefix,
    MessageInFlight,
    OutputOrder,
    WaitingMessages,
    Work,
)
from samzapy.container.tasks.event_loop import EventLoop
from samzapy.container.tasks.executor import Quiet
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import SerdeError, TaskFailed

logger = logging.getLogger(__name__)

#: The task returns to the run loop after this number of messages that end as they start.
_MOST_STARTS = 100


def _interrupted(cancelled: BaseException) -> Exception:
    """The failure of a message that awaited a call which somebody else has cancelled. asyncio's own exception is no
    Exception, so no policy would apply to it."""
    failure = RuntimeError("a call that it awaited was cancelled")
    failure.__cause__ = cancelled
    return failure.with_traceback(cancelled.__traceback__)


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
        clock: Clock,
        *,
        ids: OutputIds | None = None,
        most_held_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        """`collector` is the task's, `journal` its stores'. With `ids` outputs carry the id of their input; while as
        many bytes of them are held, no new message starts."""
        self.task = task
        self._journal = journal
        self._events = events
        self._config = config
        self._clock = clock
        self._recovery = collector.recovery
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
        if quiet is Quiet.COMMIT and one_at_a_time:
            return bool(self._in_flight)
        return self.unsettled

    @property
    def holds_up_stop(self) -> bool:
        """Whether a stop must wait for some message.

        The stop leaves a message that waits for its repetition to the next start, since no commit covers it. It waits
        for the message if later ones of the partition are done, unless `task.async.commit` leaves these out of the
        commit.
        """
        if self._in_flight:
            return True
        left = self._config.commit_in_flight and self.waiting.repeating > 0
        return not left and any(each.gapped for each in self._prefixes.values())

    @property
    def repeats_in_s(self) -> float:
        """The seconds until the first repetition; infinity if no message waits for one."""
        return self.waiting.repeats_at - self._events.time()

    @property
    def commits_in_flight(self) -> bool:
        """Whether a commit need not wait until nothing is unsettled."""
        return self._config.commit_in_flight

    def accept(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        undecodable = envelopes if type(envelopes) is Undecodable else None
        stage = Stage.DESERIALIZE if undecodable is not None else Stage.PROCESS
        if ssp not in self._prefixes:  # not before `init`, which may set another starting offset
            self._prefixes[ssp] = ContiguousPrefix(self.task.offsets[ssp])
        policy, follow, accept = self._recovery.policy(stage), self._prefixes[ssp].accept, self.waiting.accept
        for envelope in envelopes:
            follow(envelope.offset)
            accept(Work(envelope, undecodable, pauses=policy.pauses_s()))

    def skip(self, ssp: SystemStreamPartition, offset: int) -> None:
        self._prefixes.setdefault(ssp, ContiguousPrefix(self.task.offsets[ssp])).accept(offset)
        self._complete(ssp, offset, self._order.mark())
        self.task.touched = True

    def start(self, now: float, *, only_overtaken: bool = False) -> None:
        """Start messages while there is room; with `only_overtaken`, only messages that a commit waits for."""
        until = self._events.time()
        for _ in range(max(self._config.max_concurrency, _MOST_STARTS)):
            if self._failure is not None or (self.task.requests.pending and not only_overtaken):
                return
            repeated = self.waiting.due(until) if self.waiting.repeating else None
            work = repeated or self._next(only_overtaken)
            if work is None:
                return
            self.task.touched = True
            if work.undecodable is not None:
                self._decode_again(work, work.undecodable)
            else:
                self._begin(work, now)

    def _next(self, only_overtaken: bool) -> Work | None:
        """The message to start, None if there is no room. A message that waits for its repetition takes up room."""
        if len(self._in_flight) + self.waiting.repeating >= self._config.max_concurrency:
            return None
        return self.waiting.released() if only_overtaken or self._order.full else self.waiting.next()

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
                    f"{timeout_ms} ms "
                    "(task.callback.timeout.ms)"
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
        self._events.cancel([each.coroutine for each in self._in_flight.values() if each.coroutine is not None])
        self._in_flight.clear()

    def _begin(self, work: Work, now: float) -> None:
        message = MessageInFlight(work, now, self._end)
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
            logger.warning(
                "%s: %s has ended already; a further callback is ignored",
                self.task.name,
                message.work.envelope.position,
            )
            return
        message.ended = True
        del self._in_flight[id(message)]
        self._events.news()
        try:
            if failure is None and then is not None:
                failure = self._failure_in(message, then)
            if isinstance(failure, self._events.cancelled):
                failure = _interrupted(failure)
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

    def _failure_in(self, message: MessageInFlight, then: Callable[[], object]) -> BaseException | None:
        try:
            if (returned := then()) is not None:
                self.task.refuse_awaitable(f"complete(then) of {message.work.envelope.position}", returned)
        except BaseException as failure:  # noqa: BLE001  # sorted out by kind
            return failure
        return None

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
        if not self._dealt_with(Stage.PROCESS, work, failure):
            self.task.raise_failure(work.envelope, failure)

    def _decode_again(self, work: Work, undecodable: Undecodable) -> None:
        """The turn of a message that did not decode: the first time its failure is known, later decoding is tried."""
        failure = undecodable.failure
        try:
            if work.tried:
                work.envelope, work.undecodable = undecodable.decode(), None
                work.pauses = self._recovery.policy(Stage.PROCESS).pauses_s()
                if self.waiting.enter(work):
                    self._begin(work, self._clock.monotonic())
                return
        except SerdeError as again:
            failure = again
        work.tried = True
        if not self._dealt_with(Stage.DESERIALIZE, work, failure):
            self._failure = failure

    def _dealt_with(self, stage: Stage, work: Work, failure: Exception) -> bool:
        """Schedule a repetition of the message, skip it, or write its dead letter; False if the attempt must end."""
        recovery, mark = self._recovery, self._order.mark()
        recovery.input = work.envelope
        pause_s = None if recovery.policy(stage).ignores(failure) else next(work.pauses, None)
        if pause_s is not None:
            recovery.retrying(stage, failure, pause_s)
            self.waiting.repeat(work, self._events.time() + pause_s)
        elif recovery.give_up(stage, failure):
            self._done(work, mark)
        else:
            return False
        recovery.input = None
        return True

    def _done(self, work: Work, mark: Mark) -> None:  # its outputs, a letter included, were gathered since `mark`
        self._complete(work.envelope.ssp, work.envelope.offset, mark)
        task = self.task
        task.touched = True
        if work.undecodable is None:
            task.processed += 1
            task.throughput.add(work.envelope.ssp, 1)
        self.waiting.done(work)

    def _complete(self, ssp: SystemStreamPartition, offset: int, mark: Mark) -> None:
        position = self.task.offsets[ssp] = self._prefixes[ssp].complete(offset)
        self._order.done(ssp, offset, position, mark)
