"""Restores one store of one task from streams: side inputs, or the inputs themselves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from samzapy.api.context import JobContext
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.api.task import SideInputsProcessor
from samzapy.clock import Clock
from samzapy.container.inputs.decode import Decoder
from samzapy.errors import SamzapyError, TaskFailed
from samzapy.failpoints import reach
from samzapy.storage.changelog.restore import RestoreResult
from samzapy.storage.task_store import TaskStore

_offset = attrgetter("offset")


class SideInputRestore:
    """Lets the processor make entries of messages, and keeps the store and how far it is together.

    A crash undoes the entries since the last `keep`; their messages are processed again.
    """

    def __init__(
        self,
        task: str,
        store: TaskStore,
        processor: SideInputsProcessor,
        decoders: Mapping[SystemStream, Decoder],
        clock: Clock,
    ) -> None:
        """`store` stands at the starts of the spans that are left to read."""
        assert store.filling is not None
        self.label = f"{task}/{store.identity.store}"
        self.spans = store.filling.spans
        self.followed = store.filling.followed
        #: The next offset of each partition.
        self.positions = {ssp: span.start for ssp, span in self.spans.items()}
        self.records = 0
        self._task = task
        self._store = store
        self._entries: KeyValueStore[Any, Any] = store.stack.store
        self._seen = self._entries if store.view is None else store.view(self._entries)
        self._put = self._put_entries if store.view is None else self._refuse_entries
        self._processor = processor
        self._decoders = {tuple(stream): decoder for stream, decoder in decoders.items()}
        self._clock = clock
        self._as_of_ms = store.filling.as_of_ms
        self._kept: Mapping[SystemStreamPartition, int] = {}

    def init(self, job: JobContext) -> None:
        """Prepare the processor. Raises TaskFailed."""
        try:
            self._processor.init(job)
        except SamzapyError:
            raise
        except Exception as cause:
            raise TaskFailed(f"{self.label}: init of its processor: {type(cause).__name__}: {cause}") from cause

    def take(self, batch: RecordBatch, bound: int | None = None) -> None:
        """Process the batch's messages that were not processed yet, those below `bound` if there is one. Raises
        TaskFailed or SerdeError naming the message's position."""
        position = self.positions[batch.ssp]
        envelopes: Sequence[IncomingMessageEnvelope] = self._decoders[batch.ssp[:2]].decode(
            batch, self._clock.wall_ms()
        )
        if envelopes and envelopes[0].offset < position:
            envelopes = envelopes[bisect_left(envelopes, position, key=_offset) :]
        if bound is not None and envelopes and envelopes[-1].offset >= bound:
            envelopes = envelopes[: bisect_left(envelopes, bound, key=_offset)]
        if not envelopes:
            return
        self._process(envelopes)
        self.records += len(envelopes)
        self.positions[batch.ssp] = envelopes[-1].offset + 1
        reach("fill.batch")
        if self._store.stack.over_budget():
            self.keep()

    def pass_holes(self, ssp: SystemStreamPartition, position: int) -> None:
        """Note that there is nothing between the last message and `position`."""
        self.positions[ssp] = max(self.positions[ssp], position)

    def caught_up(self) -> None:
        """Note that nothing is left to be read for now: only deletions from now on can be missed by a store that is not
        read on for long."""
        self._as_of_ms = self._clock.wall_ms()

    def keep(self) -> None:
        """Write the entries and how far the store is, together; nothing if it is no further than the last time."""
        if self.positions != self._kept:
            reach("fill.keep")
            self._store.keep(self.positions, self._as_of_ms)
            self._kept = dict(self.positions)

    def result(self, found: RestoreResult, seconds: float) -> RestoreResult:
        """`found` at the store's opening, with the counts of the records read before the task starts."""
        streams = "side inputs" if self.followed else "inputs"
        if found.source == "local store":
            source = f"local store + {streams}" if self.records else "local store"
        else:
            source = streams if self.records else "nothing"
        return replace(found, records=self.records, seconds=seconds if self.records else 0.0, source=source)

    def _process(self, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        process, seen, put = self._processor.process, self._seen, self._put
        envelope = envelopes[0]
        try:
            for envelope in envelopes:  # the handler needs the last one
                made = process(envelope, seen)
                if made is not None:
                    put(made)
        except Exception as cause:
            where = f"{self.label}: processor at {envelope.position}"
            raise TaskFailed(f"{where}: {type(cause).__name__}: {cause}") from cause

    def _put_entries(self, made: Iterable[tuple[Any, Any]]) -> None:
        entries = self._entries
        for key, value in made:
            if key is None:
                continue
            if value is None:
                entries.delete(key)
            else:
                entries.put(key, value)

    @staticmethod
    def _refuse_entries(made: Iterable[tuple[Any, Any]]) -> None:
        if any(True for _ in made):
            raise TypeError("returned entries, but the engine has an interface of its own: write through that")
