"""A task whose job says what becomes of messages that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import StreamTask
from samzapy.config.tasks.error_policy import Stage
from samzapy.container.errors.collectors import TolerantCollector
from samzapy.container.errors.recovery import Recovery, RetryInterrupted, is_about_its_message
from samzapy.container.errors.undecodable import Undecodable
from samzapy.container.errors.undo_journal import JournaledStore, UndoJournal
from samzapy.container.event_time.clock import EventClock
from samzapy.container.outputs.output_ids import OutputIds
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import SerdeError
from samzapy.storage.task_stores import TaskStores


class TolerantTaskInstance(TaskInstance):
    """Leaves nothing of a `process` that raised: its outputs and what it wrote to sinks are dropped and its store
    changes undone, before it is repeated, skipped or made a dead letter. What it asked of the coordinator stays asked."""

    __slots__ = ("_journal", "_recovery", "_tolerant", "_visible")

    def __init__(
        self,
        name: str,
        task: StreamTask,
        stores: TaskStores,
        collector: TolerantCollector,
        offsets: dict[SystemStreamPartition, int],
        event_clock: EventClock,
        *,
        ids: OutputIds | None = None,
    ) -> None:
        super().__init__(name, task, stores, collector, offsets, event_clock, ids=ids)
        self._tolerant = collector
        self._recovery: Recovery = collector.recovery
        self._journal = UndoJournal()
        journaled = not self._recovery.policy(Stage.PROCESS).only_fails
        self._visible = (
            {store: JournaledStore(store, held, self._journal) for store, held in stores.stores.items()}
            if journaled
            else stores.stores
        )

    @property
    def visible_stores(self) -> Mapping[str, KeyValueStore[Any, Any]]:
        return self._visible

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        self.touched = True
        try:
            if type(envelopes) is Undecodable:
                return self._process_undecodable(ssp, envelopes)
            return self._process_run(ssp, envelopes)
        finally:
            self._recovery.input = None

    def _process_run(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        process, collector, requests = self._process, self._tolerant, self.requests
        recovery, begin, mark = self._recovery, self._journal.begin, collector.mark
        done = 0
        try:
            for envelope in envelopes:
                begin()
                recovery.input = envelope
                gathered = mark()
                try:
                    if (returned := process(envelope, collector, requests)) is not None:
                        self._refuse_awaitable(f"process of {envelope.position}", returned)
                except BaseException as failure:  # noqa: BLE001  # sorted out by kind
                    self._recover(envelope, gathered, failure)
                done += 1
                if requests.pending:
                    break
        except RetryInterrupted:
            self._undo(envelope, gathered)
        if done:
            self.processed += done
            self._passed(ssp, envelopes, done)
        return done

    def _recover(self, envelope: IncomingMessageEnvelope, gathered: tuple[int, ...], failure: BaseException) -> None:
        if not is_about_its_message(failure):
            self._raise(envelope, failure)
        self._undo(envelope, gathered)

        def again() -> Exception | None:
            try:
                self._process(envelope, self.collector, self.requests)
            except BaseException as repeated:  # noqa: BLE001  # sorted out by kind
                if is_about_its_message(repeated):
                    self._undo(envelope, gathered)
                    return repeated
                self._raise(envelope, repeated)
            return None

        final = self._recovery.recover(Stage.PROCESS, failure, again)
        if final is not None:
            self._raise(envelope, final)

    def _undo(self, envelope: IncomingMessageEnvelope, gathered: tuple[int, ...]) -> None:
        self._tolerant.back_to(gathered)
        self._forget(envelope)
        self._journal.undo()

    def _process_undecodable(self, ssp: SystemStreamPartition, run: Undecodable) -> int:
        (raw,) = run
        decoded: list[IncomingMessageEnvelope] = []

        def again() -> Exception | None:
            try:
                decoded.append(run.decode())
            except SerdeError as failure:
                return failure
            return None

        self._recovery.input = raw
        try:
            failure = self._recovery.recover(Stage.DESERIALIZE, run.failure, again)
        except RetryInterrupted:
            return 0
        if failure is not None:
            raise failure
        if decoded:
            return self._process_run(ssp, decoded)
        self._passed(ssp, run, 1)
        return 1
