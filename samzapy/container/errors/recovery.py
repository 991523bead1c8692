"""Carries out an error policy: repeats, then fails, skips, or writes a dead letter. Counts and logs it.

Its collectors ask the policy about outputs that cannot be sent, and take back the outputs of a failed message. Its
journal undoes the store changes of a failed message:

1. Each change first notes the old value, by one more read. The changes of a failed
   message are undone in reverse order.
2. An object that was changed in place cannot be undone. So stores hand out copies, unless the job file says
   `stores.X.object.cache.mode=reference`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from samzapy.api.collector import MessageCollector, columns_of
from samzapy.api.context import MetricsRegistry
from samzapy.api.envelope import Headers, IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemProducer
from samzapy.clock import Clock
from samzapy.config.error_policy import Action, ErrorConfig, ErrorPolicy, Stage
from samzapy.container.errors.user_failures import DeadLetters, HandledFailures, failure_of, in_step
from samzapy.container.event_time.control_messages import ControlRecords
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.outputs.collector import BufferingCollector, Mark, Outbox, SerdesOf, no_envelope
from samzapy.container.outputs.producers import RecordLimit
from samzapy.errors import RecordTooLarge, SamzapyError, SerdeError, StoreRefused
from samzapy.storage.kv.codec import entry_list, entry_mapping, key_list
from samzapy.storage.kv.forwarding import ForwardingStore, StoreLayer
from samzapy.storage.kv.values import WatchedStore

logger = logging.getLogger(__name__)

#: Seconds between two log lines of one kind.
LOG_S = 10.0
_LONGEST_WAIT_S = 0.05
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


class Recovery:
    """Deals with the failures of one task. `input` is the message at hand, None outside of `process`.

    The counters are `errors.STAGE.skipped`, `.retried` and `.dead-lettered`. Failures of one kind are logged once in
    `LOG_S` seconds; the next line has the number of skipped ones.
    """

    def __init__(
        self,
        task_name: str,
        errors: ErrorConfig,
        metrics: MetricsRegistry,
        pause: Callable[[float], None],
        clock: Clock,
        letters: DeadLetters | None,
        handled: HandledFailures,
    ) -> None:
        """`handled` gets the failures that a policy has handled, as shown to people, as long as it has room."""
        self._task_name = task_name
        self._errors = errors
        self._pause = pause
        self.clock = clock
        self._handled = handled
        self._letters = letters
        self._counts = {
            (stage, what): metrics.counter("errors", f"{stage.value}.{what}")
            for stage, policy in errors.policies.items()
            for what in ("retried", _DONE.get(policy.then, "retried"), "skipped" if policy.ignored else "retried")
        }
        self._numbered: tuple[IncomingMessageEnvelope | None, int] = (None, 0)
        #: By kind of line, when the next one is due, and the number of lines left out.
        self._next_line: dict[tuple[Stage, str], float] = {}
        self._left_out: dict[tuple[Stage, str], int] = {}
        self.input: IncomingMessageEnvelope | None = None

    def policy(self, stage: Stage) -> ErrorPolicy:
        return self._errors.policies[stage]

    def recover(self, failure: Exception, again: Callable[[], Exception | None]) -> Exception | None:
        """Deal with `failure` of `process` for the message at hand; returns None, or the failure that ends the attempt.

        `again` repeats the call and returns its failure, None if it succeeds. Raises RetryInterrupted, and
        RecordTooLarge for a dead letter that does not fit.
        """
        policy, last = self.policy(Stage.PROCESS), failure
        if not policy.ignores(failure):
            for seconds in policy.pauses_s():
                self.retrying(last, seconds)
                self._pause(seconds)
                outcome = again()
                if outcome is None:
                    return None
                last = outcome
        return None if self.give_up(Stage.PROCESS, last) else last

    def pass_over(self, run: Undecodable) -> None:
        """Deal with a message that does not decode. Raises its failure if the policy is to fail."""
        self.input = run[0]
        try:
            if not self.give_up(Stage.DESERIALIZE, run.failure):
                raise run.failure
        finally:
            self.input = None

    def retrying(self, failure: BaseException, seconds: float) -> None:
        self._note(Stage.PROCESS, "retried", failure, f"trying again in {seconds:g} s")

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
                refused.__cause__ = failure
                if self.policy(Stage.PRODUCE).then is not Action.SKIP:
                    raise
                stage, failure, action = Stage.PRODUCE, refused, Action.SKIP
        self._note(stage, _DONE[action], failure, _DONE[action])
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
        about = "no input" if self.input is None else self.input.position
        where = f"{stage.value} of {about}{in_step(failure)}"
        if self._handled.has_room:
            span = self.input and (str(self.input.ssp), self.input.offset, self.input.offset)
            shown = failure_of(failure, self._task_name, where, span)
            self._handled.add(shown.handled_as(what, self.clock.wall_ms()))
        kind, now = (stage, what), self.clock.monotonic()
        if now < self._next_line.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._next_line[kind] = now + LOG_S
        more = self._left_out.pop(kind, 0)
        shown = failure_of(failure, self._task_name, where, None)
        logger.warning(
            "%s: %s failed, %s: %s%s",
            self._task_name,
            where,
            doing,
            f"{shown.exception}: {shown.message[:300]}{shown.at and f' ({shown.at})'}",
            f" (and {more} more like it since the last line)" if more else "",
            exc_info=failure,
        )


class RetryInterrupted(SamzapyError):
    """Raised instead of a repetition when the container is to stop: the message stays unprocessed."""


def interruptible_pause(should_stop: Callable[[], bool], interrupt: Callable[[], object]) -> Callable[[float], None]:
    """The pause before a message is tried again. It asks `should_stop`, which may raise, several times a second, and
    raises RetryInterrupted when the container is to stop.

    `interrupt` makes the task return after the current message. So a due commit comes before the pause of the next
    message, and the pauses of many messages do not add up to more than the time-out of a transaction.
    """
    wait = threading.Event().wait

    def pause(seconds: float) -> None:
        left = seconds
        if seconds > 0:
            interrupt()
        while not should_stop():
            if left <= 0:
                return
            wait(min(left, _LONGEST_WAIT_S))
            left -= _LONGEST_WAIT_S
        raise RetryInterrupted("the container stops before the message could be tried again")

    return pause


class TolerantCollector(BufferingCollector):
    """Asks the policy about outputs that do not serialize.

    A policy applies to one input. In a run of several inputs an output that fails raises, and sets `undecided`: the run
    is then undone and processed in smaller ones, whether the task lets the error through or not.
    """

    __slots__ = ("_several", "_undecided", "recovery")

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
        self._several = self._undecided = False

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
        if self._several:
            self._undecided = True
            super()._refuse(envelope, cause)
        error = self._refusal(envelope, cause)
        if not self.recovery.give_up(Stage.SERIALIZE, error):
            raise error


class CheckingCollector(TolerantCollector):
    """Asks the policy about outputs that their stream would refuse, before a producer sees them and is poisoned. A
    record's size is the size of its key, value and headers; the overhead of a system's own format is not counted."""

    __slots__ = ("_limit_of", "_limits")

    def __init__(
        self,
        serdes_of: SerdesOf,
        producer_of: Callable[[str], SystemProducer],
        control: ControlRecords,
        outbox: Outbox,
        recovery: Recovery,
        limit_of: Callable[[SystemStream], RecordLimit],
    ) -> None:
        """`limit_of` gives what a stream takes; called again as long as no size is known."""
        super().__init__(serdes_of, producer_of, control, outbox, recovery)
        self._limit_of = limit_of
        self._limits: dict[SystemStream, RecordLimit] = {}

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        stream = envelope.system_stream
        records = self._records_of(stream)
        before = len(records)
        super().send(envelope)
        if len(records) == before or records[-1].stream != stream.stream:
            return  # it did not serialize
        limit = self._limits.get(stream) or self._limit_of(stream)
        if limit.record_bytes is not None:
            self._limits[stream] = limit
        refusal = limit.refusal(stream, records[-1], self.recovery.clock)  # type: ignore[arg-type]
        if refusal is None:
            return
        records.pop()
        self._undecided = self._several
        if self._several or not self.recovery.give_up(Stage.PRODUCE, refusal):
            raise refusal

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


Store = StoreLayer[Any, Any]

#: In place of a key: the (key, value) pairs of many are noted.
_MANY = object()


class UndoJournal:
    """The old values of the entries that the message at hand has changed, in all stores of one task.

    Changes before `begin` and after `end`, as in `window` or a timer, are never undone, and so not noted.
    """

    def __init__(self) -> None:
        self._before: list[tuple[Store, Any, Any]] = []
        self._watched: list[WatchedStore[Any, Any]] = []
        self._noting = False

    def watching(self, stores: Mapping[str, StoreLayer[Any, Any]]) -> dict[str, StoreLayer[Any, Any]]:
        self._watched = [store for store in stores.values() if isinstance(store, WatchedStore)]
        return {name: JournaledStore(name, store, self) for name, store in stores.items()}

    def begin(self) -> None:
        self._noting = True
        if self._before:
            self._before.clear()

    def end(self) -> None:
        self._noting = False
        self._before.clear()

    def note(self, store: Store, key: Any) -> None:
        if self._noting:
            self._before.append((store, key, store.get(key)))

    def note_all(self, store: Store, keys: Sequence[Any]) -> None:
        if not self._noting:
            return
        result = store.get_all(keys)
        if len(result) == len(keys):
            self._before.append((store, _MANY, result.items()))
            return
        # Keys may be repeated, or equal in Python and still different keys of the store, such as 1 and True.
        for key in keys:
            self.note(store, key)

    def note_changed(self, store: Store, keys: Sequence[Any], values: Sequence[Any]) -> None:
        if self._noting:
            self._before.append((store, _MANY, zip(keys, values, strict=True)))

    def undo(self) -> None:
        for store, key, value in reversed(self._before):
            if key is _MANY:
                pairs = list(value)
                store.put_all([pair for pair in pairs if pair[1] is not None])
                store.delete_all([item for item, held in pairs if held is None])
            elif value is None:
                store.delete(key)
            else:
                store.put(key, value)
        self._before.clear()
        for watched in self._watched:
            watched.forget()


class JournaledStore(ForwardingStore[Any, Any]):
    """A task's store that notes its changes in a journal, with the whole entries as `StoreLayer.undone` has them."""

    __slots__ = ("_journal", "_name", "_undone")

    def __init__(self, name: str, store: StoreLayer[Any, Any], journal: UndoJournal) -> None:
        super().__init__(store)
        self._name = name
        self._journal = journal
        self._undone = store.undone

    def put(self, key: Any, value: Any) -> None:
        self._journal.note(self._undone, key)
        self._inner.put(key, value)

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        if isinstance(entries, Mapping):
            self._journal.note_all(self._undone, list(entries))
            self._inner.put_all(entries)
            return
        pairs = entry_list(self._name, entries)
        self._journal.note_all(self._undone, [key for key, _ in pairs])
        self._inner.put_all(pairs)

    def merge_all(self, entries: Mapping[Any, Any], combine: Callable[[Any, Any], Any]) -> None:
        if self._undone is self._inner:
            changed = self._inner.exchange_all(entry_mapping(self._name, entries), combine)
            self._journal.note_changed(self._inner, *changed)
            return
        self._journal.note_all(self._undone, list(entry_mapping(self._name, entries)))
        self._inner.merge_all(entries, combine)

    def delete(self, key: Any) -> None:
        self._journal.note(self._undone, key)
        self._inner.delete(key)

    def delete_all(self, keys: Iterable[Any]) -> None:
        unwanted = key_list(self._name, keys)
        self._journal.note_all(self._undone, unwanted)
        self._inner.delete_all(unwanted)
