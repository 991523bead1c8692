"""Processes the messages of a task under its job's error policies: undoes one that fails, and applies the policy.

A batch that fails leaves no trace: its outputs and its rows for sinks are dropped, and the changes of stores and timers
are undone. Then its halves are processed one after the other, each by a separate call, and so on until a message that
fails stands alone. The policy applies to that message only. All others are processed once, in order; k failing messages
among n cost about 2 k log2(n) more calls. A request to the coordinator interrupts the search, and so does the pause
before a retry. The next call begins with all that is left.

If the policies only fail, the attempt ends anyway. The same search then finds the message that the error names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.errors.recovery import RetryInterrupted, TolerantCollector, UndoJournal, is_about_its_message
from samzapy.container.outputs.collector import BufferingCollector, Mark
from samzapy.container.tasks.synchronous import Process, ProcessBatch, Processing, as_batch
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import RecordRefused, SerdeError


class TolerantProcessing(Processing):
    """Undoes a `process` that raised: drops its outputs and its rows for sinks, and restores the stores. Then the
    message is repeated, skipped or made a dead letter. Requests to the coordinator stay."""

    __slots__ = ("_collector", "_journal", "_process", "_recovery", "_task")

    def __init__(
        self, task: TaskInstance, process: Process, collector: TolerantCollector, journal: UndoJournal
    ) -> None:
        self._task = task
        self._process = process
        self._collector = collector
        self._recovery = collector.recovery
        self._journal = journal

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        self._task.touched = True
        try:
            done = self._process_run(envelopes)
        finally:
            self._recovery.input = None
            self._journal.end()
        # After the clean-up: `passed` may call `on_clock`. Its outputs have no input message, so their failure must not
        # give the last message back.
        if done:
            self._task.passed(ssp, envelopes, done)
        return done

    def _process_run(self, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        task, process, collector, requests = self._task, self._process, self._collector, self._task.requests
        recovery, begin, mark = self._recovery, self._journal.begin, collector.mark
        done = 0
        try:
            for envelope in envelopes:
                begin()
                recovery.input = envelope
                gathered = mark()
                try:
                    if (returned := process(envelope, collector, requests)) is not None:
                        task.refuse_returned(f"process of {envelope.position}", returned)
                except BaseException as failure:  # noqa: BLE001  # sorted out by kind
                    self._recover(envelope, gathered, failure)
                done += 1
                if requests.pending:
                    break
        except RetryInterrupted:
            self._undo(envelope, gathered)
        return done

    def _recover(self, envelope: IncomingMessageEnvelope, gathered: Mark, failure: BaseException) -> None:
        task = self._task
        if not is_about_its_message(failure):
            task.raise_failure(envelope, failure)
        self._undo(envelope, gathered)

        def again() -> Exception | None:
            try:
                if (returned := self._process(envelope, self._collector, task.requests)) is not None:
                    task.refuse_returned(f"process of {envelope.position}", returned)
            except BaseException as repeated:  # noqa: BLE001  # sorted out by kind
                if is_about_its_message(repeated):
                    self._undo(envelope, gathered)
                    return repeated
                task.raise_failure(envelope, repeated)
            return None

        final = self._recovery.recover(failure, again)
        if final is not None:
            task.raise_failure(envelope, final)

    def _undo(self, envelope: IncomingMessageEnvelope, gathered: Mark) -> None:
        self._collector.back_to(gathered)
        self._task.sinks.forget(envelope)
        self._journal.undo()


#: The start of a batch's outputs, and of its rows in each sink.
_Before = tuple[Mark, Sequence[int | None]]


class BatchProcessing(Processing):
    """The parts of a processing that undoes calls of `process_batch`."""

    def __init__(
        self, task: TaskInstance, process: ProcessBatch, collector: BufferingCollector, journal: UndoJournal
    ) -> None:
        self._task = task
        self._process = process
        self._collector = collector
        self._journal = journal

    def _begin(self) -> _Before:
        self._journal.begin()
        return self._collector.mark(), self._task.sinks.marks()

    def _call(self, part: MessageBatch[Any, Any]) -> BaseException | None:
        task = self._task
        try:
            if (returned := self._process(part, self._collector, task.requests)) is not None:
                task.refuse_returned(f"process_batch of {part.position}", returned)
        except BaseException as failure:  # noqa: BLE001  # sorted out by kind
            return failure
        return None

    def _undo(self, part: MessageBatch[Any, Any], before: _Before) -> None:
        self._collector.back_to(before[0])
        self._task.sinks.back_to(before[1], part)
        self._journal.undo()


class HalvingProcessing(BatchProcessing):
    """Halves the batches that fail. Requests to the coordinator stay, also requests of an undone call."""

    _collector: TolerantCollector

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        self._task.touched = True
        batch, recovery = as_batch(envelopes), self._collector.recovery
        try:
            done = self._halve(batch)
        finally:
            self._journal.end()
            recovery.input = None
            self._collector.begin_run(several=False)
        # After the clean-up: `passed` may call `on_clock`, and its outputs have no input message.
        if done:
            self._task.passed(ssp, batch, done)
        return done

    def _halve(self, batch: MessageBatch[Any, Any]) -> int:
        done, waiting = 0, [batch]
        while waiting:
            part = waiting.pop()
            several = len(part) > 1
            self._collector.begin_run(several=several)
            self._collector.recovery.input = None if several else part[0]
            before = self._begin()
            try:
                halves = self._try(part, before)
            except RetryInterrupted:
                self._undo(part, before)
                break
            waiting += halves
            if not halves:
                done += len(part)
                if self._task.requests.pending:
                    break
        return done

    def _try(self, part: MessageBatch[Any, Any], before: _Before) -> Sequence[MessageBatch[Any, Any]]:
        """Process a part; if it fails, returns its halves, the latter first, to be processed instead."""
        failure = self._call(part)
        if failure is None and not self._collector.undecided:
            return ()
        undecided = self._collector.undecided and isinstance(failure, (SerdeError, RecordRefused))
        if failure is not None and not undecided and not is_about_its_message(failure):
            self._task.raise_failure(part, failure)
        self._undo(part, before)
        if len(part) > 1:
            half = len(part) // 2
            return part[half:], part[:half]
        assert isinstance(failure, Exception)

        def again() -> Exception | None:
            repeated = self._call(part)
            if repeated is not None:
                if not is_about_its_message(repeated):
                    self._task.raise_failure(part, repeated)
                self._undo(part, before)
            return repeated

        final = self._collector.recovery.recover(failure, again)
        if final is not None:
            self._task.raise_failure(part, final)
        return ()


class SearchingProcessing(BatchProcessing):
    """The first batch that fails ends the attempt, over the message that fails alone.

    1. The messages before it are processed once, as in a StreamTask. No commit has them.
    2. If a batch fails and neither half does, the error names the whole batch.
    3. A refusal of a store and a failed serialization are about a message, too; other errors of ours end the attempt at
       once.
    """

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        task, batch = self._task, as_batch(envelopes)
        task.touched = True
        before = self._begin()
        if (failure := self._call(batch)) is not None:
            self._end(batch, failure, before)
        self._journal.end()
        task.passed(ssp, batch, len(batch))
        return len(batch)

    def _end(self, batch: MessageBatch[Any, Any], failure: BaseException, before: _Before) -> NoReturn:
        while len(batch) > 1 and _may_be_about_one(failure):
            self._undo(batch, before)
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                before = self._begin()
                again = self._call(part)
                if again is not None:
                    batch, failure = part, again
                    break
            else:
                break
        self._task.raise_failure(batch, failure)


def _may_be_about_one(failure: BaseException) -> bool:
    """Whether a failure of a batch may be about one message of it."""
    if isinstance(failure, SerdeError):
        return not failure.late
    return is_about_its_message(failure)
