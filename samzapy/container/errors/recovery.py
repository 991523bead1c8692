"""Carries out an error policy: repeats, then fails, skips, or writes a dead letter. Counts and logs it.

Its collectors ask the policy about outputs that cannot be sent, and take back the outputs of a failed message.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from samzapy.api.collector import MessageCollector, columns_of
from samzapy.api.envelope import Headers, IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemProducer
from samzapy.clock import Clock
from samzapy.config.tasks.error_policy import Action, ErrorConfig, ErrorPolicy, Stage
from samzapy.container.errors.dead_letters import DeadLetters
from samzapy.container.errors.user_failures import one_line, user_line, whole_traceback
from samzapy.container.event_time.control_messages import ControlRecords
from samzapy.container.outputs.collector import BufferingCollector, Mark, Outbox, SerdesOf, no_envelope
from samzapy.container.outputs.producers import RecordLimit
from samzapy.errors import RecordTooLarge, SamzapyError, SerdeError, StoreRefused
from samzapy.job.lease import UserFailure

_DONE = {Action.SKIP: "skipped", Action.DEAD_LETTER: "dead-lettered"}


def is_about_its_message(failure: BaseException) -> TypeGuard[Exception]:
    """Whether the message is the cause of a failure of `process`. Failed stores and producers, a lost lease and an exit
    of the interpreter have other causes: they end the attempt under every policy. A store that refuses a key or a value
    has not failed."""
    if isinstance(failure, SerdeError):
        return failure.refused
    if isinstance(failure, SamzapyError):
        return isinstance(failure, StoreRefused)
    return isinstance(failure, Exception)


class LastFailure:
    """The last failure of a container's messages that a policy has handled, as shown to people."""

    def __init__(self) -> None:
        self.failure: UserFailure | None = None

    def note(self, task: str, where: str, envelope: IncomingMessageEnvelope | None, failure: BaseException) -> None:
        partition, offset = ("", -1) if envelope is None else (str(envelope.ssp), envelope.offset)
        about = type(failure).__name__, one_line(failure), task, where
        self.failure = UserFailure(*about, user_line(failure), whole_traceback(failure), partition, offset, offset)


class Recovery:
    """Deals with the failures of one task. `input` is the message at hand, None outside of `process`.

    The counters are `errors.STAGE.skipped`, `.retried` and `.dead-lettered`.

    A container that is to stop does not wait for a repetition: the message at hand is given back, unprocessed, if it
    can be (`gives_back`). For a failure that is about no message, the repetitions follow without pauses.
    """

    def __init__(
        self,
        task_name: str,
        errors: ErrorConfig,
        metrics: MetricsRegistry,
        pause: Callable[[float], None],
        log: PolicyLog,
        letters: DeadLetters | None,
        last: LastFailure,
        *,
        gives_back: bool = False,
    ) -> None:
        self._task_name = task_name
        self._gives_back = gives_back
        self._errors = errors
        self._pause = pause
        self._log = log
        self._last = last
        self._letters = letters
        self._counts = {
            (stage, what): metrics.counter("errors", f"{stage.value}.{what}")
            for stage in Stage
            for what in ("retried", *_DONE.values())
        }
        self._numbered: tuple[IncomingMessageEnvelope | None, int] = (None, 0)
        self.input: IncomingMessageEnvelope | None = None

    def policy(self, stage: Stage) -> ErrorPolicy:
        return self._errors.policies[stage]

    def recover(
        self, stage: Stage, failure: Exception, again: Callable[[], Exception | None] | None = None
    ) -> Exception | None:
        """Deal with `failure` of the message at hand; returns None, or the failure that ends the attempt.

        `again` repeats the failed call and returns its failure, None if it succeeds; without it nothing is repeated.
        Raises RetryInterrupted, and RecordTooLarge for a dead letter that does not fit.
        """
        policy = self.policy(stage)
        last: Exception = failure
        if again is not None and not policy.ignores(failure):
            for seconds in policy.pauses_s():
                self.retrying(stage, last, seconds)
                self._wait(seconds)
                outcome = again()
                if outcome is None:
                    return None
                last = outcome
        return None if self.give_up(stage, last) else last

    def _wait(self, seconds: float) -> None:
        try:
            self._pause(seconds)
        except RetryInterrupted:
            if self._gives_back and self.input is not None:
                raise

    def retrying(self, stage: Stage, failure: BaseException, seconds: float) -> None:
        self._note(stage, "retried", failure, f"trying again in {seconds:g} s")

    def give_up(self, stage: Stage, failure: BaseException) -> bool:
        """Skip the message at hand or write its dead letter; False if the policy is to fail. Raises RecordTooLarge."""
        policy = self.policy(stage)
        action = Action.SKIP if policy.ignores(failure) else policy.then
        if action is Action.FAIL:
            return False
        if action is Action.DEAD_LETTER:
            assert self._letters is not None
            try:
                self._letters.write(stage, failure, self.input, self._number())
            except RecordTooLarge as refused:
                return self._without_letter(refused, failure)
        self._note(stage, _DONE[action], failure, _DONE[action])
        return True

    def _without_letter(self, refused: RecordTooLarge, failure: BaseException) -> bool:
        """Skip the message at hand if the policy of `produce` is to skip records that are too large. Raises
        `refused`."""
        policy = self.policy(Stage.PRODUCE)
        refused.__cause__ = failure
        if policy.then is not Action.SKIP and not policy.ignores(refused):
            raise refused
        self._note(Stage.PRODUCE, _DONE[Action.SKIP], refused, _DONE[Action.SKIP])
        return True

    def taken_back(self) -> None:
        """The outputs of the message at hand are dropped, dead letters included: number the letters from the start."""
        self._numbered = (None, 0)

    def _number(self) -> int:
        envelope, number = self._numbered
        number = number + 1 if envelope is self.input else 0
        self._numbered = (self.input, number)
        return number

    def _note(self, stage: Stage, what: str, failure: BaseException, doing: str) -> None:
        self._counts[stage, what].count += 1
        where = self.input.position if self.input is not None else "no input"
        shown = f"{type(failure).__name__}: {' '.join(str(failure).split())[:300]}"
        line = f"{self._task_name}: {stage.value} of {where} failed, {doing}: {shown}"
        if self._log.warn(f"{stage.value} {what}", line, failure):
            self._last.note(self._task_name, f"{stage.value} of {where}", self.input, failure)


_LONGEST_WAIT_S = 0.05


class RetryInterrupted(SamzapyError):
    """Raised instead of a repetition when the container is to stop: the message stays unprocessed."""


class InterruptiblePause:
    """The pause before a message is tried again. `should_stop` is asked several times a second and may itself raise.

    `interrupt` makes the task return after the current message. So a due commit comes before the pause of the next
    message, and the pauses of many messages do not add up to more than the time-out of a transaction.
    """

    def __init__(self, should_stop: Callable[[], bool], interrupt: Callable[[], object]) -> None:
        self._should_stop = should_stop
        self._interrupt = interrupt
        self._wait = threading.Event().wait

    def __call__(self, seconds: float) -> None:
        """Wait. Raises RetryInterrupted when the container is to stop."""
        left = seconds
        if seconds > 0:
            self._interrupt()
        while True:
            if self._should_stop():
                raise RetryInterrupted("the container stops before the message could be tried again")
            if left <= 0:
                return
            self._wait(min(left, _LONGEST_WAIT_S))
            left -= _LONGEST_WAIT_S


logger = logging.getLogger(__name__)


class PolicyLog:
    """Warns at most once a period for each kind of action; the next line has the number of skipped ones."""

    def __init__(self, clock: Clock, period_s: float = 10.0) -> None:
        self._clock = clock
        self._period_s = period_s
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warn(self, kind: str, line: str, failure: BaseException | None = None) -> bool:
        """Log `line` with the traceback of `failure`, or count it if one of its kind was logged within the period;
        returns whether it is logged."""
        now = self._clock.monotonic()
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._next[kind] = now + self._period_s
        more = self._left_out.pop(kind, 0)
        more_in_words = f" (and {more} more like it since the last line)" if more else ""
        logger.warning("%s%s", line, more_in_words, exc_info=failure)
        return True


class TolerantCollector(BufferingCollector):
    """Asks the policy about outputs that do not serialize.

    A policy applies to one input. In a run of several inputs an output that fails raises, and sets `undecided`: the run
    is then undone and processed in smaller ones, whether the task lets the error through or not.
    """

    __slots__ = ("_again", "_several", "_undecided", "recovery")

    def __init__(
        self,
        serdes_of: SerdesOf,
        producer_of: Callable[[str], SystemProducer],
        control: ControlRecords,
        outbox: Outbox,
        recovery: Recovery,
    ) -> None:
        super().__init__(serdes_of, producer_of, control, outbox)
        self.recovery = recovery
        self._again = self._several = self._undecided = False

    @property
    def undecided(self) -> bool:
        return self._undecided

    def begin_run(self, *, several: bool) -> None:
        """The outputs from here on come from a run of several messages, or from one message."""
        self._several = several
        self._undecided = False

    def back_to(self, mark: Mark) -> None:
        super().back_to(mark)
        self.recovery.taken_back()

    def _refuse(self, envelope: OutgoingMessageEnvelope, cause: Exception) -> None:
        if self._again or self._several:
            self._undecided = self._several
            super()._refuse(envelope, cause)
        error = SerdeError(f"{envelope.system_stream}: cannot serialize {envelope!r}: {cause}")
        error.__cause__ = cause
        failure = self.recovery.recover(Stage.SERIALIZE, error, lambda: self._send_again(envelope))
        if failure is not None:
            raise failure

    def _send_again(self, envelope: OutgoingMessageEnvelope) -> Exception | None:
        self._again = True
        try:
            BufferingCollector.send(self, envelope)
        except SerdeError as failure:
            return failure
        finally:
            self._again = False
        return None


class CheckingCollector(TolerantCollector):
    """Asks the policy about outputs that their stream would refuse, before a producer sees them and is poisoned: too
    large, without a key for a compacted stream, or with a time stamp too far from now.

    A record's size is the size of its key, value and headers; the overhead of a system's own format is not counted. The
    limit of a stream that does not exist yet is asked for again after each hand-over, since the records may have
    created it.
    """

    __slots__ = ("_limit_of", "_limits", "_some_open", "_wall_ms")

    def __init__(
        self,
        serdes_of: SerdesOf,
        producer_of: Callable[[str], SystemProducer],
        control: ControlRecords,
        outbox: Outbox,
        recovery: Recovery,
        limit_of: Callable[[SystemStream], RecordLimit],
        wall_ms: Callable[[], int],
    ) -> None:
        """`limit_of` gives what a stream takes; called once for a stream that exists. `wall_ms`: the time now."""
        super().__init__(serdes_of, producer_of, control, outbox, recovery)
        self._wall_ms = wall_ms
        self._limit_of = limit_of
        self._limits: dict[SystemStream, RecordLimit] = {}
        self._some_open = False

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        stream = envelope.system_stream
        records = self._records_of(stream)
        before = len(records)
        super().send(envelope)
        if len(records) == before or records[-1].stream != stream.stream:
            return  # it did not serialize
        refusal = self._limit(stream).refusal(stream, records[-1], self._wall_ms)  # type: ignore[arg-type]
        if refusal is not None:
            records.pop()
            if self._several:
                self._undecided = True
                raise refusal
            failure = self.recovery.recover(Stage.PRODUCE, refusal)
            if failure is not None:
                raise failure

    def hand_over(self) -> None:
        super().hand_over()
        if self._some_open:
            self._limits = {stream: limit for stream, limit in self._limits.items() if limit.final}
            self._some_open = False

    def _limit(self, stream: SystemStream) -> RecordLimit:
        known = self._limits.get(stream)
        if known is None:
            known = self._limits[stream] = self._limit_of(stream)
            self._some_open |= not known.final
        return known

    def send_message(self, stream: SystemStream, message: Any, key: Any = None) -> None:
        MessageCollector.send_message(self, stream, message, key)

    def send_batch(
        self,
        stream: SystemStream,
        keys: Sequence[Any] | None,
        messages: Sequence[Any],
        *,
        partition_keys: Sequence[Any] | None = None,
        timestamps: Sequence[int | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        inputs: Sequence[int] | None = None,
    ) -> None:
        self._send_one_by_one(stream, columns_of(keys, messages, partition_keys, headers, timestamps, inputs))
