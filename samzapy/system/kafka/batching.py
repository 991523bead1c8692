"""Records in the form of `produce_batch`: one call into librdkafka for many.

It takes neither headers nor a time stamp, and what does not fit its queue stays behind with an error; so only batches
that need nothing else are sent this way, and only when there is room for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from samzapy.api.system import OutgoingRecord

#: Larger batches, in bytes of keys and values, go record by record, waiting for room as they go.
_MOST_BYTES = 8_388_608

Message = dict[str, Any]


def plain_batch(records: Sequence[OutgoingRecord]) -> list[Message] | None:
    """The messages, if all records go to one stream, where librdkafka chooses the partition, and carry nothing more."""
    if not records:
        return None
    streams, keys, values, partitions, partition_keys, headers, timestamps = zip(*records, strict=True)
    count = len(records)
    nothing = partitions.count(None) + partition_keys.count(None) + headers.count(None) + timestamps.count(None)
    if nothing != 4 * count or streams.count(streams[0]) != count:
        return None
    return _messages(zip(keys, values, strict=True), keys, values)


def change_batch(changes: Sequence[tuple[bytes, bytes | None]]) -> list[Message] | None:
    """The messages of a changelog's part of a commit."""
    if not changes:
        return None
    keys, values = zip(*changes, strict=True)
    return _messages(changes, keys, values)


def _messages(
    pairs: Iterable[tuple[Any, Any]], keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> list[Message] | None:
    size = sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
    if size > _MOST_BYTES:
        return None
    return [{"key": key, "value": value} for key, value in pairs]
