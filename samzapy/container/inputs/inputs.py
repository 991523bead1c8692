"""The container's inputs: consumers, decoders, ends, and the choosers of the job."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

from samzapy.api.context import MetricsRegistry
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.api.task import AsyncStreamTask, BatchTask, CoroutineTask
from samzapy.clock import Clock
from samzapy.config.error_policy import Stage
from samzapy.config.job import JobConfig
from samzapy.config.task import Guarantee
from samzapy.container.event_time.control_messages import ControlDecoder
from samzapy.container.inputs.decode import Decoder
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.system.choosers import Bootstrap, ChoosingConsumer, Portion, chooser_of
from samzapy.system.clients import LeaderEpochs, SystemClients

#: Decoded messages of one partition, in order; never empty.
Run = Sequence[IncomingMessageEnvelope]
Messages = tuple[SystemStreamPartition, Run]


class Polled(NamedTuple):
    """The messages of a poll, decoded as they are taken; `ends` are the offsets after the last ones, empty without
    messages. `full`: there may be more, of other partitions as well."""

    ends: Mapping[SystemStreamPartition, int]
    runs: Iterable[Messages]
    full: bool = False


NOTHING = Polled({}, ())


@dataclass(frozen=True)
class PollLimits:
    """`records`: the most of a poll. `idle_s`: how long an idle poll waits on all systems together. `decoded`: the most
    records that are decoded before their messages are processed; None for a whole poll."""

    records: int
    idle_s: float
    decoded: int | None = None


class RawRecords:
    """The bytes that the messages of one container were decoded from, for the few that become dead letters.

    Envelopes do not hold them. So the polled batches are kept as they came until every task that reads their partition
    is past them, and a message's bytes are looked up by its offset. That costs one list operation per batch. `follow`
    the tasks' positions first, then `keep` every poll. Without positions nothing is kept.
    """

    def __init__(self) -> None:
        self._positions: dict[SystemStreamPartition, list[Mapping[SystemStreamPartition, int]]] = {}
        self._batches: dict[SystemStreamPartition, list[RecordBatch]] = {}

    def follow(self, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Keep the batches that a task has not processed; `positions` is the task's live map."""
        for ssp in positions:
            self._positions.setdefault(ssp, []).append(positions)

    def keep(self, batches: Iterable[RecordBatch]) -> None:
        """Keep the batches of a poll, and release those that all tasks have processed."""
        for batch in batches if self._positions else ():
            ssp = batch.ssp
            done = min(positions[ssp] for positions in self._positions[ssp])
            kept = [item for item in self._batches.get(ssp, ()) if item.offsets[-1] >= done]
            self._batches[ssp] = [*kept, batch]

    def find(self, ssp: SystemStreamPartition, offset: int) -> tuple[bytes | None, bytes | None]:
        for batch in self._batches.get(ssp, ()):
            if batch.offsets[0] <= offset <= batch.offsets[-1]:
                index = bisect_left(batch.offsets, offset)
                if batch.offsets[index] == offset:
                    return batch.keys[index], batch.values[index]
        raise LookupError(f"{ssp}@{offset}: the message's bytes are not kept any more")


class Inputs:
    """Polls the consumers, decodes, and finds the partitions that have reached their ends.

    `ends` gives, for a bounded run, the offset before which each partition ends; partitions not in it are endless.
    With several systems an idle poll waits on them in turn, so `PollLimits.idle_s` bounds how late a message is seen.
    """

    def __init__(
        self,
        consumers: Mapping[str, SystemConsumer],
        decoders: Mapping[SystemStream, Decoder],
        ends: Mapping[SystemStreamPartition, int],
        clock: Clock,
        limits: PollLimits,
        *,
        raw: RawRecords,
        finished: set[SystemStreamPartition] | None = None,
    ) -> None:
        """`consumers` by system; one may serve several. `raw` keeps the polled batches, for dead letters. `finished`
        becomes the live set of the partitions that have ended, which a bootstrap reads."""
        self._consumers = dict(consumers)
        self._readers = tuple(dict.fromkeys(consumers.values()))
        self._choosing = [item for item in self._readers if isinstance(item, ChoosingConsumer)]
        self._decoders = {tuple(stream): decoder for stream, decoder in decoders.items()}
        self._ends = dict(ends)
        self._ended: set[SystemStreamPartition] = set()
        self._finished: set[SystemStreamPartition] = set() if finished is None else finished
        self._held: frozenset[SystemStreamPartition] = frozenset()
        #: By ended partition, the records that were polled from its end on, in case it goes on.
        self._beyond: dict[SystemStreamPartition, list[RecordBatch]] = {}
        self._clock = clock
        self._limits = limits
        self._raw = raw

    def start(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        ids: Mapping[SystemStream, str] | None = None,
        epochs: Mapping[SystemStreamPartition, int] | None = None,
    ) -> None:
        """Begin to fetch from `offsets`, which are of the streams with these `ids` and of these leader `epochs`, where
        they are known. Partitions that start at or past their end have ended at once."""
        for consumer in self._readers:
            own = {ssp: offset for ssp, offset in offsets.items() if self._consumers[ssp.system] is consumer}
            consumer.start(own, ids or {}, epochs or {})
        for ssp, end in list(self._ends.items()):
            if offsets[ssp] >= end:
                self._end(ssp)

    def poll(self, timeout_s: float) -> Polled:
        """Messages that have arrived, waiting up to `timeout_s` for the first; messages past an end are left out."""
        batches = self._fetch(timeout_s)
        if not batches:
            self._pass_ends()
            return NOTHING
        full = sum(len(batch.offsets) for batch in batches) >= self._limits.records
        if self._ends or self._finished:
            polled, batches = batches, list(self._before_ends(batches))
            if any(batch.ssp in self._beyond for batch in polled):
                self._pause()
        self._raw.keep(batches)
        arrival_ms = self._clock.wall_ms()
        ends = {batch.ssp: batch.offsets[-1] + 1 for batch in batches}
        part = self._limits.decoded
        if part is None:
            return Polled(ends, [run for batch in batches for run in self._decoded(batch, arrival_ms)], full)
        return Polled(ends, self._in_parts(batches, part, arrival_ms), full)

    def _decoded(self, batch: RecordBatch, arrival_ms: int) -> Iterator[Messages]:
        return zip(repeat(batch.ssp), self._decoders[batch.ssp[:2]].runs(batch, arrival_ms))

    def _in_parts(self, batches: Iterable[RecordBatch], size: int, arrival_ms: int) -> Iterator[Messages]:
        """Decode one part after the other, so that the objects of few messages are alive at a time: they stay in the
        processor's cache."""
        for batch in batches:
            count = len(batch.offsets)
            if count <= size:
                yield from self._decoded(batch, arrival_ms)
                continue
            for start in range(0, count, size):
                yield from self._decoded(batch.part(start, start + size), arrival_ms)

    def epochs(self) -> dict[SystemStreamPartition, int]:
        known = [item.epochs() for item in self._readers if isinstance(item, LeaderEpochs)]
        return {ssp: epoch for epochs in known for ssp, epoch in epochs.items()}

    def position(self, ssp: SystemStreamPartition) -> int:
        """The next offset that a poll will read, past known records that are not messages."""
        beyond = self._beyond.get(ssp)
        return beyond[0].offsets[0] if beyond else self._consumers[ssp.system].position(ssp)

    def hold(self, ssps: frozenset[SystemStreamPartition]) -> None:
        """Return nothing of these partitions from now on; the partitions of an earlier call are released."""
        if ssps != self._held:
            self._held = ssps
            self._pause()

    def held_back(self) -> set[SystemStreamPartition]:
        """The partitions that may have messages that polls do not return for now."""
        return {*self._held, *chain.from_iterable(item.held_back() for item in self._choosing)} - self._finished

    def finish(self, ssp: SystemStreamPartition) -> None:
        """The partition ends here: its senders have said so."""
        if ssp not in self._finished:
            self._ends.setdefault(ssp, 0)
            self._end(ssp)

    def end_at(self, ends: Mapping[SystemStreamPartition, int]) -> None:
        """Set the ends of the partitions that have not ended; a smaller end that is already set stays."""
        for ssp, end in ends.items():
            if ssp not in self._finished:
                self._ends[ssp] = min(end, self._ends.get(ssp, end))
        self._pass_ends()

    def go_on(self, ssp: SystemStreamPartition) -> None:
        self._ends.pop(ssp, None)
        self._ended.discard(ssp)
        if ssp in self._finished:
            self._finished.discard(ssp)
            self._pause()

    def take_ended(self) -> set[SystemStreamPartition]:
        """The partitions that have ended since the last call, everything polled before included."""
        ended, self._ended = self._ended, set()
        return ended

    def close(self) -> None:
        for consumer in self._readers:
            consumer.close()

    def _fetch(self, timeout_s: float) -> list[RecordBatch]:
        most = self._limits.records
        if gone_on := self._beyond.keys() - self._finished - self._held:
            return [batch for ssp in gone_on for batch in self._beyond.pop(ssp)]
        if len(self._readers) == 1:
            return self._readers[0].poll(timeout_s, most)
        batches = [batch for consumer in self._readers for batch in consumer.poll(0.0, most)]
        if not batches:
            wait = min(timeout_s, self._limits.idle_s) / len(self._readers)
            batches = [batch for consumer in self._readers for batch in consumer.poll(wait, most)]
        return batches

    def _before_ends(self, batches: Sequence[RecordBatch]) -> Iterator[RecordBatch]:
        """The records before the ends, not decoded yet. The partitions that reach their ends have ended."""
        # For all batches of the partitions that end now, and of those that ended before.
        ends = {each.ssp: 0 if each.ssp in self._finished else self._ends.get(each.ssp) for each in batches}
        for batch in batches:
            ssp, end = batch.ssp, ends[batch.ssp]
            if end is None or batch.offsets[-1] + 1 < end:
                yield batch
                continue
            if ssp not in self._finished:
                self._end(ssp)
            cut, count = bisect_left(batch.offsets, end), len(batch.offsets)
            if cut < count:
                self._beyond.setdefault(ssp, []).append(batch.part(cut, count))
            if cut:
                yield batch.part(0, cut)

    def _pass_ends(self) -> None:
        """Holes before an end (control records, compaction) deliver nothing: only the position passes them."""
        for ssp in [ssp for ssp, end in self._ends.items() if self._consumers[ssp.system].position(ssp) >= end]:
            self._end(ssp)

    def _end(self, ssp: SystemStreamPartition) -> None:
        del self._ends[ssp]
        self._ended.add(ssp)
        self._finished.add(ssp)

    def _pause(self) -> None:
        paused = self._held | (self._finished & self._beyond.keys())
        for consumer in self._readers:
            consumer.pause({ssp for ssp in paused if self._consumers[ssp.system] is consumer})


#: The messages that asynchronous tasks get at a time, as a multiple of their messages in flight. Few, since they are
#: processed before anything more urgent that comes later.
_PORTIONS_IN_FLIGHT = 2


#: The default number of records of a poll. A batch task combines its records: in a larger batch keys repeat more often,
#: so fewer entries per record go to a store.
_POLL, _POLL_OF_BATCHES = 2_000, 16_000
#: The records that are decoded at a time: few, since their objects stay in the processor's cache while they are
#: processed (2,000 cost a sixth more CPU on cores with half a MiB of it).
_DECODED = 256


def container_inputs(
    config: JobConfig,
    clients: SystemClients,
    tasks: Sequence[TaskInstance],
    *,
    serdes_of: Callable[[SystemStream], tuple[Serde | None, Serde | None]],
    clock: Clock,
    metrics: MetricsRegistry,
    ends: Mapping[SystemStreamPartition, int],
    raw: RawRecords,
) -> Inputs:
    """Consumers and decoders of the partitions that the tasks read, without fetching anything. `metrics` get the
    distance of bootstrap streams from their heads."""
    task, ssps = config.task, frozenset(ssp for item in tasks for ssp in item.offsets)
    batches = any(isinstance(item.task, BatchTask) for item in tasks)
    over = {ssp for item in tasks for ssp in item.event_clock.over}
    own_ends = {ssp: end for ssp, end in ends.items() if ssp in ssps}
    # These had ended before the restart: they are over unless new messages have come.
    own_ends = {**clients.ends(over - own_ends.keys()), **own_ends}
    tolerant = not task.errors.policies[Stage.DESERIALIZE].only_fails

    def decoder(stream: SystemStream) -> Decoder:
        plain = Decoder(*serdes_of(stream), tolerant=tolerant, columns=batches)
        return ControlDecoder(plain) if config.stream(stream).intermediate else plain

    finished: set[SystemStreamPartition] = set()
    size = most = task.poll_batch_size or (_POLL_OF_BATCHES if batches else _POLL)
    consumers = {system: clients.consumer(system) for system in sorted({ssp.system for ssp in ssps})}
    if (chosen := chooser_of(config, ssps)) is not None:
        if any(isinstance(item.task, (AsyncStreamTask, CoroutineTask)) for item in tasks):
            most = min(most, _PORTIONS_IN_FLIGHT * task.asynchronous.max_concurrency * len(tasks))
        choosing = ChoosingConsumer(
            consumers,
            *chosen,
            Portion(clock, most),
            most_waiting=2 * size,
            max_idle_s=task.max_idle_ms / 1000.0,
            bootstrap=_bootstrap(config, clients, own_ends, tasks, finished, metrics, clock),
        )
        consumers = dict.fromkeys(consumers, choosing)
    # At-most-once commits a poll before its messages are processed, and must not pass over one that cannot be decoded.
    whole = batches or task.guarantee is Guarantee.AT_MOST_ONCE
    limits = PollLimits(size, task.max_idle_ms / 1000.0, None if whole else _DECODED)
    decoders = {stream: decoder(stream) for stream in {ssp.system_stream for ssp in ssps}}
    return Inputs(consumers, decoders, own_ends, clock, limits, raw=raw, finished=finished)


def _bootstrap(
    config: JobConfig,
    clients: SystemClients,
    ends: Mapping[SystemStreamPartition, int],
    tasks: Sequence[TaskInstance],
    finished: set[SystemStreamPartition],
    metrics: MetricsRegistry,
    clock: Clock,
) -> Bootstrap | None:
    """The gate before all other streams. If a partition ends before its head, its end counts as its head. `finished`:
    the live set of the partitions that have ended."""
    readers = grouped(
        (ssp, task) for task in tasks for ssp in task.offsets if config.stream(ssp.system_stream).bootstrap
    )
    if not readers:
        return None
    heads = {ssp: min(head, ends.get(ssp, head)) for ssp, head in clients.ends(readers).items()}

    def processed(ssp: SystemStreamPartition) -> int:
        return min(task.offsets[ssp] for task in readers[ssp])

    return Bootstrap(heads, processed, metrics.gauge("inputs", "bootstrap-remaining").set, finished, clock)
