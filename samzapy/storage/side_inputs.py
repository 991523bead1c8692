"""Plans how a store is filled from streams: the partitions with their offsets, and whether its files may be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, SystemAdmin
from samzapy.config.stores.changelogs import StoreSource
from samzapy.errors import EnvironmentFailure, UnknownPartition, UnknownStream
from samzapy.storage.local.marker import Marker, StoreIdentity, foreign, outlived

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
        found = self._partitions(store, task, ssps)
        self._logs: dict[SystemStreamPartition, OffsetRange] = {}
        for system in sorted({ssp.system for ssp in found}):
            self._logs.update(admin_of(system).offsets(ssp for ssp in found if ssp.system == system))
        self._bounds = {ssp: starts[ssp] if source.replayed else log.upcoming for ssp, log in self._logs.items()}

    def _partitions(self, store: str, task: str, ssps: frozenset[SystemStreamPartition]) -> list[SystemStreamPartition]:
        for ssp in self._source.partitions:
            count = self._topics[str(ssp.system_stream)].partitions
            if ssp.partition >= count:
                raise UnknownPartition(ssp.system, ssp.stream, ssp.partition, count)
        if self._source.replayed:
            return sorted(ssp for ssp in ssps if ssp.system_stream in self._source.streams)
        found = set(self._source.partitions)
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
            found |= own
        return sorted(found)

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
        if any(each and each != other for each, other in zip(before, now, strict=True)):
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
