"""Combines the consumers of all systems into one, which returns the choosers' choices.

1. A chooser chooses among partitions that have records waiting. `Batching`, `Tiered` and `RoundRobin` follow Samza's
   choosers of these names; `JobsOwn` checks the answers of the job's own chooser. `chooser_of` stacks them.
2. `Bootstrap` holds everything else back until the bootstrap streams have caught up.
3. A `PartitionBuffer` keeps the polled records of one partition.
4. `Portion` decides the number of records that a poll returns.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from types import MappingProxyType

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import Choice, MessageChooser, RecordBatch, SystemConsumer, WaitingRecords
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.streams.stream import BOOTSTRAP_PRIORITY
from samzapy.config.task import ChooserConfig
from samzapy.errors import ConfigError, SamzapyError, TaskFailed
from samzapy.plugins import PluginError, load_class
from samzapy.system.clients import LeaderEpochs

#: The waiting records by partition, the longest unserved first.
Waiting = Mapping[SystemStreamPartition, WaitingRecords]


class RoundRobin:
    """The partition that has waited longest for its turn, with everything it has: Samza's RoundRobinChooser."""

    def choose(self, waiting: Waiting, most: int) -> Choice:
        """The first partition, with `most` records at most."""
        ssp = next(iter(waiting))
        return Choice(ssp, min(len(waiting[ssp]), most))


class JobsOwn:
    """Checks the answers of the job's own MessageChooser. Raises TaskFailed, naming it."""

    def __init__(self, chooser: MessageChooser) -> None:
        self._chooser = chooser
        self._name = type(chooser).__name__

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The choice of the job's chooser, of `most` records at most; None for nothing now."""
        try:
            choice = self._chooser.choose(waiting)
        except SamzapyError:
            raise
        except Exception as cause:
            raise TaskFailed(f"task.chooser.class: {self._name}: {type(cause).__name__}: {cause}") from cause
        if choice is None:
            return None
        if not isinstance(choice, Choice) or choice.ssp not in waiting or choice.records < 1:
            raise TaskFailed(
                f"task.chooser.class: {self._name} chose {choice!r}: expected a Choice of at least 1 record of a "
                "partition that waits"
            )
        return Choice(choice.ssp, min(choice.records, len(waiting[choice.ssp]), most))


class Tiered:
    """Asks the chooser of the highest priority that has something; a lower one only if that one chooses nothing.

    Samza's TieredPriorityChooser.
    """

    def __init__(self, choosers: Sequence[RoundRobin | JobsOwn]) -> None:
        """`choosers`: one of each priority, the highest first."""
        self._choosers = choosers

    def choose(self, tiers: Sequence[Waiting], most: int) -> Choice | None:
        """The choice of the highest tier that makes one. `tiers`: the waiting records of each priority."""
        for chooser, waiting in zip(self._choosers, tiers, strict=True):
            if waiting and (choice := chooser.choose(waiting, most)) is not None:
                return choice
        return None


class Batching:
    """Stays with the partition that was chosen for `size` messages, as long as it has any: Samza's BatchingChooser.

    When it has none left, the wrapped chooser is asked at once; nothing is waited for.
    """

    def __init__(self, wrapped: Tiered, size: int) -> None:
        self._wrapped = wrapped
        self._size = size
        self._preferred: SystemStreamPartition | None = None
        self._left = 0

    def choose(self, tiers: Sequence[Waiting], most: int) -> Choice | None:
        """The preferred partition, or a new one that is preferred from now on."""
        preferred = self._preferred
        for waiting in tiers:
            if preferred is not None and self._left > 0 and preferred in waiting:
                records = min(self._left, len(waiting[preferred]), most)
                self._left -= records
                return Choice(preferred, records)
        choice = self._wrapped.choose(tiers, min(self._size, most))
        if choice is not None:
            self._preferred, self._left = choice.ssp, self._size - choice.records
        return choice


def chooser_of(
    config: JobConfig, ssps: Iterable[SystemStreamPartition]
) -> tuple[Tiered | Batching, Mapping[SystemStreamPartition, int]] | None:
    """Batching, if it is configured, of Tiered( the job's own chooser, or turns ), and the priorities. None if the job
    configures no order among these partitions: then messages come as they arrive. Raises ConfigError."""
    streams, settings = {ssp: config.stream(ssp.system_stream) for ssp in ssps}, config.task.chooser
    if settings == ChooserConfig() and not any(item.bootstrap or item.priority >= 0 for item in streams.values()):
        return None
    own = load_chooser(config)
    priority_of = {ssp: _priority(stream) for ssp, stream in streams.items()}
    choosers: list[RoundRobin | JobsOwn] = []
    for priority in sorted(set(priority_of.values()), reverse=True):
        choosers.append(RoundRobin())
        if own is not None:
            chooser = own()
            chooser.init(config.context, frozenset(ssp for ssp in streams if priority_of[ssp] == priority))
            choosers[-1] = JobsOwn(chooser)
    tiered = Tiered(choosers)
    return Batching(tiered, settings.batch_size) if settings.batch_size > 0 else tiered, priority_of


def load_chooser(config: JobConfig) -> type[MessageChooser] | None:
    """The class that `task.chooser.class` names; None for turns. Raises ConfigError."""
    path = config.task.chooser.chooser_class
    if path is None:
        return None
    try:
        result = load_class(path)
    except PluginError as cause:
        raise ConfigError.of("task.chooser.class", path, str(cause)) from cause
    if not issubclass(result, MessageChooser) or getattr(result, "__abstractmethods__", False):
        message = "must be a MessageChooser that defines choose(waiting)"
        raise ConfigError.of("task.chooser.class", path, message)
    return result


def _priority(stream: StreamConfig) -> int:
    """A stream's priority: Samza's default is 0, and the highest there is for bootstrap streams."""
    if stream.priority >= 0:
        return stream.priority
    return BOOTSTRAP_PRIORITY if stream.bootstrap else 0


logger = logging.getLogger(__name__)

PositionOf = Callable[[SystemStreamPartition], int]


#: Seconds without progress after which a wait for bootstrap streams is a warning.
_STALL_S = 60.0


class Bootstrap:
    """Knows whether the bootstrap partitions of a container have caught up; once they have, they stay so.

    1. A partition has caught up when its reader is at or past the head as of the start, and everything read from it is
       processed. Positions are compared by `>=`: holes before the head, for example by compaction, deliver nothing. A
       partition that ended before its head, as its senders reported, delivers nothing more.
    2. Samza counts messages when they are chosen. This rule is stricter: a chosen message may still be in flight.
    """

    def __init__(
        self,
        heads: Mapping[SystemStreamPartition, int],
        processed: PositionOf,
        on_progress: Callable[[int], None],
        ended: Container[SystemStreamPartition] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`heads`: the offset after the last record of each bootstrap partition at the start. `processed`: the offset
        before which every task that reads a partition has processed it. `on_progress` gets the number of offsets left.
        `ended`: the live set of the partitions that have ended."""
        self._lagging = dict(heads)
        #: The offset after the last record of each lagging partition, before its head, that the reader has got.
        self._released: dict[SystemStreamPartition, int] = {}
        self._processed = processed
        self._on_progress = on_progress
        self._ended = ended
        self._clock = clock
        self._left, self._moved = -1, clock.monotonic()
        self.ssps = frozenset(heads)

    def begin(self, position: PositionOf) -> None:
        """Leave out the partitions that begin at their head."""
        self._lagging = {ssp: head for ssp, head in self._lagging.items() if position(ssp) < head}
        if self._lagging:
            logger.info("Bootstrapping from %s", ", ".join(map(str, sorted(self._lagging))))

    def awaits(self, position: PositionOf, waiting: Container[SystemStreamPartition]) -> bool:
        """Whether a lagging stream has nothing waiting. Nothing is chosen until it has: as in Samza, the choice is
        between the messages of all lagging streams."""
        lagging = {
            ssp.system_stream for ssp, head in self._lagging.items() if position(ssp) < head and ssp not in self._ended
        }
        return bool(lagging - {ssp.system_stream for ssp in self.ssps if ssp in waiting})

    def released(self, batch: RecordBatch) -> None:
        """The reader gets these records."""
        head = self._lagging.get(batch.ssp)
        if head is not None and (before := bisect_left(batch.offsets, head)):
            self._released[batch.ssp] = batch.offsets[before - 1] + 1

    def check(self, position: PositionOf) -> bool:
        """Whether everything has caught up. `position`: the next offset to hand out."""
        for ssp, head in list(self._lagging.items()):
            at = position(ssp)
            if at < head and ssp not in self._ended:
                continue
            if ssp in self._released and self._processed(ssp) < self._released[ssp]:
                continue
            del self._lagging[ssp]
            if at >= head:
                logger.info("%s has caught up with offset %d, its head at the start", ssp, head)
            else:
                logger.info("%s has ended at offset %d, before its head at the start, %d", ssp, at, head)
        left = sum(max(0, head - position(ssp)) for ssp, head in self._lagging.items())
        now = self._clock.monotonic()
        if left != self._left or now - self._moved >= _STALL_S:
            if left and left == self._left:
                places = ", ".join(f"{ssp} at {position(ssp)} of {head}" for ssp, head in sorted(self._lagging.items()))
                logger.warning(
                    "The inputs wait for bootstrap streams that have made no progress for %.0f s: %s (a transaction "
                    "that is still open, or a broker that is away?)",
                    now - self._moved,
                    places,
                )
            self._left, self._moved = left, now
        self._on_progress(left)
        return not self._lagging


class PartitionBuffer:
    """A queue of batches. `size`: the bytes of the waiting values, counted by whole batches."""

    __slots__ = ("_at", "_batches", "_records", "size")

    def __init__(self) -> None:
        self._batches: deque[RecordBatch] = deque()
        self._at = 0
        self._records = 0
        self.size = 0

    def __len__(self) -> int:
        return self._records

    @property
    def offset(self) -> int:
        return self._batches[0].offsets[self._at]

    @property
    def timestamps(self) -> Sequence[int]:
        return self._batches[0].timestamps[self._at :]

    def add(self, batch: RecordBatch) -> None:
        """Append a batch."""
        self._batches.append(batch)
        self._records += len(batch.offsets)
        self.size += _size(batch)

    def take(self, records: int) -> RecordBatch:
        """Take up to `records` from the front, all from one polled batch."""
        batch, start = self._batches[0], self._at
        stop = min(start + records, len(batch.offsets))
        self._records -= stop - start
        if stop == len(batch.offsets):
            self._batches.popleft()
            self.size -= _size(batch)
            self._at = 0
        else:
            self._at = stop
        return batch if stop - start == len(batch.offsets) else batch.part(start, stop)


def _size(batch: RecordBatch) -> int:
    return sum(map(len, filter(None, batch.values)))


_SECONDS = 0.02
_FIRST = 64


class Portion:
    """The number of records that the reader processes in about 20 ms, estimated from its polls; at most `most`."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._returned = 0
        self._returned_at = clock.monotonic()
        self.records = min(_FIRST, most)

    def processed(self) -> None:
        """The reader has processed the last portion."""
        if not self._returned:
            return
        took = self._clock.monotonic() - self._returned_at
        if took > 2 * _SECONDS:
            self.records = max(1, int(self._returned * _SECONDS / took))
        elif took < _SECONDS / 2 and self._returned >= self.records:
            self.records = min(2 * self.records, self._most)

    def returned(self, records: int) -> None:
        """The reader gets this number of records."""
        self._returned = records
        self._returned_at = self._clock.monotonic()


#: A partition with this many bytes waiting is paused until half of them have been chosen.
MOST_WAITING_BYTES = 16_777_216


class ChoosingConsumer(SystemConsumer):
    """Polls all consumers, keeps the records by partition, and returns the chosen ones in their order.

    1. The waiting records of a partition are bounded by `most_waiting` records and `MOST_WAITING_BYTES`, plus one poll;
       then its consumer is paused.
    2. While `bootstrap` lags, the other partitions are not fetched, and nothing is chosen as long as one of its lagging
       streams has nothing waiting.
    3. A poll returns no more than the reader has lately processed in about 20 ms (`Portion`): urgent records wait no
       longer than that.
    """

    def __init__(
        self,
        consumers: Mapping[str, SystemConsumer],
        chooser: Tiered | Batching,
        priority_of: Mapping[SystemStreamPartition, int],
        portion: Portion,
        *,
        most_waiting: int,
        max_idle_s: float,
        bootstrap: Bootstrap | None = None,
    ) -> None:
        """`consumers` by system; `max_idle_s` bounds the wait for one of several."""
        self._consumers = consumers
        self._chooser = chooser
        self._portion = portion
        self._most_waiting = most_waiting
        self._max_idle_s = max_idle_s
        self._bootstrap = bootstrap
        self._buffers: dict[SystemStreamPartition, PartitionBuffer] = {}
        priorities = sorted(set(priority_of.values()), reverse=True)
        by_priority: dict[int, dict[SystemStreamPartition, PartitionBuffer]] = {priority: {} for priority in priorities}
        self._tiers = list(by_priority.values())
        self._tier_of = {ssp: by_priority[priority] for ssp, priority in priority_of.items()}
        self._paused: frozenset[SystemStreamPartition] = frozenset()
        self._full: set[SystemStreamPartition] = set()
        self._shut: frozenset[SystemStreamPartition] = frozenset()

    def start(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        ids: Mapping[SystemStream, str] = MappingProxyType({}),
        epochs: Mapping[SystemStreamPartition, int] = MappingProxyType({}),
    ) -> None:
        self._buffers = {ssp: PartitionBuffer() for ssp in offsets}
        for system, consumer in self._consumers.items():
            consumer.start({ssp: offset for ssp, offset in offsets.items() if ssp.system == system}, ids, epochs)
        if self._bootstrap is not None:
            self._bootstrap.begin(self.position)
            self._shut = frozenset(self._buffers) - self._bootstrap.ssps
            self._pause()
            self._check_bootstrap()

    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        self._portion.processed()
        if self._bootstrap is not None:
            self._check_bootstrap()
        self._poll_all(0.0 if self._may_choose() else timeout_s, max_records)
        chosen = self._choose(min(self._portion.records, max_records)) if self._may_choose() else []
        if self._bootstrap is not None:
            for batch in chosen:
                self._bootstrap.released(batch)
        self._portion.returned(sum(len(batch.offsets) for batch in chosen))
        return chosen

    def epochs(self) -> Mapping[SystemStreamPartition, int]:
        known = [item.epochs() for item in self._consumers.values() if isinstance(item, LeaderEpochs)]
        return {ssp: epoch for epochs in known for ssp, epoch in epochs.items()}

    def position(self, ssp: SystemStreamPartition) -> int:
        buffer = self._buffers[ssp]
        return buffer.offset if len(buffer) else self._consumers[ssp.system].position(ssp)

    def pause(self, ssps: Collection[SystemStreamPartition]) -> None:
        before, self._paused = self._paused, frozenset(ssps)
        for ssp in self._paused - before:
            self._tier_of[ssp].pop(ssp, None)
        self._offer(before - self._paused - self._shut)

    def held_back(self) -> set[SystemStreamPartition]:
        """The partitions that are not paused and may have records that wait in favour of others. They do not count as
        idle for a task's clock."""
        return {ssp for ssp, buffer in self._buffers.items() if len(buffer) or ssp in self._shut}

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def _may_choose(self) -> bool:
        if self._bootstrap is None or not any(self._tiers):
            return any(self._tiers)
        return not self._bootstrap.awaits(self.position, self._paused.union(*self._tiers))

    def _check_bootstrap(self) -> None:
        assert self._bootstrap is not None
        if self._bootstrap.check(self.position):
            opened, self._shut, self._bootstrap = self._shut - self._paused, frozenset(), None
            self._offer(opened)

    def _offer(self, ssps: Iterable[SystemStreamPartition]) -> None:
        """Make these partitions eligible; fetch partitions with too few waiting records."""
        for ssp in ssps:
            if len(self._buffers[ssp]):
                self._tier_of[ssp][ssp] = self._buffers[ssp]
        self._pause()

    def _poll_all(self, timeout_s: float, max_records: int) -> None:
        for consumer in self._consumers.values():
            self._add(consumer.poll(0.0 if len(self._consumers) > 1 else timeout_s, max_records))
        if timeout_s > 0 and len(self._consumers) > 1 and not self._may_choose():
            wait = min(timeout_s, self._max_idle_s) / len(self._consumers)
            for consumer in self._consumers.values():
                self._add(consumer.poll(wait, max_records))

    def _add(self, batches: Iterable[RecordBatch]) -> None:
        for batch in batches:
            ssp = batch.ssp
            buffer = self._buffers[ssp]
            buffer.add(batch)
            if ssp not in self._paused and ssp not in self._shut:
                self._tier_of[ssp][ssp] = buffer
            if ssp not in self._full and (len(buffer) >= self._most_waiting or buffer.size >= MOST_WAITING_BYTES):
                self._full.add(ssp)
                self._pause()

    def _choose(self, most: int) -> list[RecordBatch]:
        chosen: list[RecordBatch] = []
        while most > 0 and (choice := self._chooser.choose(self._tiers, most)) is not None:
            taken = self._take(*choice)
            chosen += taken
            most -= sum(len(batch.offsets) for batch in taken)
        return chosen

    def _take(self, ssp: SystemStreamPartition, records: int) -> list[RecordBatch]:
        buffer = self._tier_of[ssp].pop(ssp)
        taken = []
        while records > 0 and len(buffer):
            batch = buffer.take(records)
            records -= len(batch.offsets)
            taken.append(batch)
        if len(buffer):
            # Behind the others: it has just had its turn.
            self._tier_of[ssp][ssp] = buffer
        if ssp in self._full and len(buffer) <= self._most_waiting // 2 and buffer.size <= MOST_WAITING_BYTES // 2:
            self._full.discard(ssp)
            self._pause()
        return taken

    def _pause(self) -> None:
        """Fetch no partition that is paused or shut, or has enough waiting records."""
        paused = self._paused | self._shut | self._full
        for system, consumer in self._consumers.items():
            consumer.pause({ssp for ssp in paused if ssp.system == system})
