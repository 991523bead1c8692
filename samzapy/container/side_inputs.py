"""Fills the stores that have streams instead of a changelog: from side inputs, or from the inputs themselves.

1. `SideInputRestore` restores one store of one task by the user's processor.
2. Before the tasks start, the streams are read to their bounds.
3. While the tasks run, read-only stores follow their streams on the run loop's thread. So nothing writes to such a
   store while a task reads it, and a message sees the store as of the start of its slice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from samzapy import errors
from samzapy.api.context import JobContext
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.api.task import SideInputsProcessor
from samzapy.clock import Clock, Schedule
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.errors.user_failures import instance_of
from samzapy.container.inputs.decode import Decoder
from samzapy.failpoints import reach
from samzapy.plugins import PluginError, load_class
from samzapy.storage.changelog.restore import ProgressCallback, RestoreResult, RestoreStopped, ShouldStop
from samzapy.storage.changelog.topic import read_anew
from samzapy.storage.kv.codec import NO_PAIRS
from samzapy.storage.store import Store, TaskStores

#: Milliseconds between two polls of the streams, and the most records of a poll, so that the tasks get their turn.
POLL_MS = 10
_MOST_RECORDS = 2_000
#: The interval where `task.commit.ms` says never.
_KEEP_MS = 60_000
#: The longest wait and the most records of a poll before the tasks start, and the seconds without progress that end
#: the start.
_FILL_S, _FILL_RECORDS, _STALL_S = 0.1, 20_000, 60.0


class SideInputRestore:
    """Turns messages into entries by the processor, and writes them together with the positions.

    A crash undoes the entries since the last `keep`; their messages are processed again.
    """

    def __init__(
        self,
        task: str,
        store: Store,
        processor: SideInputsProcessor,
        decoders: Mapping[SystemStream, Decoder],
        clock: Clock,
    ) -> None:
        """`store` is at the starts of the spans that remain to be read."""
        assert store.filling is not None
        self.label = f"{task}/{store.identity.store}"
        self.spans = store.filling.spans
        self.followed = store.filling.followed
        #: The next offset of each partition.
        self.positions = {ssp: span.start for ssp, span in self.spans.items()}
        self.records = 0
        self._store = store
        self._entries: KeyValueStore[Any, Any] = store.stack.store
        self._seen = store.spec.seen(self._entries)
        self._processor = processor
        self._decoders = {tuple(stream): decoder for stream, decoder in decoders.items()}
        self._clock = clock
        self._as_of_ms = store.filling.as_of_ms
        self._kept: Mapping[SystemStreamPartition, int] = {}

    def init(self, job: JobContext) -> None:
        """Prepare the processor. Raises TaskFailed."""
        try:
            self._processor.init(job)
        except errors.SamzapyError:
            raise
        except Exception as cause:
            raise errors.TaskFailed(f"{self.label}: init of its processor: {type(cause).__name__}: {cause}") from cause

    def accept(self, batch: RecordBatch) -> None:
        """Process the new messages of the batch. Raises TaskFailed or SerdeError naming the message's position."""
        offsets = batch.offsets
        start = bisect_left(offsets, self.positions[batch.ssp])
        # An input's record from the bound on belongs to the task, with its error policy.
        stop = len(offsets) if self.followed else bisect_left(offsets, self.spans[batch.ssp].bound)
        if start >= stop:
            return
        if stop - start < len(offsets):
            batch = batch.part(start, stop)
        envelopes: Sequence[IncomingMessageEnvelope] = self._decoders[batch.ssp[:2]].decode(
            batch, self._clock.wall_ms()
        )
        if envelopes:
            self._process(envelopes)
            self.records += len(envelopes)
        self.positions[batch.ssp] = batch.offsets[-1] + 1
        reach("fill.batch")
        if self._store.stack.over_budget():
            self.keep()

    def pass_holes(self, ssp: SystemStreamPartition, position: int) -> None:
        """Note that there is nothing between the last message and `position`."""
        self.positions[ssp] = max(self.positions[ssp], position)

    def caught_up(self) -> None:
        """Note that the streams are read to their present ends. The store has seen all deletions up to now."""
        self._as_of_ms = self._clock.wall_ms()

    def keep(self) -> None:
        """Write the entries together with the positions, if the positions have moved since the last time."""
        if self.positions != self._kept:
            reach("fill.keep")
            self._store.keep(self.positions, self._as_of_ms)
            self._kept = dict(self.positions)

    def result(self, found: RestoreResult, seconds: float) -> RestoreResult:
        """`found`, the result of the store's opening, with the counts of the records read before the task starts."""
        streams = "side inputs" if self.followed else "inputs"
        if found.source == "local store":
            source = f"local store + {streams}" if self.records else "local store"
        else:
            source = streams if self.records else "nothing"
        return replace(found, records=self.records, seconds=seconds if self.records else 0.0, source=source)

    def _process(self, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        process, seen = self._processor.process, self._seen
        put, delete, has_view = self._entries.put, self._entries.delete, self._store.spec.view is not None
        envelope = envelopes[0]
        try:
            for envelope in envelopes:  # the handler needs the last one
                built = process(envelope, seen)
                if built is None:
                    continue
                for pair in built.items() if isinstance(built, dict) else built:
                    # Nearly every pair is a tuple, which costs no call.
                    if has_view or (type(pair) is not tuple and isinstance(pair, NO_PAIRS)):
                        _refuse(pair, has_view)
                    key, value = pair
                    if key is None:
                        continue
                    if value is None:
                        delete(key)
                    else:
                        put(key, value)
        except Exception as cause:
            is_refused = isinstance(cause, errors.SerdeError | errors.StoreRefused)
            if isinstance(cause, errors.SamzapyError) and not is_refused:
                raise
            where = f"{self.label}: processor at {envelope.position}"
            raise errors.TaskFailed(f"{where}: {type(cause).__name__}: {cause}") from cause


def _refuse(found: object, has_view: bool) -> NoReturn:
    if has_view:
        raise TypeError("returned entries, but the engine has an interface of its own: write through that")
    raise TypeError(f"expected (key, value) pairs, got {type(found).__name__} {found!r:.100} among them")


class SideInputs:
    """The stores of a container that are filled from streams, if there are any. For the run loop's thread."""

    def __init__(
        self,
        fillers: Sequence[SideInputRestore],
        consumer_of: Callable[[str], SystemConsumer],
        clock: Clock,
        keep_ms: int,
    ) -> None:
        """`keep_ms`: milliseconds between two writes of the entries."""
        self._fillers = fillers
        self._readers = grouped((ssp, filler) for filler in fillers for ssp in filler.spans)
        self._consumers = {system: consumer_of(system) for system in sorted({ssp.system for ssp in self._readers})}
        starts = {ssp: min(item.positions[ssp] for item in readers) for ssp, readers in self._readers.items()}
        for system, consumer in self._consumers.items():
            consumer.start({ssp: offset for ssp, offset in starts.items() if ssp.system == system})
        self._clock, now = clock, clock.monotonic()
        self._due = Schedule(POLL_MS if fillers else 0, now)
        self._keep = Schedule(keep_ms if keep_ms > 0 else _KEEP_MS, now)

    def fill(self, on_progress: ProgressCallback | None, should_stop: ShouldStop) -> None:
        """Read the streams to their bounds, and keep the entries; only the stores that follow their streams are read
        further. `on_progress` gets `task/store`, offsets read, offsets to read.

        Raises RestoreStalled without progress, RestoreStopped once it `should_stop`, and the errors of processors and
        decoders.
        """
        moved, positions = self._clock.monotonic(), {ssp: self._position(ssp) for ssp in self._readers}
        while behind := self._behind():
            if should_stop():
                raise RestoreStopped(_where(behind, positions))
            self._read(_FILL_S, _FILL_RECORDS)
            now = self._clock.monotonic()
            for ssp, filler in behind:
                position = self._position(ssp)
                if position != positions[ssp]:
                    moved = now
                    self._report(filler, on_progress)
                if position >= filler.spans[ssp].bound:
                    # Only holes can lie between the last message and the bound: control records, compaction.
                    filler.pass_holes(ssp, filler.spans[ssp].bound)
            positions = {ssp: self._position(ssp) for ssp in positions}
            if now - moved > _STALL_S:
                raise errors.RestoreStalled(f"stores made no progress for {_STALL_S:g} s: {_where(behind, positions)}")
        for filler in self._fillers:
            filler.caught_up()
            filler.keep()
        self._fillers = [filler for filler in self._fillers if filler.followed]
        done = {ssp for ssp, readers in self._readers.items() if not any(filler.followed for filler in readers)}
        for system, consumer in self._consumers.items():
            consumer.pause({ssp for ssp in done if ssp.system == system})
        self._readers = {
            ssp: [filler for filler in readers if filler.followed]
            for ssp, readers in self._readers.items()
            if ssp not in done
        }

    @property
    def follows(self) -> bool:
        """Whether `poll` has anything to do."""
        return bool(self._readers)

    def poll(self) -> None:
        """Process the messages that have arrived, if it is time. Raises the errors of processors and decoders."""
        if not self._due.due(now := self._clock.monotonic()):
            return
        if not self._read(0.0, _MOST_RECORDS):
            for filler in self._fillers:
                filler.caught_up()
        if self._keep.due(now):
            self.keep()

    def keep(self) -> None:
        """Write the entries of the stores, with their positions."""
        for ssp, readers in self._readers.items():
            for filler in readers:
                filler.pass_holes(ssp, self._position(ssp))
        for filler in self._fillers:
            filler.keep()

    def close(self) -> None:
        """Release the consumers; nothing is written."""
        for consumer in self._consumers.values():
            consumer.close()

    @read_anew("the stores that it fills are filled again")
    def _read(self, wait_s: float, most: int) -> int:
        batches = [batch for consumer in self._consumers.values() for batch in consumer.poll(wait_s, most)]
        for batch in batches:
            for filler in self._readers.get(batch.ssp, ()):
                filler.accept(batch)
        return len(batches)

    def _position(self, ssp: SystemStreamPartition) -> int:
        return self._consumers[ssp.system].position(ssp)

    def _behind(self) -> list[tuple[SystemStreamPartition, SideInputRestore]]:
        return [
            (ssp, filler)
            for ssp, readers in self._readers.items()
            for filler in readers
            if filler.positions[ssp] < filler.spans[ssp].bound
        ]

    @staticmethod
    def _report(filler: SideInputRestore, on_progress: ProgressCallback | None) -> None:
        if on_progress is not None:
            total = sum(span.bound - span.start for span in filler.spans.values())
            done = sum(filler.positions[ssp] - span.start for ssp, span in filler.spans.items())
            on_progress(filler.label, min(done, total), total)


def _where(
    behind: Sequence[tuple[SystemStreamPartition, SideInputRestore]], positions: Mapping[SystemStreamPartition, int]
) -> str:
    return ", ".join(
        f"{ssp} at {positions[ssp]} of {filler.spans[ssp].bound} (store '{filler.label}')" for ssp, filler in behind
    )


def fill_stores(
    config: JobConfig,
    stores: Mapping[str, TaskStores],
    decoder_of: Callable[[SystemStream, bool], Decoder],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    on_progress: ProgressCallback | None,
    should_stop: ShouldStop,
) -> SideInputs:
    """Read the streams of the stores that have some, `stores` being by task, and add the counts to `restored`.

    `decoder_of` gets a stream, and whether it is an input that a store replays: the task has been past its messages
    already. Returns the side inputs to follow. Raises the errors of `SideInputs.fill`, and RestoreError when a stream
    cannot be read to its bound.
    """
    if not any(opened.sourced for opened in stores.values()):
        return SideInputs((), consumer_of, clock, 0)
    processors = load_processors(config.stores)
    decoders = {
        store.name: {stream: decoder_of(stream, store.source.replayed) for stream in store.source.all_streams}
        for store in config.stores.values()
        if store.source
    }
    fillers = {
        (task, name): SideInputRestore(
            task, store, instance_of(processors[name], f"{task}/{name}"), decoders[name], clock
        )
        for task, opened in stores.items()
        for name, store in opened.sourced.items()
    }
    for filler in fillers.values():
        filler.init(config.context)
    began = clock.monotonic()
    side = SideInputs(list(fillers.values()), consumer_of, clock, config.task.commit_ms)
    try:
        side.fill(on_progress, should_stop)
    except BaseException:
        side.close()
        raise
    seconds = clock.monotonic() - began
    for (task, name), filler in fillers.items():
        stores[task].restored[name] = filler.result(stores[task].restored[name], seconds)
    return side


def load_processors(stores: Mapping[str, StoreConfig]) -> Mapping[str, type[SideInputsProcessor]]:
    """The class of every store that is filled from streams. Raises ConfigError with every one that cannot be made."""
    classes: dict[str, type[SideInputsProcessor]] = {}
    problems = []
    for name, store in stores.items():
        if store.source is None:
            continue
        key = f"stores.{name}.{'restore' if store.source.replayed else 'side'}.inputs.processor.factory"
        try:
            classes[name] = load_class(store.source.processor)
        except PluginError as cause:
            problems.append(errors.ConfigProblem(key, store.source.processor, str(cause)))
            continue
        if not issubclass(classes[name], SideInputsProcessor) or getattr(classes[name], "__abstractmethods__", False):
            message = "must be a SideInputsProcessor that defines process(message, store)"
            problems.append(errors.ConfigProblem(key, store.source.processor, message))
    errors.raise_if_any(problems)
    return classes
