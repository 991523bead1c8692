"""Processes the messages of a synchronous task under its job's error policies."""

from __future__ import annotations

from collections.abc import Sequence

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.tasks.error_policy import Stage
from samzapy.container.errors.collectors import TolerantCollector
from samzapy.container.errors.recovery import RetryInterrupted, is_about_its_message
from samzapy.container.errors.undo_journal import UndoJournal
from samzapy.container.outputs.collector import Mark
from samzapy.container.tasks.synchronous import Process, Processing
from samzapy.container.tasks.task_instance import TaskInstance


class TolerantProcessing(Processing):
    """Undoes a `process` that raised: drops its outputs and its rows for sinks, and restores the stores. Then the
    message is repeated, skipped or made a dead letter. Requests to the coordinator stay."""

    __slots__ = ("_collector", "_journal", "_process", "_recovery", "_task")

    def __init__(
        self, task: TaskInstance, process: Process, collector: TolerantCollector, journal: UndoJournal
    ) -> None:
        """`collector` is the task's, `journal` its stores'."""
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

        final = self._recovery.recover(Stage.PROCESS, failure, again)
        if final is not None:
            task.raise_failure(envelope, final)

    def _undo(self, envelope: IncomingMessageEnvelope, gathered: Mark) -> None:
        self._collector.back_to(gathered)
        self._task.sinks.forget(envelope)
        self._journal.undo()
