"""Processes the batches of a task under its job's error policies: finds the message that fails, and undoes the rest.

A batch that fails leaves no trace: its outputs and its rows for sinks are dropped, and the changes of stores and timers are
undone. Then its halves are processed one after the other, each by a separate call, and so on until a message that fails
stands alone. The policy applies to that message only. All others are processed once, in order; k failing messages among n
cost about 2 k log2(n) more calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from samzapy.api.batch import MessageBatch
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.tasks.error_policy import Stage
from samzapy.container.errors.processing import UndoingProcessing
from samzapy.container.errors.recovery import RetryInterrupted, is_about_its_message
from samzapy.container.outputs.collector import Mark
from samzapy.container.tasks.batches import ProcessBatch, as_batch


class _Before(NamedTuple):
    """Where outputs and rows of a batch begin."""

    outputs: Mark
    rows: Sequence[int | None]


class HalvingProcessing(UndoingProcessing[ProcessBatch]):
    """Halves the batches that fail. Requests to the coordinator stay, also those of a call that was undone."""

    __slots__ = ()

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        self._task.touched = True
        try:
            return self._halve(ssp, as_batch(envelopes))
        finally:
            self._recovery.input = None
            self._collector.begin_run(several=False)

    def _halve(self, ssp: SystemStreamPartition, batch: MessageBatch[Any, Any]) -> int:
        done, waiting = 0, [batch]
        while waiting:
            part = waiting.pop()
            before = self._begin(part)
            try:
                left = self._try(part, before)
            except RetryInterrupted:
                self._undo(part, before)
                break
            if left:
                waiting += left
                continue
            done += len(part)
            if self._task.requests.pending:
                break
        if done:
            self._task.passed(ssp, batch, done)
        return done

    def _try(self, part: MessageBatch[Any, Any], before: _Before) -> Sequence[MessageBatch[Any, Any]]:
        """Process a part; if it fails, returns its halves, the latter first, to be processed instead."""
        failure = self._call(part)
        if failure is None and not self._collector.undecided:
            return ()
        if failure is not None and not is_about_its_message(failure):
            self._task.raise_failure(part, failure)
        self._undo(part, before)
        if len(part) > 1:
            half = len(part) // 2
            return part[half:], part[:half]
        assert failure is not None
        self._recover(part, before, failure)
        return ()

    def _begin(self, part: MessageBatch[Any, Any]) -> _Before:
        several = len(part) > 1
        self._journal.begin()
        self._collector.begin_run(several=several)
        self._recovery.input = None if several else part[0]
        return _Before(self._collector.mark(), self._task.sinks.marks())

    def _call(self, part: MessageBatch[Any, Any]) -> BaseException | None:
        task = self._task
        try:
            if (returned := self._process(part, self._collector, task.requests)) is not None:
                task.refuse_awaitable(f"process_batch of {part.position}", returned)
        except BaseException as failure:  # noqa: BLE001  # sorted out by kind
            return failure
        return None

    def _recover(self, part: MessageBatch[Any, Any], before: _Before, failure: Exception) -> None:
        """The one message of the part fails."""

        def again() -> Exception | None:
            repeated = self._call(part)
            if repeated is None:
                return None
            if not is_about_its_message(repeated):
                self._task.raise_failure(part, repeated)
            self._undo(part, before)
            return repeated

        final = self._recovery.recover(Stage.PROCESS, failure, again)
        if final is not None:
            self._task.raise_failure(part, final)

    def _undo(self, part: MessageBatch[Any, Any], before: _Before) -> None:
        self._collector.back_to(before.outputs)
        self._task.sinks.back_to(before.rows, part)
        self._journal.undo()
