"""What a local store says about itself, in the same write as its data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from samzapy.api.system import OffsetRange

FORMAT = 1


@dataclass(frozen=True)
class StoreIdentity:
    """Whose state it is: the job (`name-id`), the store, the changelog's partition, and the changelog topic's id
    (which changes when a topic is deleted and made again; empty without a changelog, the streams' ids and the processor's
    name where a store is filled from streams). `stamped`: its values carry the
    time of their put (`rocksdb.ttl.ms`)."""

    job: str
    store: str
    partition: int
    topic_id: str = ""
    stamped: bool = False


@dataclass(frozen=True)
class Marker:
    """How far a local store has got.

    `changelog_offset`: every changelog record up to it is in the store (-1: none). `input_offsets`: the inputs' next
    offsets at the commit that wrote it, by `system.stream[partition]`; empty after a restore. They may lag behind the
    checkpoint: a commit that changed nothing writes no marker. `time_ms`: no record after `changelog_offset` is older.
    """

    identity: StoreIdentity
    changelog_offset: int
    time_ms: int
    input_offsets: Mapping[str, int] = field(default_factory=dict)
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(
            {
                "format": self.format,
                **asdict(self.identity),
                "changelog_offset": self.changelog_offset,
                "input_offsets": dict(self.input_offsets),
                "time_ms": self.time_ms,
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Marker:
        """The inverse of `to_bytes`. Raises ValueError if it is not that."""
        try:
            read = json.loads(data)
            if read["format"] != FORMAT:
                raise ValueError(f"format {read['format']!r}, this version reads {FORMAT}")
            identity = StoreIdentity(
                str(read["job"]),
                str(read["store"]),
                int(read["partition"]),
                str(read["topic_id"]),
                bool(read.get("stamped", False)),
            )
            return cls(identity, int(read["changelog_offset"]), int(read["time_ms"]), dict(read["input_offsets"]))
        except (KeyError, TypeError) as cause:
            raise ValueError(f"not a marker: {data[:80]!r}") from cause


def refusal(marker: Marker, identity: StoreIdentity, log: OffsetRange, retention_ms: int, now_ms: int) -> str | None:
    """Why a local store with that marker must not be used, as half a sentence; None if it may.

    `log` is the changelog's range now, `retention_ms` its `delete.retention.ms`: a store that is older may hold keys
    whose deletions the changelog no longer tells, unless there is nothing left to read.
    """
    other_log = f"its changelog (id {marker.identity.topic_id}) was replaced by another one (id {identity.topic_id})"
    reason = foreign(marker.identity, identity, other_log)
    if reason:
        return reason
    offset = marker.changelog_offset
    if offset >= log.upcoming:
        return f"it is at changelog offset {offset}, the changelog ends before {log.upcoming}"
    if offset < log.oldest - 1:
        return f"it is at changelog offset {offset}, the changelog begins at {log.oldest}"
    age_ms = now_ms - marker.time_ms
    if age_ms >= retention_ms and offset + 1 < log.upcoming:
        return f"it is {age_ms} ms old, deletions are kept for {retention_ms} ms (delete.retention.ms)"
    return None


def foreign(found: StoreIdentity, wanted: StoreIdentity, other_log: str) -> str | None:
    """Why a store of identity `found` is not the one that is wanted, `other_log` if it comes from elsewhere; None if it is."""
    for what in ("job", "store", "partition"):
        if getattr(found, what) != getattr(wanted, what):
            return f"it belongs to {what} {getattr(found, what)!r}, not {getattr(wanted, what)!r}"
    if found.topic_id != wanted.topic_id:
        return other_log
    if found.stamped != wanted.stamped:
        return f"its values {'carry' if found.stamped else 'lack'} the times of their puts (rocksdb.ttl.ms)"
    return None
