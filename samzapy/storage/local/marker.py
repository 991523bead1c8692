"""The marker of a local store: the identity of its state and its position. Decides whether a store may be used.

1. The engine writes the marker in the same write as the data.
2. `Acceptance` decides about the files of a store with a changelog, `SideInputPlan` about those of a store that is
   filled from streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

import msgspec

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, SystemAdmin
from samzapy.clock import Clock
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.store import StoreSource
from samzapy.errors import ConfigProblem, EnvironmentFailure, UnknownPartition, UnknownStream, raise_if_any
from samzapy.strict_json import LastOffset, Natural, decode, encode

#: The serdes of a store's keys and values, by their identities; empty in markers of older versions.
SerdePair = tuple[str, str]

FORMAT = 1
#: The largest difference between the clocks of two healthy machines, in milliseconds.
_CLOCKS_APART_MS = 600_000


@dataclass(frozen=True)
class StoreIdentity:
    """The owner of a state and the form of its entries: the part of a store's marker that commits do not change.

    The job (`name-id`), the store, the changelog's partition, and the changelog topic's id (which changes when a topic
    is deleted and made again; empty without a changelog, the streams' ids and the processor's name where a store is
    filled from streams). `stamped`: its values carry the time of their put (`rocksdb.ttl.ms`). `key_serde`,
    `msg_serde`: the identities (`serde_identity`) of the serdes of its entries. `deletions_kept_ms`: the lowest
    `delete.retention.ms` of its changelog during its life. The last three are empty in markers of older versions.
    """

    job: str
    store: str
    partition: int
    topic_id: str = ""
    stamped: bool = False
    key_serde: str = ""
    msg_serde: str = ""
    _: KW_ONLY
    deletions_kept_ms: int | None = None

    @property
    def serdes(self) -> tuple[str, str]:
        """The serdes of the store's keys and values."""
        return self.key_serde, self.msg_serde


class _Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A marker as JSON. `stamped` is missing in the oldest markers and always written."""

    format: int
    job: str
    store: str
    partition: Natural
    topic_id: str
    stamped: bool | msgspec.UnsetType = msgspec.UNSET
    key_serde: str = ""
    msg_serde: str = ""
    deletions_kept_ms: Natural | None = None
    changelog_offset: LastOffset
    input_offsets: dict[str, Natural]
    time_ms: Natural


@dataclass(frozen=True)
class Marker:
    """The position of a local store.

    `changelog_offset`: every changelog record up to it is in the store (-1: none). `input_offsets`: the inputs' next
    offsets at the commit that wrote it, by `system.stream[partition]`; empty after a restore. They may lag behind the
    checkpoint: a commit that changed nothing writes no marker. `time_ms`: no record after `changelog_offset` is older.

    The bytes are one JSON object of format 1. Fields that came later are optional, so versions before and after them
    read each other's markers; an empty one is left out, so a marker of an earlier version is written back unchanged.
    """

    identity: StoreIdentity
    changelog_offset: int
    time_ms: int
    input_offsets: Mapping[str, int] = field(default_factory=dict)
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        """The JSON form."""
        return encode(
            _Record(
                format=self.format,
                **vars(self.identity),
                changelog_offset=self.changelog_offset,
                input_offsets=dict(self.input_offsets),
                time_ms=self.time_ms,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Marker:
        """The inverse of `to_bytes`. Raises ValueError, and no other error, for any other bytes."""
        read = decode(_Record, data, FORMAT)
        identity = StoreIdentity(
            read.job,
            read.store,
            read.partition,
            read.topic_id,
            read.stamped is True,
            read.key_serde,
            read.msg_serde,
            deletions_kept_ms=read.deletions_kept_ms,
        )
        return cls(identity, read.changelog_offset, read.time_ms, read.input_offsets)


def outlived(age_ms: int, kept_ms: int) -> str | None:
    """The reason (a clause) why a store of this age may lack deletions that are kept for `kept_ms`; None if it
    cannot."""
    if age_ms < -min(kept_ms, _CLOCKS_APART_MS):
        # The clock was set back, so the true age is unknown.
        return f"its time is {-age_ms} ms ahead of the clock"
    return f"it is {age_ms} ms old" if age_ms >= kept_ms else None


def foreign(actual: StoreIdentity, expected: StoreIdentity, other_log: str) -> str | None:
    """The reason why a store of identity `actual` is not the `expected` one, None if it is. `other_log`: the reason if
    its changelog is another one."""
    for what in ("job", "store", "partition"):
        if getattr(actual, what) != getattr(expected, what):
            return f"it belongs to {what} {getattr(actual, what)!r}, not {getattr(expected, what)!r}"
    if actual.topic_id != expected.topic_id:
        return other_log
    if actual.stamped != expected.stamped:
        return f"its values {'carry' if actual.stamped else 'lack'} the times of their puts (rocksdb.ttl.ms)"
    return None


def serde_changes(store: StoreConfig, written: SerdePair, now: SerdePair) -> Iterator[ConfigProblem]:
    """The problems of giving the serdes `now` to a store that was `written` with others."""
    named = (("key.serde", store.key_serde), ("msg.serde", store.msg_serde))
    for (leaf, configured), before, after in zip(named, written, now, strict=True):
        if before and before != after:
            again = "give it that serde again" if configured else "give it the engine it had"
            message = (
                f"the store was written with {before}, this is {after}: {again}, or copy it to another changelog "
                f"(samzapy store copy JOB.properties {store.name} --to SYSTEM.STREAM)"
            )
            yield ConfigProblem(f"stores.{store.name}.{leaf}", configured or after, message)


@dataclass(frozen=True)
class Acceptance:
    """Decides whether files of a store may be used: by the identity from the job file and the changelog, by the
    changelog's range and `delete.retention.ms`, and by their age. Each call reads the clock, since a wait for a lock or
    a download takes time."""

    config: StoreConfig
    identity: StoreIdentity
    log: OffsetRange
    retention_ms: int
    clock: Clock

    def refusal(self, marker: Marker) -> str | None:
        """The reason (a clause) why files with this marker must not be used; None if they may. Raises as `misfit`."""
        return self.misfit(marker) or self.doubt(marker)

    def misfit(self, marker: Marker) -> str | None:
        """Like `refusal`, but at any age. Raises ConfigError for files of this changelog that were written with other
        serdes: the changelog has those serdes too, so a store rebuilt from it would be no better."""
        actual, expected = marker.identity, self.identity
        replaced = f"its changelog (id {actual.topic_id}) was replaced by another one (id {expected.topic_id})"
        if reason := foreign(actual, expected, replaced):
            return reason
        raise_if_any(serde_changes(self.config, actual.serdes, expected.serdes))
        offset = marker.changelog_offset
        if offset >= self.log.upcoming:
            return f"it is at changelog offset {offset}, the changelog ends before {self.log.upcoming}"
        if offset < self.log.oldest - 1:
            return f"it is at changelog offset {offset}, the changelog begins at {self.log.oldest}"
        return None

    def doubt(self, marker: Marker) -> str | None:
        """The reason why the files must not be used if any changelog record follows them; None if they may.

        The changelog drops deletions after its retention, so an older store may hold deleted keys. The shortest
        retention since the store was made counts.
        """
        if marker.changelog_offset + 1 >= self.log.upcoming:
            return None
        kept_ms = self._kept_ms(marker)
        aged = outlived(self.clock.wall_ms() - marker.time_ms, kept_ms)
        if aged is None:
            return None
        are = "are" if kept_ms == self.retention_ms else "were"
        return f"{aged}, deletions {are} kept for {kept_ms} ms (delete.retention.ms)"

    def identity_from(self, marker: Marker | None) -> StoreIdentity:
        """The identity of the store that continues from these files; `marker` None: from an empty one."""
        kept_ms = self.retention_ms if marker is None else self._kept_ms(marker)
        return replace(self.identity, deletions_kept_ms=kept_ms)

    def _kept_ms(self, marker: Marker) -> int:
        """The lowest `delete.retention.ms` in the life of a store with this marker."""
        known = marker.identity.deletions_kept_ms
        return self.retention_ms if known is None else min(known, self.retention_ms)


_KAFKAS_DELETE_RETENTION_MS = 86_400_000


@dataclass(frozen=True)
class SourceSpan:
    """The part of a partition to read before the task starts: start <= offset < bound."""

    start: int
    bound: int


@dataclass(frozen=True)
class StoreFilling:
    """The remaining work for a store that is filled from streams. `spans`: the parts to read before the task starts;
    `as_of_ms`: no record after their starts is older; `followed`: the store follows the streams while the task runs,
    and is read-only for the task."""

    spans: Mapping[SystemStreamPartition, SourceSpan]
    as_of_ms: int
    followed: bool


class SideInputPlan:
    """The partitions that fill one task's part of a store, with their present offsets.

    Raises UnknownStream, UnknownPartition, EnvironmentFailure if no partition of a stream
    belongs to the task.
    """

    def __init__(
        self,
        store: str,
        source: StoreSource,
        task: str,
        ssps: frozenset[SystemStreamPartition],
        starts: Mapping[SystemStreamPartition, int],
        admin_of: Callable[[str], SystemAdmin],
    ) -> None:
        """`ssps`: the partitions of the task, `starts`: the offset that it starts at in each."""
        self._source = source
        self._topics: dict[str, StreamDescription] = {}
        for stream in sorted(source.all_streams):
            topic = admin_of(stream.system).describe(stream.stream)
            if topic is None:
                raise UnknownStream(stream.system, stream.stream)
            self._topics[str(stream)] = topic
        ssps_to_read = self._partitions(store, task, ssps)
        self._logs: dict[SystemStreamPartition, OffsetRange] = {}
        for system in sorted({ssp.system for ssp in ssps_to_read}):
            self._logs.update(admin_of(system).offsets(ssp for ssp in ssps_to_read if ssp.system == system))
        self._bounds = {ssp: starts[ssp] if source.replayed else log.upcoming for ssp, log in self._logs.items()}

    def _partitions(self, store: str, task: str, ssps: frozenset[SystemStreamPartition]) -> list[SystemStreamPartition]:
        for ssp in self._source.partitions:
            count = self._topics[str(ssp.system_stream)].partitions
            if ssp.partition >= count:
                raise UnknownPartition(ssp.system, ssp.stream, ssp.partition, count)
        if self._source.replayed:
            return sorted(ssp for ssp in ssps if ssp.system_stream in self._source.streams)
        partitions = set(self._source.partitions)
        numbers = {ssp.partition for ssp in ssps}
        for stream in self._source.streams:
            count = self._topics[str(stream)].partitions
            own = {SystemStreamPartition(*stream, number) for number in numbers if number < count}
            if not own:
                raise EnvironmentFailure(
                    f"stores.{store}.side.inputs: {stream} has partitions 0 to {count - 1}, {task} reads "
                    f"{', '.join(map(str, sorted(numbers)))} of its inputs; {stream}#[0-{count - 1}] gives all to "
                    "every task"
                )
            partitions |= own
        return sorted(partitions)

    @property
    def stamp(self) -> str:
        """Identifies the streams and the processor in a store's marker, instead of a changelog's id."""
        ids = ",".join(f"{name}={topic.stream_id}" for name, topic in self._topics.items())
        return f"{self._source.processor} {ids}"

    def filling(self, marker: Marker | None) -> StoreFilling:
        """The remaining work for a store with this marker, None for an empty one."""
        return StoreFilling(self._spans(marker), 0 if marker is None else marker.time_ms, not self._source.replayed)

    def _spans(self, marker: Marker | None) -> dict[SystemStreamPartition, SourceSpan]:
        kept = {} if marker is None else marker.input_offsets
        return {
            ssp: SourceSpan(kept.get(str(ssp), log.oldest), max(self._bounds[ssp], log.oldest))
            for ssp, log in self._logs.items()
        }

    def refusal(self, marker: Marker, identity: StoreIdentity, now_ms: int) -> str | None:
        """The reason why a local store with that marker must not be used, as half a sentence; None if it may."""
        reason = foreign(marker.identity, identity, "it was filled from other streams or by another processor")
        reason = reason or self._has_others(marker)
        if reason:
            return reason
        before, now = marker.identity.serdes, identity.serdes
        if any(written and written != configured for written, configured in zip(before, now, strict=True)):
            return f"it was written with {' and '.join(before)}, the job file has {' and '.join(now)}"
        for ssp, span in self._spans(marker).items():
            log = self._logs[ssp]
            if span.start < log.oldest:
                return f"it is at {ssp}@{span.start}, the stream begins at {log.oldest}"
            if span.start > span.bound:
                ends = "the task starts at" if self._source.replayed else "the stream ends before"
                return f"it is at {ssp}@{span.start}, {ends} {span.bound}"
            if span.start < span.bound and (lost := self._lost_deletions(ssp.system_stream, now_ms - marker.time_ms)):
                return lost
        return None

    def _has_others(self, marker: Marker) -> str | None:
        """The reason (a clause) why the store has entries of a partition that does not fill it any more; None if it has
        none."""
        # The marker of a replayed store names all inputs of the task.
        gone = set() if self._source.replayed else marker.input_offsets.keys() - set(map(str, self._logs))
        return f"it holds entries of {min(gone)}, which no longer fills it" if gone else None

    def _lost_deletions(self, stream: SystemStream, age_ms: int) -> str | None:
        """The reason (a clause) why the stream may have dropped deletions that a store of this age has not seen;
        None if it has not."""
        topic = self._topics[str(stream)]
        if topic.hidden:
            return f"how long {stream} keeps deletions is unknown ({topic.hidden})"
        kept_ms = _deletions_kept_ms(topic)
        aged = None if kept_ms is None else outlived(age_ms, kept_ms)
        return None if aged is None else f"{aged}, {stream} keeps deletions for {kept_ms} ms"


def _deletions_kept_ms(topic: StreamDescription) -> int | None:
    """The milliseconds for which a compacted stream keeps a deletion; None for a stream that keeps every record until
    it is old."""
    if "compact" not in topic.config.get("cleanup.policy", "delete"):
        return None
    return int(topic.config.get("delete.retention.ms", _KAFKAS_DELETE_RETENTION_MS))
