"""Creates, checks and reads the changelog topic of a store.

1. `scan` reads a partition from its beginning to a given end.
2. `first_records` finds the first record in the tail of each partition, if there is one.
3. `ChangelogOrigin` finds the record of an entry that a store cannot read.
4. `ChangelogEnd` detects another writer. The records of a task follow one another without a gap, except for the control
   records that end transactions. So

       before a commit sends anything:    end of the partition == end of the task's own records
       after it:                          offset of its first record == that end

   The check reads the offsets in between, as a reader of committed records. If it finds a record, or stops before an
   open transaction, another writer is at work, and its records would become state at the next restore.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import NamedTuple

from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import (
    OffsetRange,
    RecordBatch,
    StreamDescription,
    StreamSpec,
    SystemAdmin,
    SystemConsumer,
    describe_all,
    read_to,
)
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.stores import StoreConfig
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    ForeignRecords,
    OffsetOutOfRange,
    PositionVoid,
    RestoreStalled,
    RetriableError,
    StateLost,
    StoreError,
    UnknownStream,
)

_SEGMENT_BYTES = 536_870_912
_MAX_MESSAGE_BYTES = 1_000_012
_START_AFRESH = "to start from nothing, delete the checkpoint topic, too"
#: Kafka's default, for a topic without the setting.
_KAFKAS_RETENTION_MS = 604_800_000


def changelog_spec(config: StoreConfig, partitions: int) -> StreamSpec:
    """The topic to create for a store with a changelog; `changelog_properties` win over the defaults.

    Raises ConfigError if they ask for another policy than compaction, unless the store's entries expire anyway.
    """
    stream = changelog_of(config)
    topic = {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(config.changelog_delete_retention_ms),
        "segment.bytes": str(_SEGMENT_BYTES),
        "max.message.bytes": str(_MAX_MESSAGE_BYTES),
        **config.changelog_properties,
    }
    if topic["cleanup.policy"] != "compact" and config.ttl_ms is None:
        key = f"stores.{config.name}.changelog.kafka.cleanup.policy"
        raise ConfigError.of(key, topic["cleanup.policy"], "must be compact: state would be lost")
    return StreamSpec(stream.stream, partitions, topic, config.changelog_replication_factor)


def check_described(description: StreamDescription, config: StoreConfig, partitions: int) -> None:
    """Raise EnvironmentFailure for a changelog that is not compacted or has not exactly `partitions` partitions."""
    check_changelog(description, config)
    if description.partitions != partitions:
        raise EnvironmentFailure(
            f"changelog {description.stream} has {description.partitions} partitions, job has {partitions} tasks; if "
            f"it has grown, copy the store: samzapy store copy JOB.properties {config.name} --to SYSTEM.STREAM"
        )


def find_changelog(admin: SystemAdmin, config: StoreConfig, partitions: int) -> StreamDescription | None:
    """The changelog, checked; None if there is none yet. Changes nothing. Raises as `check_described`."""
    description = admin.describe(changelog_spec(config, partitions).stream)
    if description is not None:
        check_described(description, config, partitions)
    return description


def ensure_changelog(admin: SystemAdmin, config: StoreConfig, partitions: int) -> StreamDescription:
    """Create the changelog if it is missing, and check it. Raises as `check_described`."""
    topic = find_changelog(admin, config, partitions)
    if topic is None:
        spec = changelog_spec(config, partitions)
        admin.create(spec)
        topic = find_changelog(admin, config, partitions)
        if topic is None:
            raise vanished(config, spec.stream)
    return topic


def vanished(config: StoreConfig, stream: str) -> EnvironmentFailure:
    """The error for a changelog that does not exist right after its creation."""
    return EnvironmentFailure(f"changelog {stream} of store '{config.name}' was created but is not there")


class Changelogs:
    """The changelogs of a container's stores, with their ends at the start, when no predecessor of the tasks writes.

    They cost two requests per system, regardless of the number of stores and tasks.
    """

    def __init__(
        self, admin_of: Callable[[str], SystemAdmin], stores: Iterable[StoreConfig], partitions: Collection[int]
    ) -> None:
        """`partitions`: the changelog partitions of the tasks. Raises as `usable`."""
        self._partitions = partitions
        self._found: dict[str, tuple[StreamDescription, Mapping[SystemStreamPartition, OffsetRange]]] = {}
        by_system = grouped((config.changelog.system, config) for config in stores if config.changelog is not None)
        for system, logged in by_system.items():
            self._find(admin_of(system), logged)

    def _find(self, admin: SystemAdmin, stores: Sequence[StoreConfig]) -> None:
        streams = {config.name: changelog_of(config) for config in stores}
        described = describe_all(admin, [stream.stream for stream in streams.values()])
        first = min(self._partitions)
        topics = {config.name: usable(described[changelog_of(config).stream], config, first) for config in stores}
        ssps = {
            name: [
                SystemStreamPartition(*stream, partition)
                for partition in self._partitions
                if partition < topics[name].partitions
            ]
            for name, stream in streams.items()
        }
        logs = admin.offsets(chain.from_iterable(ssps.values()))
        for name, own in ssps.items():
            self._found[name] = topics[name], {ssp: logs[ssp] for ssp in own}

    def get(self, config: StoreConfig, ssp: SystemStreamPartition) -> tuple[StreamDescription, OffsetRange]:
        """The changelog of a store, and the offsets of its partition `ssp`. Raises EnvironmentFailure."""
        topic, logs = self._found[config.name]
        check_partition(topic, ssp.partition)
        return topic, logs[ssp]


def changelog_of(config: StoreConfig) -> SystemStream:
    """The changelog of a store that has one. Raises ConfigError."""
    if config.changelog is None:
        raise ConfigError.of(f"stores.{config.name}.changelog", None, "is required here")
    return config.changelog


def usable(description: StreamDescription | None, config: StoreConfig, partition: int) -> StreamDescription:
    """The changelog as a task needs it. Raises UnknownStream, or EnvironmentFailure if it cannot hold its state."""
    if description is None:
        raise UnknownStream(*changelog_of(config), store=config.name)
    check_changelog(description, config)
    check_partition(description, partition)
    return description


def check_partition(description: StreamDescription, partition: int) -> None:
    """Raise EnvironmentFailure if the topic does not have that partition."""
    if partition >= description.partitions:
        raise EnvironmentFailure(
            f"changelog {description.stream} has {description.partitions} partitions, "
            f"the task needs partition {partition}"
        )


def check_changelog(description: StreamDescription, config: StoreConfig) -> None:
    """Raise EnvironmentFailure unless the topic is only compacted or, for a store with a TTL, keeps records that
    long."""
    policy = description.setting("cleanup.policy") or "delete"
    if config.ttl_ms is not None and policy != "compact":
        kept_bytes = int(description.setting("retention.bytes") or "-1")
        if kept_bytes >= 0:
            raise EnvironmentFailure(
                f"changelog {description.stream} keeps {kept_bytes} bytes of each partition (retention.bytes), "
                "whatever the age of its records: state would be lost; set it to -1"
            )
        kept_ms = int(description.setting("retention.ms") or _KAFKAS_RETENTION_MS)
        if 0 <= kept_ms < config.ttl_ms:
            raise EnvironmentFailure(
                f"changelog {description.stream} keeps records for {kept_ms} ms (retention.ms), "
                f"stores.{config.name}.rocksdb.ttl.ms is {config.ttl_ms}: state would be lost"
            )
    elif policy != "compact":
        raise EnvironmentFailure(f"changelog {description.stream} must be compact (is {policy}): state would be lost")


def check_end(
    ssp: SystemStreamPartition, log: OffsetRange, committed: int, written_to: str | None, stream_id: str, taken: int = 0
) -> None:
    """Raise StateLost if a changelog partition lacks the last record that the task's checkpoint counts: at the offset
    `committed` (-1: none) of the stream `written_to` (None: not known). Records before `taken` were adopted."""
    if committed >= log.upcoming or (written_to not in {None, stream_id} and taken <= committed):
        is_ = f"ends before offset {log.upcoming}" if committed >= log.upcoming else "is of another stream"
        lost = f"changelog {ssp} {is_}, the last checkpoint is at {committed}: it was deleted or created again, and the"
        raise StateLost(f"{lost} state with it", f"if the file named another before, name it again; {_START_AFRESH}")


def check_beginning(ssp: SystemStreamPartition, log: OffsetRange, committed: int) -> None:
    """Raise StateLost if the state of a task that has committed cannot come from the changelog alone: compaction never
    moves the beginning, so records were deleted."""
    if committed >= 0 and log.oldest > 0:
        raise StateLost(
            f"changelog {ssp} begins at offset {log.oldest} instead of 0: records were deleted from it and no local "
            "store or snapshot holds them, so the state would be partial",
            _START_AFRESH,
        )


def delete_retention_ms(description: StreamDescription, config: StoreConfig) -> int:
    """The milliseconds for which the topic keeps deletions: by its configuration, else by the job file."""
    return int(description.setting("delete.retention.ms") or config.changelog_delete_retention_ms)


def max_record_bytes(description: StreamDescription) -> int | None:
    """The largest record (key and value) that the topic takes, None if unknown."""
    limit = description.setting("max.message.bytes")
    return None if limit is None else int(limit)


#: `first_records` needs one record of each partition, but they come in batches.
_FEW_RECORDS = 1_000

_LOG = logging.getLogger(__name__)

#: The total number of seconds that a store spends looking for unreadable entries: they are rare, or everything is
#: broken.
_PATIENCE_S = 20.0

#: Seconds without progress after which an open transaction counts as a record of its writer, and a search ends.
STALL_S = 5.0

_POLL_S = 0.1


@contextmanager
def read_anew(then: str) -> Iterator[None]:
    """Turn an error for records that are gone, or for a stream that was made anew, into a RetriableError: the next
    start finds the present ranges, and refuses them or does what `then` says."""
    try:
        yield
    except (OffsetOutOfRange, PositionVoid) as gone:
        reason = f"{gone.place}: {gone.reason}" if isinstance(gone, PositionVoid) else gone
        raise RetriableError(f"{reason}; {then}") from gone


def scan(
    consumer: SystemConsumer, ssp: SystemStreamPartition, log: OffsetRange, clock: Clock, stall_s: float = 60.0
) -> Iterator[RecordBatch]:
    """The committed records of the range, with a consumer that was not started yet and that the caller closes.

    Raises RestoreStalled when nothing moved for `stall_s` seconds, as before a transaction that stays open.
    """
    if log.oldest >= log.upcoming:
        return
    consumer.start({ssp: log.oldest})
    for batch in read_to(consumer, ssp, log.upcoming, clock, stall_s):
        count = bisect_left(batch.offsets, log.upcoming)
        if count:
            yield batch if count == len(batch.offsets) else batch.part(0, count)


def first_value(batches: Iterator[RecordBatch]) -> int | None:
    """The offset of the first record with a value, None if there is none."""
    for batch in batches:
        for offset, value in zip(batch.offsets, batch.values, strict=True):
            if value is not None:
                return offset
    return None


class Tail(NamedTuple):
    """The offsets of a partition from `start` on, before `bound`. From `known_end` on no record is the task's own
    (None: unknown)."""

    ssp: SystemStreamPartition
    start: int
    bound: int
    known_end: int | None = None


@read_anew("trying again reads what is left")
def first_records(
    tails: Sequence[Tail],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    stall_s: float = 60.0,
    *,
    open_counts: bool = False,
) -> dict[SystemStreamPartition, int]:
    """The offset of the first committed record of each tail that has one; one consumer reads all tails of a system.

    With transactions a partition ends with a commit's control record, so the end offset alone does not show a record.
    The reading stops before an open transaction. After `stall_s` seconds without progress that transaction counts as a
    record if `open_counts`; else RestoreStalled is raised.
    """
    firsts: dict[SystemStreamPartition, int] = {}
    for system in dict.fromkeys(tail.ssp.system for tail in tails):
        left = {tail.ssp: tail for tail in tails if tail.ssp.system == system}
        with closing(consumer_of(system)) as consumer:
            firsts |= _first_of_each(left, consumer, clock, stall_s, open_counts=open_counts)
    return firsts


def _first_of_each(
    left: dict[SystemStreamPartition, Tail],
    consumer: SystemConsumer,
    clock: Clock,
    stall_s: float,
    *,
    open_counts: bool,
) -> dict[SystemStreamPartition, int]:
    starts = positions = {ssp: tail.start for ssp, tail in left.items()}
    consumer.start(starts)
    firsts: dict[SystemStreamPartition, int] = {}
    moved = clock.monotonic()
    while left:
        for batch in consumer.poll(_POLL_S, _FEW_RECORDS):
            if batch.ssp in left and batch.offsets[0] < left[batch.ssp].bound:
                firsts.setdefault(batch.ssp, batch.offsets[0])
        before, positions = positions, {ssp: consumer.position(ssp) for ssp in left}
        done = [ssp for ssp, tail in left.items() if ssp in firsts or positions[ssp] >= tail.bound]
        for ssp in done:
            del left[ssp]
        consumer.pause(starts.keys() - left.keys())
        now = clock.monotonic()
        if positions != before:
            moved = now
        elif left and now - moved > stall_s:
            if open_counts:
                return firsts | {ssp: positions[ssp] for ssp in left}
            where = ", ".join(f"{ssp} at {positions[ssp]} of {tail.bound}" for ssp, tail in left.items())
            raise RestoreStalled(f"looking for records in changelogs made no progress for {stall_s:g} s: {where}")
    return firsts


class ChangelogOrigin:
    """Finds the changelog record of an entry that a store cannot read, as `stream[partition]@offset`.

    An entry in a store has no offset, so its changelog partition is searched for the last equal record. If there is
    none (the entry was changed since the last commit), or the changelog cannot be read or is too long for the time
    limit, only the partition is named.
    """

    def __init__(
        self,
        ssp: SystemStreamPartition,
        admin_of: Callable[[str], SystemAdmin],
        consumer_of: Callable[[str], SystemConsumer],
        clock: Clock,
    ) -> None:
        self._ssp = ssp
        self._admin_of = admin_of
        self._consumer_of = consumer_of
        self._clock = clock
        self._left_s = _PATIENCE_S

    def __call__(self, key: bytes, value: bytes | None) -> str:
        """The position of the record with this key and, unless it is None, this value."""
        began = self._clock.monotonic()
        offset = None
        try:
            if self._left_s > 0:
                offset = self._find(key, value, began + self._left_s)
        except Exception as cause:  # noqa: BLE001 - this is for the text of another error
            _LOG.warning("%s was not searched for the entry that cannot be read: %s", self._ssp, cause)
        self._left_s -= self._clock.monotonic() - began
        return str(self._ssp) if offset is None else f"{self._ssp}@{offset}"

    def _find(self, key: bytes, value: bytes | None, until: float) -> int | None:
        ssp, newest = self._ssp, None
        log = self._admin_of(ssp.system).offsets([ssp])[ssp]
        with closing(self._consumer_of(ssp.system)) as consumer:
            for batch in scan(consumer, ssp, log, self._clock, STALL_S):
                if key in batch.keys:
                    for offset, own, held in zip(batch.offsets, batch.keys, batch.values, strict=True):
                        if own == key and held is not None and (value is None or held == value):
                            newest = offset
                if self._clock.monotonic() > until:
                    return None
        return newest


class ChangelogEnd:
    """The end of the task's records in one changelog partition. One thread."""

    def __init__(
        self,
        store: str,
        ssp: SystemStreamPartition,
        end: int,
        consumer_of: Callable[[str], SystemConsumer],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`end`: the partition's end at the start; everything before it was looked at."""
        self.ssp = ssp
        #: The expected offset of the task's next record: after its records and the end of their transaction.
        self.end = end
        self._own = end
        self._store = store
        self._consumer_of = consumer_of
        self._clock = clock
        self._sent: int | None = None

    def check(self, upcoming: int) -> None:
        """Check the partition, which ends at `upcoming`, without records of the current commit. Raises
        ForeignRecords."""
        if upcoming > self.end:
            self._check_own(upcoming)

    def sent(self, last: int, count: int) -> None:
        """`count` records of the task were acknowledged, the last one at offset `last`. Raises ForeignRecords."""
        first = last - count + 1
        if first < self.end:
            raise StoreError(
                f"store '{self._store}': changelog {self.ssp} ended at offset {self.end}, and a later record got "
                f"offset {first}: it was deleted or created again"
            )
        if first > self.end:
            self._check_own(first)
        self._sent = last

    def committed(self, marker_offsets: int) -> None:
        """The sent records are durable; the end of their transaction took this number of further offsets."""
        if self._sent is not None:
            self._own = self._sent + 1
            self.end = self._own + marker_offsets
            self._sent = None

    def _check_own(self, until: int) -> None:
        """Read from the task's records up to `until`, the place of the expected control record included: only control
        records may be there."""
        tail = Tail(self.ssp, self._own, until)
        foreign = first_records([tail], self._consumer_of, self._clock, STALL_S, open_counts=True)
        if foreign:
            raise foreign_records(self._store, self.ssp, self._own, foreign[self.ssp])
        self.end = self._own = until


def foreign_records(store: str, ssp: SystemStreamPartition, end: int, first: int) -> ForeignRecords:
    """The error for records that the job has not written. The job's records end before `end`, the others begin at
    `first`."""
    own = f"the job's own records end before offset {end}" if end else "the last commit has none of it"
    return ForeignRecords(
        f"{ssp}@{first}: the changelog of store '{store}' holds a record of another writer ({own}); it must not become "
        "state. Find the other writer (was a job file copied with its changelogs, or did a run leave the store out?), "
        f"or keep its records as state: samzapy store adopt JOB.properties {store}",
        ssp,
    )
